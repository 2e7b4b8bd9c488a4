/* pack_file.h: the file of a pack: head, table, data; private to weights.
 *
 * Offsets of data are those of the store's region, so that one mapping serves all tensors.
 */
#ifndef MICA_WEIGHTS_PACK_FILE_H
#define MICA_WEIGHTS_PACK_FILE_H

#include "weights/pack.h"

/* Raised whenever packed bytes change their meaning. */
#define PACK_LAYOUT 2
#define PACK_NAME_BYTES 112
#define PACK_SOURCE_BYTES 3840

typedef struct pack_key {
    uint64_t file_bytes, mtime_ns, head_hash;
} pack_key;

typedef struct pack_entry {
    char name[PACK_NAME_BYTES];
    uint64_t off; /* of the region */
    uint64_t n_bytes;
    uint64_t checksum;
    uint64_t padding;
} pack_entry;

/* Zeros at first; closed by mica_pack_close. */
typedef struct pack_file {
    int fd; /* -1: not open */
    char *path, *temporary;
    pack_entry *entries;
    uint64_t n_entries;
    uint64_t data_off;
    bool is_open;
} pack_file;

/* Whether this build can make packs: it needs xxhash. */
bool mica_pack_is_supported(void);
uint64_t mica_pack_hash(const void *data, size_t n_bytes);

/* Size and time of a model: of a file, or of all safetensors of a folder added up. False: it is not
 * there. */
bool mica_pack_source(const char *path, uint64_t *n_bytes, uint64_t *mtime_ns);

/* Opens a pack that fits the key and holds n entries as given (name, off, n_bytes). False: there is
 * none of use; nothing is open. With `pool`, a pack of an earlier start of the machine is verified.
 */
bool mica_pack_open(pack_file *p, const char *path, const pack_key *key, const pack_entry *wanted,
                    uint64_t n_wanted, mica_pool *pool);
/* Makes room for a new one under a temporary name. False: no room, no permission, no folder. */
bool mica_pack_create(pack_file *p, const char *path, uint64_t n_entries, uint64_t n_data);
bool mica_pack_put(const pack_file *p, uint64_t off, const void *data, size_t n_bytes);
/* Checksums the data, writes table and head, gives the file its name. */
bool mica_pack_finish(pack_file *p, const pack_key *key, const char *source,
                      const pack_entry *entries, uint64_t n_entries, uint64_t n_data,
                      mica_pool *pool);
void mica_pack_close(pack_file *p); /* an unfinished one is removed */

#endif
