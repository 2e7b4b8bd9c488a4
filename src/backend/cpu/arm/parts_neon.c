/* parts_neon.c: attention over parts of the keys, and their join; see vector/parts.h.
 * Profile: fast (lever parts), the bits of ref/parts.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/parts.h"

MICA_DECLARE_KERNELS(parts_neon);
const cpu_kernel mica_kernels_parts_neon[] = {
    {"attention_parts_neon", OP_ATTENTION_PARTS, ISA_NEON, parts_declines, parts_n_units, parts_run,
     parts_scratch},
    {"attention_join_neon", OP_ATTENTION_JOIN, ISA_NEON, join_declines, join_n_units, join_run,
     join_scratch},
};
const int mica_n_kernels_parts_neon = 2;
