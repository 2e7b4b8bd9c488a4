/* peak_neon.c: f32 multiply-adds in 16 sums of 4 lanes, and reads of 16 bytes.
 */
#include <arm_neon.h>

#include "backend/cpu/peak.h"

enum { N_SUMS = 16 };

#define KEEP_NEON(x) __asm__ volatile("" : "+w"(x))

static void f32_rounds(int64_t n_rounds) {
    float32x4_t sum[N_SUMS], a = vdupq_n_f32(0.5f), b = vdupq_n_f32(0.25f);
    for (int k = 0; k < N_SUMS; k++)
        sum[k] = vdupq_n_f32((float)k);
    for (int64_t i = 0; i < n_rounds; i++) {
        KEEP_NEON(a);
#pragma GCC unroll 16
        for (int k = 0; k < N_SUMS; k++)
            sum[k] = vfmaq_f32(sum[k], a, b);
    }
    for (int k = 0; k < N_SUMS; k++)
        KEEP_NEON(sum[k]);
}

static uint64_t read_words(const uint64_t *p, size_t n_words) {
    uint64x2_t sum[8];
    uint64_t all = 0;
    for (int k = 0; k < 8; k++)
        sum[k] = vdupq_n_u64(0);
    for (size_t i = 0; i < n_words; i += 16) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++)
            sum[k] = vaddq_u64(sum[k], vld1q_u64(p + i + 2 * k));
    }
    for (int k = 0; k < 8; k++)
        all += vaddvq_u64(sum[k]);
    return all;
}

const cpu_peak mica_peak_f32_neon = {"f32_neon", PEAK_F32,         ISA_NEON,
                                     NULL,       2.0 * 4 * N_SUMS, f32_rounds};
const cpu_reader mica_reader_neon = {ISA_NEON, read_words};
