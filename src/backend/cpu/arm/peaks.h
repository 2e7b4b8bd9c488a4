/* peaks.h: whether this Arm machine has the byte products that are no part of NEON. */
#ifndef MICA_BACKEND_CPU_ARM_PEAKS_H
#define MICA_BACKEND_CPU_ARM_PEAKS_H

#include "backend/cpu/peak.h"

bool mica_has_dotprod(void);
bool mica_has_i8mm(void);

#endif
