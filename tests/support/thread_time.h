/* thread_time.h: the clock of tests that hold work against a limit: other work on the machine does
 * not count.
 */
#ifndef MICA_TESTS_THREAD_TIME_H
#define MICA_TESTS_THREAD_TIME_H

#include <time.h>

/* Seconds that this thread has run. */
static inline double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
