/* peak_i8mm.c: products of 2 x 8 by 8 x 2 bytes in 16 sums.
 */
#include <arm_neon.h>

#include "backend/cpu/peak.h"

enum { N_SUMS = 16 };

#define KEEP_NEON(x) __asm__ volatile("" : "+w"(x))

static void int8_rounds(int64_t n_rounds) {
    int32x4_t sum[N_SUMS];
    int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(-2);
    for (int k = 0; k < N_SUMS; k++)
        sum[k] = vdupq_n_s32(k);
    for (int64_t i = 0; i < n_rounds; i++) {
        KEEP_NEON(a);
#pragma GCC unroll 16
        for (int k = 0; k < N_SUMS; k++)
            sum[k] = vmmlaq_s32(sum[k], a, b);
    }
    for (int k = 0; k < N_SUMS; k++)
        KEEP_NEON(sum[k]);
}

const cpu_peak mica_peak_int8_i8mm = {"int8_i8mm", PEAK_INT8,         ISA_I8MM,
                                      NULL,        2.0 * 32 * N_SUMS, int8_rounds};
