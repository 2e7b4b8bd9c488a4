/* kv.h: the cache: pools of blocks of 64 positions, sequences, and steps as transactions.
 *
 * Layers that share a window form a group; one block table serves all layers of a group, the
 * storage is per layer (graph.h: kv_layout). A sequence is a block table per group, a committed
 * length and recurrent state. reserve gives room, commit makes rows visible; without commit nothing
 * happened.
 */
#ifndef MICA_KV_KV_H
#define MICA_KV_KV_H

#include "graph/graph.h"

typedef struct kv_pool kv_pool;
typedef struct kv_seq kv_seq;

typedef struct kv_layer_spec {
    int32_t group;
    kv_layout layout;
} kv_layer_spec;

typedef struct kv_pool_spec {
    const int32_t *windows; /* [n_groups], as in mica_oldest_key; 0: full attention */
    int n_groups;
    const kv_layer_spec *layers; /* [n_layers], in the order of the graph's cache layers */
    int n_layers;
    int64_t max_positions; /* longest sequence; rounded up to whole blocks */
    int64_t max_rows;      /* most rows of one sequence in flight in one step */
    int64_t max_seqs;      /* sequences at full length for which there must be room */
    size_t state_bytes;    /* recurrent state of one sequence, one buffer; 0: none */
} kv_pool_spec;

/* Reserves address space for every layer; pages cost memory only once written, and bases never
 * move. */
mica_status mica_kv_pool_new(kv_pool **out, const kv_pool_spec *spec, mica_error *err);
void mica_kv_pool_free(kv_pool *pool); /* all sequences must be gone */
void *mica_kv_pool_base(const kv_pool *pool, int layer);
int64_t mica_kv_pool_blocks_used(const kv_pool *pool, int group);
uint64_t mica_kv_pool_bytes_used(const kv_pool *pool); /* blocks in use times their size */
int64_t mica_kv_table_length(const kv_pool *pool);     /* entries of a block table */

mica_status mica_kv_seq_new(kv_seq **out, kv_pool *pool, mica_error *err);
void mica_kv_seq_free(kv_seq *seq);
int64_t mica_kv_length(const kv_seq *seq); /* committed positions */

/* Room for n more positions in every group, all or nothing. Recycles blocks of sliding groups that
 * the committed state can no longer see; copies a shared, partly filled last block (copy on write).
 * MICA_E_LIMIT names both numbers; nothing was taken then. Calling it again before commit extends
 * the room. */
mica_status mica_kv_reserve(kv_seq *seq, int64_t n, mica_error *err);
/* Block table of a group: entry pos/64, -1 where nothing is held. Valid until the next call. */
const int32_t *mica_kv_table(const kv_seq *seq, int group);
/* Where position pos (committed <= pos < committed + reserved) is written: block*64 + pos%64. */
int32_t mica_kv_slot(const kv_seq *seq, int group, int64_t pos);
/* Makes the first n reserved positions visible and gives back what else was reserved; n = 0 is an
 * abort. With recurrent state n is 0 or all of them. Cannot fail. */
void mica_kv_commit(kv_seq *seq, int64_t n);
/* Forgets the reservation; the sequence is as before reserve. Cannot fail. */
void mica_kv_abort(kv_seq *seq);
/* Drops the newest n positions. MICA_E_STATE when a sliding group no longer holds what the shorter
 * sequence would see, when recurrent state cannot go back, or while a step is in flight. What the
 * last commit added can always be dropped. */
mica_status mica_kv_trim(kv_seq *seq, int64_t n, mica_error *err);
/* A second sequence with the same content; blocks are shared until written. MICA_E_STATE while a
 * step is in flight. */
mica_status mica_kv_fork(kv_seq **out, const kv_seq *seq, mica_error *err);

/* Recurrent state, double-buffered: a step reads `in`, writes `out`; commit flips them. NULL if the
 * pool has none. A fresh sequence's state is zero. */
void *mica_kv_state_in(const kv_seq *seq);
void *mica_kv_state_out(const kv_seq *seq);

#endif
