/* region.h: address space that is reserved first and filled later, piece by piece, with memory of
 * its own or with a file's bytes: what lies in it has its address before it has its content.
 */
#ifndef MICA_BASE_REGION_H
#define MICA_BASE_REGION_H

#include "base/status.h"

/* Pieces begin at multiples of this. */
#define MICA_REGION_PAGE 4096

typedef struct mica_region {
    uint8_t *data; /* on a boundary of huge pages; NULL: nothing is reserved */
    size_t n_bytes;
    void *reserved;
    size_t n_reserved;
} mica_region;

mica_status mica_region_reserve(mica_region *r, size_t n_bytes, mica_error *err);
void mica_region_release(mica_region *r); /* zeros are fine */
/* Zeroed memory for [off, off + n_bytes). Huge pages were tried: reads are not faster, and finding
 * them took the system longer than everything else. */
mica_status mica_region_commit(mica_region *r, size_t off, size_t n_bytes, mica_error *err);
/* The bytes of file `fd` from `file_off`, read-only. */
mica_status mica_region_map(mica_region *r, size_t off, size_t n_bytes, int fd, uint64_t file_off,
                            mica_error *err);

#endif
