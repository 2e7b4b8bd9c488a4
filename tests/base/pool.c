/* The pool: every thread runs once, the barrier holds all of them and makes their writes visible,
 * sleeping threads wake, failures to start are clean; and how default thread counts are found. The
 * shared arrays below are plain memory on purpose: a thread sanitizer sees any missing order.
 */
#include "cmocka_base.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/pool.h"
#include "fault_alloc.h"

/* ---- pthread_create that can fail ---- */

int __real_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);

static int creations_left = -1; /* -1: no limit */

int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg) {
    if (creations_left == 0) return EAGAIN;
    if (creations_left > 0) creations_left--;
    return __real_pthread_create(handle, attr, fn, arg);
}

/* ---- runs and barriers ---- */

enum { MAX_THREADS = 256 };

typedef struct phases {
    mica_pool *pool;
    int n_phases;
    int cells[MAX_THREADS]; /* written by its owner before a barrier, read by all after it */
    int n_wrong[MAX_THREADS];
    int delay_us; /* thread (phase mod n) comes this late */
} phases;

static void run_phases(void *arg, int thread, int n_threads) {
    phases *p = arg;
    for (int phase = 1; phase <= p->n_phases; phase++) {
        if (p->delay_us && phase % n_threads == thread) usleep((unsigned)p->delay_us);
        p->cells[thread] = phase * (thread + 1);
        mica_pool_barrier(p->pool, thread);
        for (int t = 0; t < n_threads; t++) {
            p->n_wrong[thread] += p->cells[t] != phase * (t + 1);
        }
        mica_pool_barrier(p->pool, thread);
    }
}

static void check_phases(int n_threads, int n_runs, int n_phases, int delay_us) {
    mica_pool *pool = NULL;
    assert_int_equal(mica_pool_new(&pool, n_threads, NULL), MICA_OK);
    assert_int_equal(mica_pool_threads(pool), n_threads);
    phases p = {.pool = pool, .n_phases = n_phases, .delay_us = delay_us};
    for (int run = 0; run < n_runs; run++) {
        mica_pool_run(pool, run_phases, &p);
        for (int t = 0; t < n_threads; t++) {
            assert_int_equal(p.cells[t], n_phases * (t + 1));
            assert_int_equal(p.n_wrong[t], 0);
            p.cells[t] = 0;
        }
    }
    mica_pool_free(pool);
}

static void barriers_in_a_hurry(void **state) {
    (void)state;
    check_phases(1, 100, 10, 0);
    check_phases(2, 2000, 20, 0);
    check_phases(3, 200, 10, 0);
    check_phases(8, 20, 10, 0);
}

static void barriers_with_sleepers(void **state) {
    (void)state;
    check_phases(2, 20, 20, 200); /* beyond the 50 us of spinning */
    check_phases(5, 5, 20, 60);   /* about as long as it: races of falling asleep and waking */
}

typedef struct meeting {
    mica_pool *pool;
    int n_rounds, n_done; /* n_done: counted by whoever comes last */
    int cells[MAX_THREADS];
    int n_wrong[MAX_THREADS], n_wrong_alone;
} meeting;

static void count_alone(void *arg, int thread, int n_threads) {
    meeting *m = arg;
    (void)thread;
    for (int t = 0; t < n_threads; t++)
        m->n_wrong_alone += m->cells[t] != m->n_done + 1;
    m->n_done++;
}

static void run_meetings(void *arg, int thread, int n_threads) {
    meeting *m = arg;
    (void)n_threads;
    for (int round = 1; round <= m->n_rounds; round++) {
        m->cells[thread] = round;
        mica_pool_meet(m->pool, thread, count_alone, m);
        m->n_wrong[thread] += m->n_done != round;
        mica_pool_barrier(m->pool, thread);
    }
}

/* The last one alone sees what all wrote before, and all see what it wrote. */
static void the_last_one_works_alone(void **state) {
    (void)state;
    static const int n_threads[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        meeting m = {.n_rounds = 200};
        assert_int_equal(mica_pool_new(&m.pool, n_threads[i], NULL), MICA_OK);
        mica_pool_run(m.pool, run_meetings, &m);
        assert_int_equal(m.n_done, m.n_rounds);
        assert_int_equal(m.n_wrong_alone, 0);
        for (int t = 0; t < n_threads[i]; t++)
            assert_int_equal(m.n_wrong[t], 0);
        mica_pool_free(m.pool);
    }
}

static void largest_pool(void **state) {
    (void)state;
    check_phases(MAX_THREADS, 2, 2, 0);
}

typedef struct tally {
    int n_runs[MAX_THREADS];
    int n_threads;
} tally;

static void count_run(void *arg, int thread, int n_threads) {
    tally *t = arg;
    t->n_runs[thread]++;
    if (thread == 0) t->n_threads = n_threads;
}

