/* limits.h: what this machine can do at most: reading memory, multiplying and adding.
 *
 * Every loop runs on all threads that take part at the same time, several times; the best pass
 * counts, because whatever else the machine did only made the others slower.
 */
#ifndef MICA_BACKEND_CPU_LIMITS_H
#define MICA_BACKEND_CPU_LIMITS_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/peak.h"

enum { LIMITS_MAX_THREADS = 256, LIMITS_MAX_PEAKS = 16 };

typedef struct cpu_peak_rate {
    const cpu_peak *peak;
    double one_ops, all_ops; /* operations/s of one thread and of all */
} cpu_peak_rate;

typedef struct cpu_limits {
    int n_threads;
    double read_bps[LIMITS_MAX_THREADS + 1]; /* by the number of threads that read */
    cpu_isa read_isa;
    cpu_peak_rate peaks[LIMITS_MAX_PEAKS];
    int n_peaks;
} cpu_limits;

/* n_bytes: of the memory that is read; far more than the caches hold. With only_all, reading by all
 * threads alone is measured, and peaks by all threads alone. */
mica_status mica_cpu_measure_limits(cpu_backend *backend, size_t n_bytes, bool only_all,
                                    cpu_limits *out, mica_error *err);
/* The fastest of a kind; NULL: none was measured. */
const cpu_peak_rate *mica_cpu_best_peak(const cpu_limits *limits, peak_kind kind);
const char *mica_cpu_peak_kind_name(peak_kind kind); /* "int8" */

#endif
