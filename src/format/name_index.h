/* name_index.h: a hash table from names to places in an array, for tensors and metadata keys.
 *
 * Names are borrowed: they must outlive the index. Lookups take constant time, so that a model of a
 * hundred thousand tensors is built in one pass.
 */
#ifndef MICA_FORMAT_NAME_INDEX_H
#define MICA_FORMAT_NAME_INDEX_H

#include <stdbool.h>

#include "base/alloc.h"

#define MICA_NAME_ABSENT SIZE_MAX

typedef struct name_slot {
    const char *name; /* NULL: free */
    uint64_t n;
    size_t idx;
} name_slot;

typedef struct name_index {
    name_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n_used;
} name_index;

/* A zeroed struct is an empty index; no init is needed. */
void mica_name_index_deinit(name_index *index);
/* The place stored for a name, or MICA_NAME_ABSENT. */
size_t mica_name_index_find(const name_index *index, const char *name, uint64_t n);
/* Adds name -> idx. *was_there: the name exists already, and nothing was changed. */
mica_status mica_name_index_add(name_index *index, const char *name, uint64_t n, size_t idx,
                                bool *was_there, mica_error *err);

#endif
