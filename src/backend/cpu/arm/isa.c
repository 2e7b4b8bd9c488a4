/* isa.c: what a 64-bit Arm machine can run, and the kernels for it. Every one has NEON; HWCAP says
 * whether it has the products of bytes of Armv8.2 (dotprod) and Armv8.6 (i8mm).
 */
#include <sys/auxv.h>

#include "backend/cpu/kernel_family.h"

MICA_DECLARE_KERNELS(attention_neon);
MICA_DECLARE_KERNELS(delta_neon);
MICA_DECLARE_KERNELS(elementwise_neon);
MICA_DECLARE_KERNELS(flash_neon);
MICA_DECLARE_KERNELS(matmul_neon);
MICA_DECLARE_KERNELS(matmul_i8_neon);
MICA_DECLARE_KERNELS(rows_i8_neon);
MICA_DECLARE_KERNELS(norm_neon);
MICA_DECLARE_KERNELS(parts_neon);
MICA_DECLARE_KERNELS(matmul_i8_dotprod);
MICA_DECLARE_KERNELS(matmul_i8_i8mm);

const kernel_family mica_isa_families[] = {
    {mica_kernels_attention_neon, &mica_n_kernels_attention_neon},
    {mica_kernels_delta_neon, &mica_n_kernels_delta_neon},
    {mica_kernels_elementwise_neon, &mica_n_kernels_elementwise_neon},
    {mica_kernels_flash_neon, &mica_n_kernels_flash_neon},
    {mica_kernels_matmul_neon, &mica_n_kernels_matmul_neon},
    {mica_kernels_matmul_i8_neon, &mica_n_kernels_matmul_i8_neon},
    {mica_kernels_rows_i8_neon, &mica_n_kernels_rows_i8_neon},
    {mica_kernels_norm_neon, &mica_n_kernels_norm_neon},
    {mica_kernels_parts_neon, &mica_n_kernels_parts_neon},
    {mica_kernels_matmul_i8_dotprod, &mica_n_kernels_matmul_i8_dotprod},
    {mica_kernels_matmul_i8_i8mm, &mica_n_kernels_matmul_i8_i8mm},
};
const int mica_n_isa_families = sizeof(mica_isa_families) / sizeof(mica_isa_families[0]);

uint32_t mica_isa_detect(void) {
    uint32_t isas = 1u << ISA_REF | 1u << ISA_NEON;
    if (!(getauxval(AT_HWCAP) >> 20 & 1)) return isas; /* HWCAP_ASIMDDP */
    isas |= 1u << ISA_DOTPROD;
    if (getauxval(AT_HWCAP2) >> 13 & 1) isas |= 1u << ISA_I8MM; /* HWCAP2_I8MM */
    return isas;
}
