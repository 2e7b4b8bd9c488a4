/* dispatch.c: the kernel table: the reference first, then each ISA in rising order.
 *
 * The best kernel for a call is the last one in the table that does not decline; a mask (MICA_CPU)
 * takes the higher ISAs away, for tests.
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernel_family.h"

MICA_DECLARE_KERNELS(attention_ref);
MICA_DECLARE_KERNELS(attention_rows_ref);
MICA_DECLARE_KERNELS(conv_ref);
MICA_DECLARE_KERNELS(delta_ref);
MICA_DECLARE_KERNELS(elementwise_ref);
MICA_DECLARE_KERNELS(embed_ref);
MICA_DECLARE_KERNELS(flash_ref);
MICA_DECLARE_KERNELS(glu_ref);
MICA_DECLARE_KERNELS(matmul_bf16_ref);
MICA_DECLARE_KERNELS(matmul_i8_ref);
MICA_DECLARE_KERNELS(matmul_ref);
MICA_DECLARE_KERNELS(moe_ref);
MICA_DECLARE_KERNELS(norm_ref);
MICA_DECLARE_KERNELS(parts_ref);
MICA_DECLARE_KERNELS(rope_ref);
MICA_DECLARE_KERNELS(rows_i8_ref);
MICA_DECLARE_KERNELS(scan_ref);
MICA_DECLARE_KERNELS(train_ref);

static const kernel_family ref_families[] = {
    {mica_kernels_attention_ref, &mica_n_kernels_attention_ref},
    {mica_kernels_attention_rows_ref, &mica_n_kernels_attention_rows_ref},
    {mica_kernels_conv_ref, &mica_n_kernels_conv_ref},
    {mica_kernels_delta_ref, &mica_n_kernels_delta_ref},
    {mica_kernels_elementwise_ref, &mica_n_kernels_elementwise_ref},
    {mica_kernels_embed_ref, &mica_n_kernels_embed_ref},
    {mica_kernels_flash_ref, &mica_n_kernels_flash_ref},
    {mica_kernels_glu_ref, &mica_n_kernels_glu_ref},
    {mica_kernels_matmul_bf16_ref, &mica_n_kernels_matmul_bf16_ref},
    {mica_kernels_matmul_i8_ref, &mica_n_kernels_matmul_i8_ref},
    {mica_kernels_matmul_ref, &mica_n_kernels_matmul_ref},
    {mica_kernels_moe_ref, &mica_n_kernels_moe_ref},
    {mica_kernels_norm_ref, &mica_n_kernels_norm_ref},
    {mica_kernels_parts_ref, &mica_n_kernels_parts_ref},
    {mica_kernels_rope_ref, &mica_n_kernels_rope_ref},
    {mica_kernels_rows_i8_ref, &mica_n_kernels_rows_i8_ref},
    {mica_kernels_scan_ref, &mica_n_kernels_scan_ref},
    {mica_kernels_train_ref, &mica_n_kernels_train_ref},
};

/* The highest ISA that a mask lets through, and those of the same architecture below it. */
typedef struct isa_name {
    const char *name;
    uint32_t allowed;
} isa_name;

static const isa_name names[ISA_N] = {
    [ISA_REF] = {"ref", 1u << ISA_REF},
    [ISA_AVX2] = {"avx2", 1u << ISA_REF | 1u << ISA_AVX2},
    [ISA_AVX512] = {"avx512", 1u << ISA_REF | 1u << ISA_AVX2 | 1u << ISA_AVX512},
    [ISA_AVX512VNNI] = {"avx512vnni",
                        1u << ISA_REF | 1u << ISA_AVX2 | 1u << ISA_AVX512 | 1u << ISA_AVX512VNNI},
    [ISA_AMX] = {"amx", 1u << ISA_REF | 1u << ISA_AVX2 | 1u << ISA_AVX512 | 1u << ISA_AVX512VNNI |
                            1u << ISA_AMX},
    [ISA_NEON] = {"neon", 1u << ISA_REF | 1u << ISA_NEON},
    [ISA_DOTPROD] = {"dotprod", 1u << ISA_REF | 1u << ISA_NEON | 1u << ISA_DOTPROD},
    [ISA_I8MM] = {"i8mm", 1u << ISA_REF | 1u << ISA_NEON | 1u << ISA_DOTPROD | 1u << ISA_I8MM},
};

const char *mica_cpu_isa_name(cpu_isa isa) {
    return (unsigned)isa < ISA_N ? names[isa].name : "unknown";
}

bool mica_cpu_isa_available(cpu_isa isa) {
    return (unsigned)isa < ISA_N && (mica_isa_detect() >> isa & 1u);
}

static void add_families(cpu_table *table, const kernel_family *families, int n) {
    const int capacity = sizeof(table->kernels) / sizeof(table->kernels[0]);
    for (int f = 0; f < n; f++) {
        for (int i = 0; i < *families[f].n_kernels; i++) {
            const cpu_kernel *k = &families[f].kernels[i];
            if (table->isa_mask >> k->isa & 1u && table->n_kernels < capacity)
                table->kernels[table->n_kernels++] = k;
        }
    }
}

static void fill_table(cpu_table *table, uint32_t isa_mask) {
    memset(table, 0, sizeof(*table));
    table->isa_mask = isa_mask;
    add_families(table, ref_families, sizeof(ref_families) / sizeof(ref_families[0]));
    add_families(table, mica_isa_families, mica_n_isa_families);
}

mica_status mica_cpu_table_init(cpu_table *table, const char *mask, mica_error *err) {
    uint32_t allowed = UINT32_MAX;
    if (mask && *mask) {
        allowed = 0;
        for (int i = 0; i < ISA_N; i++)
            if (strcmp(mask, names[i].name) == 0) allowed = names[i].allowed;
        if (!allowed)
            return mica_fail(err, MICA_E_INVALID,
                             "MICA_CPU: unknown instruction set \"%s\"; use ref, avx2, avx512, "
                             "avx512vnni, amx, neon, dotprod, i8mm, or nothing for the best "
                             "one",
                             mask);
    }
    fill_table(table, mica_isa_detect() & allowed);
    return MICA_OK;
}

void mica_cpu_table_all(cpu_table *table) { fill_table(table, UINT32_MAX); }

const cpu_kernel *mica_cpu_find_kernel(const cpu_table *table, const kernel_call *call,
                                       const char **why) {
    *why = "no kernel of this build does this operation";
    for (int i = table->n_kernels - 1; i >= 0; i--) {
        const cpu_kernel *k = table->kernels[i];
        if (k->op != call->op) continue;
        const char *refusal = k->declines(call);
        if (!refusal) return k;
        *why = refusal;
    }
    return NULL;
}