/* Runs without barriers, one after the other at once and with pauses in which the workers sleep. */
static void runs_follow_each_other(void **state) {
    (void)state;
    mica_pool *pool = NULL;
    assert_int_equal(mica_pool_new(&pool, 4, NULL), MICA_OK);
    tally t = {.n_threads = 0};
    enum { N_FAST = 3000, N_SLOW = 100 };
    for (int i = 0; i < N_FAST + N_SLOW; i++) {
        if (i >= N_FAST) usleep((unsigned)(20 + i % 100));
        mica_pool_run(pool, count_run, &t);
        for (int thread = 0; thread < 4; thread++) {
            assert_int_equal(t.n_runs[thread], i + 1);
        }
    }
    assert_int_equal(t.n_threads, 4);
    mica_pool_free(pool);
}

typedef struct nested {
    mica_pool *inner[2];
    tally tallies[2];
} nested;

static void run_inner(void *arg, int thread, int n_threads) {
    (void)n_threads;
    nested *n = arg;
    for (int i = 0; i < 50; i++) {
        mica_pool_run(n->inner[thread], count_run, &n->tallies[thread]);
    }
}

/* Pools know nothing of each other: each thread of one drives another. */
static void pools_are_independent(void **state) {
    (void)state;
    mica_pool *outer = NULL;
    nested n = {.inner = {NULL, NULL}};
    assert_int_equal(mica_pool_new(&outer, 2, NULL), MICA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mica_pool_new(&n.inner[i], 2, NULL), MICA_OK);
    }
    mica_pool_run(outer, run_inner, &n);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(n.tallies[i].n_runs[0], 50);
        assert_int_equal(n.tallies[i].n_runs[1], 50);
        mica_pool_free(n.inner[i]);
    }
    mica_pool_free(outer);
}

static void unused_pools_are_freed(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        mica_pool *pool = NULL;
        assert_int_equal(mica_pool_new(&pool, 1 + i % 5, NULL), MICA_OK);
        mica_pool_free(pool);
    }
    mica_pool_free(NULL);
}

static void nothing_is_allocated_by_runs(void **state) {
    (void)state;
    mica_pool *pool = NULL;
    assert_int_equal(mica_pool_new(&pool, 3, NULL), MICA_OK);
    fault_alloc_arm(0);
    tally t = {.n_threads = 0};
    for (int i = 0; i < 10; i++) {
        mica_pool_run(pool, count_run, &t);
    }
    assert_int_equal(fault_alloc_calls(), 0);
    mica_pool_free(pool);
}

/* ---- failures ---- */

static void bad_counts(void **state) {
    (void)state;
    mica_pool *pool = NULL;
    mica_error err;
    assert_int_equal(mica_pool_new(&pool, -1, &err), MICA_E_INVALID);
    assert_int_equal(mica_pool_new(&pool, MAX_THREADS + 1, &err), MICA_E_INVALID);
    assert_non_null(strstr(err.message, "257"));
    assert_null(pool);
}

static void threads_that_do_not_start(void **state) {
    (void)state;
    long live = fault_alloc_live();
    for (int n_made = 0; n_made < 4; n_made++) {
        mica_pool *pool = NULL;
        mica_error err;
        creations_left = n_made;
        mica_status st = mica_pool_new(&pool, 5, &err);
        creations_left = -1;
        assert_int_equal(st, MICA_E_NOMEM);
        char expected[32];
        snprintf(expected, sizeof(expected), "thread %d of 5", n_made + 1);
        assert_non_null(strstr(err.message, expected));
        assert_null(pool);
        assert_int_equal(fault_alloc_live(), live);
    }
}

static void memory_that_is_not_there(void **state) {
    (void)state;
    long live = fault_alloc_live();
    int n_failed = 0;
    for (long fail_at = 1; fail_at <= 4; fail_at++) {
        mica_pool *pool = NULL;
        fault_alloc_arm(fail_at);
        mica_status st = mica_pool_new(&pool, 3, NULL);
        fault_alloc_arm(0);
        assert_true(st == MICA_OK || st == MICA_E_NOMEM);
        n_failed += st != MICA_OK;
        mica_pool_free(pool);
        assert_int_equal(fault_alloc_live(), live);
    }
    assert_int_equal(n_failed, 3);
}

/* ---- default counts ---- */

static char root[64];

