/* pool.c: the thread pool and its barrier.
 *
 * Two counters only ever grow: `run_epoch` starts a run, `barrier_epoch` lets the waiting threads
 * of a barrier go; a run ends with a barrier. Whoever waits for a counter to move spins for a while
 * and then sleeps on one condition variable. No wake-up is lost: a sleeper registers in
 * `n_sleepers` and then looks at the counter, a publisher moves the counter and then looks at
 * `n_sleepers`, all sequentially consistent, so that one of them sees the other.
 */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/relax.h"

enum { MAX_THREADS = 256, CACHE_LINE = 64, SPINS_PER_LOOK = 64 };

static const double spin_s = 50e-6;

typedef struct pool_worker {
    mica_pool *pool;
    pthread_t handle;
    int thread;
} pool_worker;

/* Of one thread, which alone writes them; relaxed, on a line of their own. */
typedef struct pool_counter {
    alignas(CACHE_LINE) _Atomic uint64_t n_barriers;
    _Atomic uint64_t n_sleeps, wait_ns, alone_ns;
} pool_counter;

struct mica_pool {
    int n_threads;
    int n_workers; /* started so far; thread t is worker t - 1 */
    bool is_stopping;
    mica_pool_fn fn;
    void *arg;
    pool_worker *workers;
    pool_counter *counters; /* [n_threads] */
    atomic_bool is_timing;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    alignas(CACHE_LINE) atomic_uint run_epoch;
    alignas(CACHE_LINE) atomic_uint barrier_epoch;
    alignas(CACHE_LINE) atomic_int n_arrived;
    alignas(CACHE_LINE) atomic_int n_sleepers;
};

/* ---- waiting ---- */

static bool spin_until_moved(atomic_uint *epoch, unsigned old) {
    double deadline = 0.0;
    for (;;) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(epoch, memory_order_acquire) != old) return true;
            mica_relax();
        }
        double now = mica_now_s();
        if (deadline == 0.0) deadline = now + spin_s;
        if (now >= deadline) return false;
    }
}

/* True: it slept. */
static bool wait_until_moved(mica_pool *pool, atomic_uint *epoch, unsigned old) {
    if (spin_until_moved(epoch, old)) return false;
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->n_sleepers, 1);
    while (atomic_load(epoch) == old) {
        pthread_cond_wait(&pool->moved, &pool->mutex);
    }
    atomic_fetch_sub(&pool->n_sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return true;
}

static void move(mica_pool *pool, atomic_uint *epoch) {
    atomic_fetch_add(epoch, 1);
    if (atomic_load(&pool->n_sleepers) == 0) return;
    /* A sleeper that has registered holds the mutex until it really sleeps. */
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->moved);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- counting ---- */

static void count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* 0.0: nobody wants to know. */
static double timing_now_s(const mica_pool *pool) {
    return atomic_load_explicit(&pool->is_timing, memory_order_relaxed) ? mica_now_s() : 0.0;
}

static void count_since(_Atomic uint64_t *ns, double begin_s) {
    if (begin_s != 0.0) count(ns, (uint64_t)((mica_now_s() - begin_s) * 1e9));
}

static void do_nothing(void *arg, int thread, int n_threads) {
    (void)arg;
    (void)thread;
    (void)n_threads;
}

/* Threads may still be on their way out of the last run's barrier and count it: who has come to
 * another run's has done so, and that one is not timed. */
void mica_pool_count_anew(mica_pool *pool, bool is_timing) {
    atomic_store(&pool->is_timing, false);
    mica_pool_run(pool, do_nothing, NULL);
    atomic_store(&pool->is_timing, is_timing);
    for (int t = 0; t < pool->n_threads; t++) {
        pool_counter *c = &pool->counters[t];
        atomic_store(&c->n_barriers, 0);
        atomic_store(&c->n_sleeps, 0);
        atomic_store(&c->wait_ns, 0);
        atomic_store(&c->alone_ns, 0);
    }
}

mica_pool_counts mica_pool_counted(const mica_pool *pool) {
    mica_pool_counts sum = {.n_barriers = atomic_load(&pool->counters[0].n_barriers)};
    for (int t = 0; t < pool->n_threads; t++) {
        sum.n_sleeps += atomic_load(&pool->counters[t].n_sleeps);
        sum.wait_s += 1e-9 * (double)atomic_load(&pool->counters[t].wait_ns);
        sum.alone_s += 1e-9 * (double)atomic_load(&pool->counters[t].alone_ns);
    }
    return sum;
}

/* ---- running ---- */

