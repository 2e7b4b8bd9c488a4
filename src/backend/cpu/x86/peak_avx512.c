/* peak_avx512.c: f32 multiply-adds in 16 sums of 16 lanes, and reads of 64 bytes.
 */
#include <immintrin.h>

#include "backend/cpu/peak.h"

enum { N_SUMS = 16 };

#define KEEP_WIDE(x) __asm__ volatile("" : "+v"(x))

static void f32_rounds(int64_t n_rounds) {
    __m512 sum[N_SUMS], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
    for (int k = 0; k < N_SUMS; k++)
        sum[k] = _mm512_set1_ps((float)k);
    for (int64_t i = 0; i < n_rounds; i++) {
        KEEP_WIDE(a);
#pragma GCC unroll 16
        for (int k = 0; k < N_SUMS; k++)
            sum[k] = _mm512_fmadd_ps(a, b, sum[k]);
    }
    for (int k = 0; k < N_SUMS; k++)
        KEEP_WIDE(sum[k]);
}

static uint64_t read_words(const uint64_t *p, size_t n_words) {
    __m512i sum[8];
    uint64_t all = 0;
    for (int k = 0; k < 8; k++)
        sum[k] = _mm512_setzero_si512();
    for (size_t i = 0; i < n_words; i += 64) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++)
            sum[k] = _mm512_add_epi64(sum[k], _mm512_loadu_si512(p + i + 8 * k));
    }
    for (int k = 0; k < 8; k++)
        all ^= (uint64_t)_mm512_reduce_or_epi64(sum[k]); /* whatever depends on every load */
    return all;
}

const cpu_peak mica_peak_f32_avx512 = {"f32_avx512", PEAK_F32,          ISA_AVX512,
                                       NULL,         2.0 * 16 * N_SUMS, f32_rounds};
const cpu_reader mica_reader_avx512 = {ISA_AVX512, read_words};
