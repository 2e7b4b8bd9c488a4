/* attention_avx512.c: attention and the cache write over 16 lanes; see vector/attention.h.
 * Profile: exact, the bits of ref/attention.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/attention.h"

MICA_DECLARE_KERNELS(attention_avx512);
const cpu_kernel mica_kernels_attention_avx512[] = {
    {"attention_avx512", OP_ATTENTION, ISA_AVX512, declines_attention, n_units_heads, run_attention,
     scratch_head},
    {"kv_write_avx512", OP_KV_WRITE, ISA_AVX512, declines_kv_write, n_units_slots, run_kv_write,
     NULL},
};
const int mica_n_kernels_attention_avx512 = 2;