void mica_pool_meet(mica_pool *pool, int thread, mica_pool_fn fn, void *arg) {
    /* It cannot move before this thread has arrived. */
    unsigned old = atomic_load_explicit(&pool->barrier_epoch, memory_order_relaxed);
    pool_counter *counter = &pool->counters[thread];
    double begin_s = timing_now_s(pool);
    count(&counter->n_barriers, 1);
    int n_before = atomic_fetch_add_explicit(&pool->n_arrived, 1, memory_order_acq_rel);
    if (n_before + 1 < pool->n_threads) {
        bool slept = wait_until_moved(pool, &pool->barrier_epoch, old);
        if (begin_s != 0.0) count(&counter->n_sleeps, slept);
        count_since(&counter->wait_ns, begin_s);
        return;
    }
    /* Acquire-release above: what the others wrote before they arrived is seen from here on. */
    if (fn) fn(arg, thread, pool->n_threads);
    count_since(&counter->alone_ns, begin_s);
    atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
    if (pool->n_threads > 1) move(pool, &pool->barrier_epoch);
}

void mica_pool_barrier(mica_pool *pool, int thread) { mica_pool_meet(pool, thread, NULL, NULL); }

static void *worker_main(void *arg) {
    const pool_worker *worker = arg;
    mica_pool *pool = worker->pool;
    for (unsigned epoch = 0;; epoch++) {
        wait_until_moved(pool, &pool->run_epoch, epoch);
        if (pool->is_stopping) return NULL;
        pool->fn(pool->arg, worker->thread, pool->n_threads);
        mica_pool_barrier(pool, worker->thread);
    }
}

void mica_pool_run(mica_pool *pool, mica_pool_fn fn, void *arg) {
    if (pool->n_threads > 1) {
        pool->fn = fn;
        pool->arg = arg;
        move(pool, &pool->run_epoch);
    }
    fn(arg, 0, pool->n_threads);
    mica_pool_barrier(pool, 0);
}

int mica_pool_threads(const mica_pool *pool) { return pool->n_threads; }

/* ---- life ---- */

/* Signals are the business of the program's own threads: workers are made with all of them blocked.
 */
static int start_workers(mica_pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    while (!failure && pool->n_workers < pool->n_threads - 1) {
        pool_worker *worker = &pool->workers[pool->n_workers];
        worker->pool = pool;
        worker->thread = pool->n_workers + 1;
        failure = pthread_create(&worker->handle, NULL, worker_main, worker);
        if (!failure) pool->n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

static mica_pool *new_pool(int n_threads) {
    mica_pool *pool = mica_aligned_alloc(CACHE_LINE, sizeof(*pool));
    if (!pool) return NULL;
    *pool = (mica_pool){.n_threads = n_threads};
    size_t n_counters = (size_t)n_threads * sizeof(*pool->counters);
    pool->workers = mica_calloc((size_t)n_threads, sizeof(*pool->workers));
    pool->counters = mica_aligned_alloc(CACHE_LINE, n_counters);
    if (!pool->workers || !pool->counters) {
        mica_free(pool->workers);
        mica_free(pool->counters);
        mica_free(pool);
        return NULL;
    }
    memset(pool->counters, 0, n_counters);
    /* On Linux neither can fail without attributes. */
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->moved, NULL);
    return pool;
}

mica_status mica_pool_new(mica_pool **out, int n_threads, mica_error *err) {
    if (n_threads == 0) n_threads = mica_default_threads();
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        return mica_fail(err, MICA_E_INVALID, "%d threads: expected 1 to %d", n_threads,
                         MAX_THREADS);
    }
    mica_pool *pool = new_pool(n_threads);
    if (!pool) return mica_fail(err, MICA_E_NOMEM, "thread pool: out of memory");
    int failure = start_workers(pool);
    if (failure) {
        mica_status st = mica_fail_errno(err, MICA_E_NOMEM, failure,
                                         "thread %d of %d cannot be started; ask for fewer threads",
                                         pool->n_workers + 1, n_threads);
        mica_pool_free(pool);
        return st;
    }
    *out = pool;
    return MICA_OK;
}

void mica_pool_free(mica_pool *pool) {
    if (!pool) return;
    pool->is_stopping = true;
    move(pool, &pool->run_epoch);
    for (int i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->workers[i].handle, NULL);
    }
    pthread_cond_destroy(&pool->moved);
    pthread_mutex_destroy(&pool->mutex);
    mica_free(pool->workers);
    mica_free(pool->counters);
    mica_free(pool);
}
