/* peak_avx2.c: f32 multiply-adds (12 sums of 8 lanes: latency 4 or 5, two a cycle), byte products
 * through pairs of 16 bits, and reads of 32 bytes.
 */
#include <immintrin.h>

#include "backend/cpu/peak.h"

enum { N_SUMS = 12, N_BYTE_SUMS = 8 };

static void f32_rounds(int64_t n_rounds) {
    __m256 sum[N_SUMS], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
    for (int k = 0; k < N_SUMS; k++)
        sum[k] = _mm256_set1_ps((float)k);
    for (int64_t i = 0; i < n_rounds; i++) {
        PEAK_KEEP(a);
#pragma GCC unroll 12
        for (int k = 0; k < N_SUMS; k++)
            sum[k] = _mm256_fmadd_ps(a, b, sum[k]);
    }
    for (int k = 0; k < N_SUMS; k++)
        PEAK_KEEP(sum[k]);
}

static void int8_rounds(int64_t n_rounds) {
    __m256i sum[N_BYTE_SUMS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-2);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int k = 0; k < N_BYTE_SUMS; k++)
        sum[k] = _mm256_set1_epi32(k);
    for (int64_t i = 0; i < n_rounds; i++) {
#pragma GCC unroll 8
        for (int k = 0; k < N_BYTE_SUMS; k++) {
            PEAK_KEEP(a);
            __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones);
            sum[k] = _mm256_add_epi32(sum[k], pairs);
        }
    }
    for (int k = 0; k < N_BYTE_SUMS; k++)
        PEAK_KEEP(sum[k]);
}

static uint64_t read_words(const uint64_t *p, size_t n_words) {
    __m256i sum[8];
    uint64_t lanes[4], all = 0;
    for (int k = 0; k < 8; k++)
        sum[k] = _mm256_setzero_si256();
    for (size_t i = 0; i < n_words; i += 32) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++)
            sum[k] = _mm256_add_epi64(
                sum[k], _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 4 * k)));
    }
    for (int k = 0; k < 8; k++) {
        _mm256_storeu_si256((__m256i *)(void *)lanes, sum[k]);
        all += lanes[0] + lanes[1] + lanes[2] + lanes[3];
    }
    return all;
}

const cpu_peak mica_peak_f32_avx2 = {"f32_avx2", PEAK_F32,         ISA_AVX2,
                                     NULL,       2.0 * 8 * N_SUMS, f32_rounds};
const cpu_peak mica_peak_int8_avx2 = {
    "int8_avx2", PEAK_INT8, ISA_AVX2, NULL, 2.0 * 32 * N_BYTE_SUMS, int8_rounds};
const cpu_reader mica_reader_avx2 = {ISA_AVX2, read_words};
