/* pack_hash.c: the hash of packs: XXH3 of xxhash.h, where the build has that header. */
#include "weights/pack_file.h"

#ifdef MICA_HAS_XXHASH
#define XXH_INLINE_ALL
#include <xxhash.h>

bool mica_pack_is_supported(void) { return true; }
uint64_t mica_pack_hash(const void *data, size_t n_bytes) { return XXH3_64bits(data, n_bytes); }
#else
bool mica_pack_is_supported(void) { return false; }
uint64_t mica_pack_hash(const void *data, size_t n_bytes) {
    (void)data;
    (void)n_bytes;
    return 0;
}
#endif
