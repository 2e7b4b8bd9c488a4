/* pool.h: a fixed set of threads that run one function together, with a barrier inside.
 *
 * The caller is thread 0. Waiting spins for at most 50 us, then sleeps. Nothing is allocated after
 * mica_pool_new. One run at a time per pool.
 */
#ifndef MICA_BASE_POOL_H
#define MICA_BASE_POOL_H

#include <stdbool.h>

#include "base/status.h"

typedef struct mica_pool mica_pool;
typedef void (*mica_pool_fn)(void *arg, int thread, int n_threads);

/* n_threads 0: mica_default_threads(). At least 1, at most 256. */
mica_status mica_pool_new(mica_pool **out, int n_threads, mica_error *err);
void mica_pool_free(mica_pool *pool); /* NULL is fine; joins the threads */
int mica_pool_threads(const mica_pool *pool);

/* Runs fn(arg, t, n) on every thread t and returns when all have returned. */
void mica_pool_run(mica_pool *pool, mica_pool_fn fn, void *arg);
/* Inside a run: returns when all threads of the pool have called it. Everything written before it
 * by any thread is visible to every thread after it. */
void mica_pool_barrier(mica_pool *pool, int thread);
/* The same, and whoever comes last calls fn(arg, thread, n) with its own arg before the others go
 * on: after all that the others wrote before, before all that they do after. */
void mica_pool_meet(mica_pool *pool, int thread, mica_pool_fn fn, void *arg);

/* What barriers have cost since mica_pool_count_anew; both are called between runs.
 * Barriers are always counted, sleeps and times only when they are asked for. */
typedef struct mica_pool_counts {
    uint64_t n_barriers; /* as one thread sees them */
    uint64_t n_sleeps;   /* of all threads: waits that outlasted the spinning */
    double wait_s;  /* of all threads together: between a thread's arrival and the last one's */
    double alone_s; /* what the last ones did before they let the others go */
} mica_pool_counts;
void mica_pool_count_anew(mica_pool *pool, bool is_timing);
mica_pool_counts mica_pool_counted(const mica_pool *pool);

/* The least of the physical cores in the affinity mask and the cgroup quota rounded up; at least 1.
 */
int mica_default_threads(void);

#endif
