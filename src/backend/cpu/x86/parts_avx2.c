/* parts_avx2.c: attention over parts of the keys, and their join; see vector/parts.h.
 * Profile: fast (lever parts), the bits of ref/parts.c.
 */
#include "backend/cpu/x86/v16_avx2.h"

#include "backend/cpu/vector/parts.h"

MICA_DECLARE_KERNELS(parts_avx2);
const cpu_kernel mica_kernels_parts_avx2[] = {
    {"attention_parts_avx2", OP_ATTENTION_PARTS, ISA_AVX2, parts_declines, parts_n_units, parts_run,
     parts_scratch},
    {"attention_join_avx2", OP_ATTENTION_JOIN, ISA_AVX2, join_declines, join_n_units, join_run,
     join_scratch},
};
const int mica_n_kernels_parts_avx2 = 2;
