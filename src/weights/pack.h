/* pack.h: re-ordered weights kept on disk, so that the next start maps them instead of making them.
 *
 * A pack belongs to one model file: size, modification time and a hash of the head must agree, else
 * it is stale and made anew. Its head and its table have a checksum that every start verifies; each
 * tensor has one that mica_pack_verify holds against the bytes, and so does the first start after
 * the machine was started anew, if the system may not have written the pack in time. A pack is
 * never needed: where it cannot be read or written, weights are re-ordered in memory.
 */
#ifndef MICA_WEIGHTS_PACK_H
#define MICA_WEIGHTS_PACK_H

#include <stdbool.h>

#include "base/pool.h"

typedef enum pack_state {
    PACK_GOOD,
    PACK_STALE,   /* the model file has changed, or is gone */
    PACK_DAMAGED, /* head or table are not what was written */
    PACK_PARTIAL  /* a process ended while writing it */
} pack_state;

typedef struct pack_info {
    const char *path;   /* of the pack */
    const char *source; /* of the model; "" when the head cannot be read */
    uint64_t n_bytes;   /* of the pack on disk */
    uint64_t n_tensors;
    pack_state state;
} pack_info;

const char *mica_pack_state_name(pack_state state);

/* Every pack in `folder`; a folder that is not there has none. Stops when fn returns an error. */
typedef mica_status (*pack_fn)(void *user, const pack_info *info, mica_error *err);
mica_status mica_pack_each(const char *folder, pack_fn fn, void *user, mica_error *err);
/* Holds every byte against its checksum, with all threads of the pool. MICA_E_FORMAT names the
 * first tensor that differs. */
mica_status mica_pack_verify(const char *path, mica_pool *pool, mica_error *err);
/* Where the pack of a model file lies; mica_free it. NULL: out of memory. */
char *mica_pack_path(const char *folder, const char *model_path);

#endif
