/* no_isa.c: an architecture for which only the reference exists.
 */
#include "backend/cpu/kernel_family.h"

const kernel_family mica_isa_families[] = {{NULL, NULL}};
const int mica_n_isa_families = 0;

uint32_t mica_isa_detect(void) { return 1u << ISA_REF; }