static void put_file(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int cores_for(const char *membership) {
    put_file("membership", membership);
    char path[128];
    snprintf(path, sizeof(path), "%s/membership", root);
    return mica_cgroup_cores(root, path);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof(root), "/tmp/mica-test-pool-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static void quotas_of_version_2(void **state) {
    (void)state;
    put_file("a/cpu.max", "max 100000\n");
    put_file("a/b/cpu.max", "250000 100000\n");
    put_file("a/b/c/cpu.max", "800000 100000\n");
    put_file("a/b/c/d/other", "");
    put_file("e/cpu.max", "50000 100000\n");
    put_file("f/cpu.max", "400000 100000\n");
    put_file("g/cpu.max", "nonsense\n");
    assert_int_equal(cores_for("0::/a\n"), 0);
    assert_int_equal(cores_for("0::/a/b\n"), 3);
    assert_int_equal(cores_for("0::/a/b/c\n"), 3); /* the group above has less */
    assert_int_equal(cores_for("0::/a/b/c/d\n"), 3);
    assert_int_equal(cores_for("0::/e\n"), 1);
    assert_int_equal(cores_for("0::/f\n"), 4);
    assert_int_equal(cores_for("0::/g\n"), 0);
    assert_int_equal(cores_for("0::/\n"), 0);
    assert_int_equal(cores_for("0::/not/here\n"), 0);
    put_file("cpu.max", "700000 100000\n");
    assert_int_equal(cores_for("0::/\n"), 7);
    assert_int_equal(cores_for("0::/not/here\n"), 7);
    assert_int_equal(cores_for("0::/a/b\n"), 3);
    put_file("cpu.max", "max 100000\n");
}

static void quotas_of_version_1(void **state) {
    (void)state;
    put_file("cpu/x/cpu.cfs_quota_us", "150000\n");
    put_file("cpu/x/cpu.cfs_period_us", "50000\n");
    put_file("cpu/y/cpu.cfs_quota_us", "-1\n");
    put_file("cpu/y/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_for("4:memory:/x\n3:cpuacct,cpu:/x\n"), 3);
    assert_int_equal(cores_for("3:cpu,cpuacct:/x/deeper\n"), 3);
    assert_int_equal(cores_for("3:cpuset:/x\n2:cpuacct:/x\n"), 0);
    assert_int_equal(cores_for("3:cpu:/y\n"), 0);
    assert_int_equal(cores_for("3:cpu:/x\n0::/e\n"), 1); /* the lesser of both */
    assert_int_equal(cores_for("rubbish\n::\n:\n\n"), 0);
    assert_int_equal(mica_cgroup_cores(root, "/nonexistent"), 0);
}

/* One more core is counted for each hardware thread that is the first of its core in the mask. */
static void siblings_count_once(void **state) {
    (void)state;
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int n_cpus = CPU_COUNT(&mask), first = -1;
    assert_int_equal(mica_cores_allowed(root), n_cpus); /* no topology known */
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask)) continue;
        if (first < 0) first = cpu;
        char path[64], list[64];
        snprintf(path, sizeof(path), "cpu%d/topology/thread_siblings_list", cpu);
        snprintf(list, sizeof(list), "%d,%d-%d\n", first, cpu, cpu + 1);
        put_file(path, list);
    }
    assert_int_equal(mica_cores_allowed(root), 1);
    int n_default = mica_default_threads();
    assert_true(n_default >= 1 && n_default <= n_cpus);
    mica_pool *pool = NULL;
    assert_int_equal(mica_pool_new(&pool, 0, NULL), MICA_OK);
    assert_int_equal(mica_pool_threads(pool), n_default);
    mica_pool_free(pool);
}

/* ---- counts ---- */

static void meet_late(void *arg, int thread, int n_threads) {
    (void)n_threads;
    mica_pool *pool = arg;
    if (thread == 0) usleep(2000);
    mica_pool_barrier(pool, thread);
    mica_pool_barrier(pool, thread);
}

/* Two barriers in the function and the one that ends a run; who is late makes the others wait. */
static void barriers_are_counted(void **state) {
    (void)state;
    mica_pool *pool;
    mica_error err;
    assert_int_equal(mica_pool_new(&pool, 3, &err), MICA_OK);
    mica_pool_count_anew(pool, true);
    for (int i = 0; i < 5; i++)
        mica_pool_run(pool, meet_late, pool);
    mica_pool_counts c = mica_pool_counted(pool);
    assert_int_equal(c.n_barriers, 15);
    assert_true(c.wait_s > 2 * 5 * 2e-3 && c.wait_s < 60);
    assert_true(c.n_sleeps >= 5); /* 2 ms are beyond the spinning */
    mica_pool_count_anew(pool, false);
    mica_pool_run(pool, meet_late, pool);
    c = mica_pool_counted(pool);
    assert_int_equal(c.n_barriers, 3);
    assert_true(c.wait_s == 0.0 && c.alone_s == 0.0);
    mica_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_in_a_hurry),
        cmocka_unit_test(barriers_with_sleepers),
        cmocka_unit_test(the_last_one_works_alone),
        cmocka_unit_test(barriers_are_counted),
        cmocka_unit_test(largest_pool),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(pools_are_independent),
        cmocka_unit_test(unused_pools_are_freed),
        cmocka_unit_test(nothing_is_allocated_by_runs),
        cmocka_unit_test(bad_counts),
        cmocka_unit_test(threads_that_do_not_start),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(quotas_of_version_2),
        cmocka_unit_test(quotas_of_version_1),
        cmocka_unit_test(siblings_count_once),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
