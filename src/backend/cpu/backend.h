/* backend.h: what a CPU backend holds; private to its own files. */
#ifndef MICA_BACKEND_CPU_BACKEND_H
#define MICA_BACKEND_CPU_BACKEND_H

#include "backend/cpu/cpu.h"

struct cpu_backend {
    mica_pool *pool;
    cpu_table table;
    plan_target target;
};

#endif
