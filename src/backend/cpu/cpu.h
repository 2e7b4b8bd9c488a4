/* cpu.h: the CPU backend: kernel table, executor.
 */
#ifndef MICA_BACKEND_CPU_CPU_H
#define MICA_BACKEND_CPU_CPU_H

#include "backend/cpu/kernel.h"
#include "base/pool.h"
#include "plan/target.h"

/* ---- dispatch: which kernels this machine may use ---- */
typedef struct cpu_table {
    const cpu_kernel *kernels[256]; /* reference first, then rising ISA */
    int n_kernels;
    uint32_t isa_mask; /* bit per cpu_isa */
} cpu_table;

/* CPUID (or HWCAP), masked: mask "" or NULL: all; "ref", "avx2", "avx512", "avx512vnni", "amx",
 * "neon", "dotprod" or "i8mm": up to that one. MICA_E_INVALID: unknown mask name, listing them. */
mica_status mica_cpu_table_init(cpu_table *table, const char *mask, mica_error *err);
/* The best kernel for the call: the last in the table that does not decline. NULL: none; *why gets
 * the last refusal. */
const cpu_kernel *mica_cpu_find_kernel(const cpu_table *table, const kernel_call *call,
                                       const char **why);
const char *mica_cpu_isa_name(cpu_isa isa);
/* Every kernel that this build has, whatever the machine, for the kernel check. */
void mica_cpu_table_all(cpu_table *table);
bool mica_cpu_isa_available(cpu_isa isa);

/* ---- backend ---- */
typedef struct cpu_backend cpu_backend;

/* n_threads 0: default. The ISA mask is the environment variable MICA_CPU unless `mask` is given.
 */
mica_status mica_cpu_new(cpu_backend **out, int n_threads, const char *mask, mica_error *err);
void mica_cpu_free(cpu_backend *backend);
const plan_target *mica_cpu_target(const cpu_backend *backend);
int mica_cpu_threads(const cpu_backend *backend);
mica_pool *mica_cpu_pool(const cpu_backend *backend); /* for other work between runs */
const cpu_table *mica_cpu_get_table(const cpu_backend *backend);

/* ---- executor: one plan with its arena ---- */
typedef struct cpu_exec cpu_exec;

/* Allocates the arena, the scratch of each thread and the resolved calls. `p` is borrowed. */
mica_status mica_cpu_exec_new(cpu_exec **out, cpu_backend *backend, const plan *p, mica_error *err);
void mica_cpu_exec_free(cpu_exec *exec);
/* Replays the plan. No allocation. MICA_E_INVALID: a symbol above its bound. */
mica_status mica_cpu_exec_run(cpu_exec *exec, const plan_inputs *inputs, mica_error *err);
/* Address of output i after a run; valid until the next one. */
const void *mica_cpu_exec_output(const cpu_exec *exec, int i);

/* Memory bandwidth of a plain read with all threads of the backend, bytes/s: reads `n_bytes` of
 * fresh memory several times and takes the best. For bench. */
mica_status mica_cpu_read_bandwidth(cpu_backend *backend, size_t n_bytes, double *out,
                                    mica_error *err);

#endif
