/* isa.c: what an x86-64 machine can run, and the kernels for it.
 *
 * avx2 needs AVX2, FMA, BMI2 and F16C; avx512 needs F, BW, DQ and VL as well, avx512vnni also VNNI
 * and VBMI, amx also AVX512-BF16, tiles in bf16 and the system's leave to use them. The system must
 * save the wider registers: XCR0 says so.
 */
#include <cpuid.h>

#include "backend/cpu/kernel_family.h"
#include "backend/cpu/x86/tiles.h"

MICA_DECLARE_KERNELS(attention_avx2);
MICA_DECLARE_KERNELS(delta_avx2);
MICA_DECLARE_KERNELS(elementwise_avx2);
MICA_DECLARE_KERNELS(flash_avx2);
MICA_DECLARE_KERNELS(matmul_avx2);
MICA_DECLARE_KERNELS(matmul_i8_avx2);
MICA_DECLARE_KERNELS(rows_i8_avx2);
MICA_DECLARE_KERNELS(norm_avx2);
MICA_DECLARE_KERNELS(parts_avx2);
MICA_DECLARE_KERNELS(attention_avx512);
MICA_DECLARE_KERNELS(delta_avx512);
MICA_DECLARE_KERNELS(elementwise_avx512);
MICA_DECLARE_KERNELS(flash_avx512);
MICA_DECLARE_KERNELS(matmul_avx512);
MICA_DECLARE_KERNELS(norm_avx512);
MICA_DECLARE_KERNELS(parts_avx512);
MICA_DECLARE_KERNELS(matmul_i8_avx512vnni);
MICA_DECLARE_KERNELS(rows_i8_avx512vnni);
MICA_DECLARE_KERNELS(matmul_bf16_amx);

const kernel_family mica_isa_families[] = {
    {mica_kernels_attention_avx2, &mica_n_kernels_attention_avx2},
    {mica_kernels_delta_avx2, &mica_n_kernels_delta_avx2},
    {mica_kernels_elementwise_avx2, &mica_n_kernels_elementwise_avx2},
    {mica_kernels_flash_avx2, &mica_n_kernels_flash_avx2},
    {mica_kernels_matmul_avx2, &mica_n_kernels_matmul_avx2},
    {mica_kernels_matmul_i8_avx2, &mica_n_kernels_matmul_i8_avx2},
    {mica_kernels_rows_i8_avx2, &mica_n_kernels_rows_i8_avx2},
    {mica_kernels_norm_avx2, &mica_n_kernels_norm_avx2},
    {mica_kernels_parts_avx2, &mica_n_kernels_parts_avx2},
    {mica_kernels_attention_avx512, &mica_n_kernels_attention_avx512},
    {mica_kernels_delta_avx512, &mica_n_kernels_delta_avx512},
    {mica_kernels_elementwise_avx512, &mica_n_kernels_elementwise_avx512},
    {mica_kernels_flash_avx512, &mica_n_kernels_flash_avx512},
    {mica_kernels_matmul_avx512, &mica_n_kernels_matmul_avx512},
    {mica_kernels_norm_avx512, &mica_n_kernels_norm_avx512},
    {mica_kernels_parts_avx512, &mica_n_kernels_parts_avx512},
    {mica_kernels_matmul_i8_avx512vnni, &mica_n_kernels_matmul_i8_avx512vnni},
    {mica_kernels_rows_i8_avx512vnni, &mica_n_kernels_rows_i8_avx512vnni},
    {mica_kernels_matmul_bf16_amx, &mica_n_kernels_matmul_bf16_amx},
};
const int mica_n_isa_families = sizeof(mica_isa_families) / sizeof(mica_isa_families[0]);

#define HAS(word, bit) ((word) >> (bit)&1u)

static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

uint32_t mica_isa_detect(void) {
    uint32_t isas = 1u << ISA_REF, a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return isas;
    bool f16c = HAS(c, 29), avx = HAS(c, 28), osxsave = HAS(c, 27), fma = HAS(c, 12);
    if (!f16c || !fma || !avx || !osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return isas;
    uint32_t saved = saved_registers();
    if (!HAS(b, 5) || !HAS(b, 8) || (saved & 0x6u) != 0x6u)
        return isas; /* AVX2, BMI2; SSE and AVX state */
    isas |= 1u << ISA_AVX2;
    bool avx512 = HAS(b, 16) && HAS(b, 17) && HAS(b, 30) && HAS(b, 31); /* F, DQ, BW, VL */
    if (!avx512 || (saved & 0xE6u) != 0xE6u) return isas;
    isas |= 1u << ISA_AVX512;
    if (!HAS(c, 11) || !HAS(c, 1)) return isas; /* VNNI, VBMI */
    isas |= 1u << ISA_AVX512VNNI;
    bool bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) && HAS(a, 5);
    if (bf16 && mica_tiles_bf16()) isas |= 1u << ISA_AMX;
    return isas;
}
