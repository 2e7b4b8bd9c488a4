/* kernel_family.h: the arrays of kernels as dispatch.c and the ISA lists see them.
 */
#ifndef MICA_BACKEND_CPU_KERNEL_FAMILY_H
#define MICA_BACKEND_CPU_KERNEL_FAMILY_H

#include "backend/cpu/kernel.h"

typedef struct kernel_family {
    const cpu_kernel *kernels;
    const int *n_kernels;
} kernel_family;

/* What the build's architecture has beyond the reference, in rising ISA order (x86/isa.c,
 * arm/isa.c, or ref/no_isa.c elsewhere). */
extern const kernel_family mica_isa_families[];
extern const int mica_n_isa_families;
/* Bit per cpu_isa: what this machine and its system can run. ISA_REF is always set. */
uint32_t mica_isa_detect(void);

#endif
