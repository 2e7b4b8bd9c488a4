/* tiles.h: whether AMX can be used by this process; asks the system for its permission. */
#ifndef MICA_BACKEND_CPU_X86_TILES_H
#define MICA_BACKEND_CPU_X86_TILES_H

#include <stdbool.h>

bool mica_tiles_int8(void);
bool mica_tiles_bf16(void);

#endif
