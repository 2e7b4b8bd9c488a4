/* parts_avx512.c: attention over parts of the keys, and their join; see vector/parts.h.
 * Profile: fast (lever parts), the bits of ref/parts.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/parts.h"

MICA_DECLARE_KERNELS(parts_avx512);
const cpu_kernel mica_kernels_parts_avx512[] = {
    {"attention_parts_avx512", OP_ATTENTION_PARTS, ISA_AVX512, parts_declines, parts_n_units,
     parts_run, parts_scratch},
    {"attention_join_avx512", OP_ATTENTION_JOIN, ISA_AVX512, join_declines, join_n_units, join_run,
     join_scratch},
};
const int mica_n_kernels_parts_avx512 = 2;
