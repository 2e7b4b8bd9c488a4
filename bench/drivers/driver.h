/* driver.h: what the two drivers in C share: the requests of bench/peers on standard input.
 *
 * After loading a driver prints {"ready": true, "load_s": ...}. Each request is a line "run P N S": a
 * prompt of P ids made from seed S, then N tokens, greedily. The answer is one line of JSON.
 */
#ifndef MICA_BENCH_DRIVER_H
#define MICA_BENCH_DRIVER_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct driver_request {
    long n_prompt, n_decode, seed;
} driver_request;

static inline double driver_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0: the input has ended or is none of ours. */
static inline int driver_next(driver_request *r) {
    char line[128];
    if (!fgets(line, sizeof(line), stdin)) return 0;
    return sscanf(line, "run %ld %ld %ld", &r->n_prompt, &r->n_decode, &r->seed) == 3;
}

/* The same in every driver: (7919 i + 104729 seed + 11) mod (vocab - 300) + 290. */
static inline int32_t driver_id(long i, long seed, long n_vocab) {
    return (int32_t)((7919 * i + 104729 * seed + 11) % (n_vocab - 300) + 290);
}

static inline long driver_peak_kb(void) {
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (file) fclose(file);
    return kb;
}

static inline void driver_ready(double load_s) {
    printf("{\"ready\": true, \"load_s\": %.6f}\n", load_s);
    fflush(stdout);
}

static inline void driver_answer(double prefill_s, double decode_s, long n_decode, int32_t last,
                                 double bytes_per_token) {
    printf("{\"prefill_s\": %.6f, \"decode_s\": %.6f, \"n_decode\": %ld, \"last\": %d, "
           "\"bytes_per_token\": %.0f, \"peak_kb\": %ld}\n",
           prefill_s, decode_s, n_decode, last, bytes_per_token, driver_peak_kb());
    fflush(stdout);
}

#endif
