/* store.h: the inside of a weight_store, shared by store.c (names, bookkeeping), take_folder.c,
 * take_packed.c and take_gguf.c (one matrix from each kind of file), taken.c and pack_store.c
 * (making them).
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
    size_t region_off; /* of a matrix that is made (taken.c) */
} weight_entry;

typedef struct taken_matrix {
    weight_matrix matrix;
    const weight_entry *entry;
    const file_tensor *scales, *biases; /* of a folder's matrix that is to lie in panels */
    repack_plan plan;                   /* n_bytes 0: the file's bytes serve */
    bool is_ready;                      /* the streams in the region are there */
    void *memory;                       /* codes of other packings re-ordered; NULL: none */
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
    mica_region region;       /* of matrices that are made: a place for each */
    size_t region_end;        /* of what is given away */
    quant_map quant;
    bool has_warned;
    uint64_t done_bytes, total_bytes; /* of the file, re-ordered */
};

/* NULL: no such tensor. Of path + suffix, or of a full name. */
weight_entry *mica_store_find(const weight_store *store, const char *path, const char *suffix);
const char *mica_store_source(const weight_store *store); /* folder or file, for messages */

/* Fill *m for the tensor `entry` (path.weight); geometry has been checked for dense tensors only.
 * Blocks of a GGUF file get their addresses; what lies there comes with mica_store_make_ready. */
mica_status mica_store_take_folder(weight_store *store, const char *path, weight_entry *entry,
                                   int64_t n_in, taken_matrix *taken, mica_error *err);
/* Gives a folder's matrix, taken where it lies, a place in the region, in panels. */
mica_status mica_store_take_panels(weight_store *store, weight_entry *entry,
                                   const file_tensor *scales, const file_tensor *biases,
                                   taken_matrix *taken, mica_error *err);
/* Is the tensor packed by another tool than MLX, as the config says? */
bool mica_store_is_packed(const weight_store *store, const char *path, const weight_entry *entry);
mica_status mica_store_take_packed(weight_store *store, const char *path, weight_entry *entry,
                                   weight_matrix *m, void **memory, mica_error *err);
mica_status mica_store_take_gguf(weight_store *store, const weight_entry *entry,
                                 taken_matrix *taken, mica_error *err);
/* Makes one matrix in memory. */
mica_status mica_store_make_ready(weight_store *store, taken_matrix *taken, mica_error *err);

/* ---- what a matrix is made from, in units: blocks of a GGUF tensor, rows of a folder's ---- */
uint64_t mica_taken_units(const taken_matrix *t);
uint64_t mica_taken_unit_bytes(const taken_matrix *t); /* in the file */
/* Of n units alone; false on overflow. And the streams of a plan, as mica_repack_streams. */
bool mica_taken_plan(const taken_matrix *t, uint64_t n_units, repack_plan *out);
void mica_taken_streams(const taken_matrix *t, const repack_plan *plan, size_t off[REPACK_STREAMS],
                        size_t unit_bytes[REPACK_STREAMS]);
/* Units [first, first + n), whole panels, into the memory at `base` that `plan` lays out, the first
 * one as unit `plan_first` of the plan. */
void mica_taken_make(const taken_matrix *t, uint64_t first, uint64_t n, const repack_plan *plan,
                     uint64_t plan_first, uint8_t *base);
/* Their pages will be needed soon, or not again. */
void mica_taken_want(const taken_matrix *t, uint64_t first, uint64_t n);
void mica_taken_drop(const taken_matrix *t, uint64_t first, uint64_t n);

#endif
