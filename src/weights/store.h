/* store.h: the inside of a weight_store, shared by store.c (names, bookkeeping), take_folder.c,
 * take_packed.c and take_gguf.c (one matrix from each kind of file).
 */
#ifndef MICA_WEIGHTS_STORE_H
#define MICA_WEIGHTS_STORE_H

#include "base/alloc.h"
#include "format/name_index.h"
#include "base/region.h"
#include "weights/quant_spec.h"
#include "weights/repack.h"
#include "weights/weights.h"

typedef struct weight_entry {
    const file_tensor *tensor;
    const char *name; /* canonical, or the file's own when dropped */
    bool is_dropped;  /* by a rule or by the model */
    bool is_used;
    size_t region_off; /* of a GGUF block tensor */
} weight_entry;

typedef struct taken_matrix {
    weight_matrix matrix;
    const weight_entry *entry;
    repack_plan plan; /* n_bytes 0: the file's bytes serve */
    bool is_ready;    /* the streams in the region are there */
    void *memory;     /* codes of other packings re-ordered; NULL: none */
    struct taken_matrix *next;
} taken_matrix;

typedef struct taken_vector {
    weight_vector vector;
    struct taken_vector *next;
} taken_vector;

struct weight_store {
    hf_folder *folder; /* one of the two */
    gguf_file *file;
    weight_options options;
    mica_arena arena;
    weight_entry *entries;
    size_t n_entries;
    name_index names;         /* canonical name -> entry, dropped ones excluded */
    taken_matrix **matrix_of; /* [entries] by the entry of path.weight; NULL: not taken */
    taken_vector **vector_of; /* [entries] */
    taken_matrix *matrices;   /* all */
    mica_region region;       /* of re-ordered GGUF blocks: a place for each tensor */
    quant_map quant;
    bool has_warned;
    uint64_t done_bytes, total_bytes; /* of codes re-ordered */
};

/* NULL: no such tensor. Of path + suffix, or of a full name. */
weight_entry *mica_store_find(const weight_store *store, const char *path, const char *suffix);
const char *mica_store_source(const weight_store *store); /* folder or file, for messages */

/* Fill *m for the tensor `entry` (path.weight); geometry has been checked for dense tensors only.
 * Blocks of a GGUF file get their addresses; what lies there comes with mica_store_make_ready. */
mica_status mica_store_take_folder(weight_store *store, const char *path, weight_entry *entry,
                                   int64_t n_in, weight_matrix *m, mica_error *err);
/* Is the tensor packed by another tool than MLX, as the config says? */
bool mica_store_is_packed(const weight_store *store, const char *path, const weight_entry *entry);
mica_status mica_store_take_packed(weight_store *store, const char *path, weight_entry *entry,
                                   weight_matrix *m, void **memory, mica_error *err);
mica_status mica_store_take_gguf(weight_store *store, const weight_entry *entry,
                                 taken_matrix *taken, mica_error *err);
/* Re-orders the blocks of one matrix in memory. */
mica_status mica_store_make_ready(weight_store *store, taken_matrix *taken, mica_error *err);

#endif
