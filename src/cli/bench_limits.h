/* bench_limits.h: `mica bench --limits`, and the same numbers inside other reports. */
#ifndef MICA_CLI_BENCH_LIMITS_H
#define MICA_CLI_BENCH_LIMITS_H

#include "backend/cpu/limits.h"
#include "base/json.h"

/* Far more than caches hold. */
#define BENCH_READ_BYTES ((size_t)1 << 30)

/* Measures and prints; the process's exit code. threads 0: default. */
int mica_bench_limits(int n_threads, bool json);
/* An object with what was measured: read_gbps by the number of threads, peaks in Gop/s. */
void mica_bench_put_limits(json_writer *w, const cpu_limits *limits);

#endif
