/* attention_neon.c: attention and the cache write over 16 lanes; see vector/attention.h.
 * Profile: exact, the bits of ref/attention.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/attention.h"

MICA_DECLARE_KERNELS(attention_neon);
const cpu_kernel mica_kernels_attention_neon[] = {
    {"attention_neon", OP_ATTENTION, ISA_NEON, declines_attention, n_units_heads, run_attention,
     scratch_head},
    {"kv_write_neon", OP_KV_WRITE, ISA_NEON, declines_kv_write, n_units_slots, run_kv_write, NULL},
};
const int mica_n_kernels_attention_neon = 2;
