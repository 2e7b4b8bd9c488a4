/* peak_avx512vnni.c: dots of four bytes in 16 sums of 16 lanes.
 */
#include <immintrin.h>

#include "backend/cpu/peak.h"

enum { N_SUMS = 16 };

#define KEEP_WIDE(x) __asm__ volatile("" : "+v"(x))

static void int8_rounds(int64_t n_rounds) {
    __m512i sum[N_SUMS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-2);
    for (int k = 0; k < N_SUMS; k++)
        sum[k] = _mm512_set1_epi32(k);
    for (int64_t i = 0; i < n_rounds; i++) {
        KEEP_WIDE(a);
#pragma GCC unroll 16
        for (int k = 0; k < N_SUMS; k++)
            sum[k] = _mm512_dpbusd_epi32(sum[k], a, b);
    }
    for (int k = 0; k < N_SUMS; k++)
        KEEP_WIDE(sum[k]);
}

const cpu_peak mica_peak_int8_avx512vnni = {"int8_avx512vnni", PEAK_INT8,  ISA_AVX512VNNI, NULL,
                                            2.0 * 64 * N_SUMS, int8_rounds};
