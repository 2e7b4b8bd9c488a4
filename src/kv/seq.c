/* seq.c: sequences: block tables, and steps as transactions.
 *
 * A reservation only adds: new blocks behind the committed ones, and a private copy of the last
 * block where that is shared and partly filled (the shared one is kept until commit, so that abort
 * can put it back). Rows at or past the committed length may hold anything; nothing reads them. A
 * failed reserve takes nothing, and neither commit nor abort can fail.
 */
#include "kv/blocks.h"

#include <assert.h>
#include <string.h>

typedef struct seq_group {
    int32_t *table; /* [table_length]: block numbers; -1 where nothing is held */
    int64_t first;  /* held entries are [first, end), all of them; end covers every committed row */
    int64_t end;
    int32_t shared; /* block that a copy stands in for until commit; -1: none */
} seq_group;

struct kv_seq {
    kv_pool *pool;
    seq_group *groups;
    int32_t *tables;
    int64_t committed;
    int64_t reserved;
    uint8_t *states;     /* two buffers of state_bytes each */
    int state_in;        /* which of them holds the committed state */
    int64_t last_commit; /* rows by which the other one is older; 0: it is of no use */
};

static int64_t blocks_up_to(int64_t n) { return (n + KV_BLOCK - 1) / KV_BLOCK; }

mica_status mica_kv_seq_new(kv_seq **out, kv_pool *pool, mica_error *err) {
    mica_status st = MICA_OK;
    size_t n_entries = (size_t)pool->n_groups * (size_t)pool->table_length;
    kv_seq *seq = mica_calloc(1, sizeof(*seq));
    if (!seq) return mica_fail(err, MICA_E_NOMEM, "kv cache: out of memory for a sequence");
    seq->groups = mica_calloc((size_t)pool->n_groups, sizeof(*seq->groups));
    seq->tables = mica_calloc(n_entries, sizeof(*seq->tables));
    if (pool->state_bytes) seq->states = mica_calloc(2, pool->state_bytes);
    if (!seq->groups || !seq->tables || (pool->state_bytes && !seq->states)) {
        st = mica_fail(err, MICA_E_NOMEM, "kv cache: out of memory for a sequence");
        goto out;
    }
    memset(seq->tables, 0xFF, n_entries * sizeof(*seq->tables)); /* -1 */
    for (int g = 0; g < pool->n_groups; g++)
        seq->groups[g] = (seq_group){seq->tables + g * pool->table_length, 0, 0, -1};
    seq->pool = pool;
    pool->n_seqs++;
    *out = seq;
    seq = NULL;
out:
    mica_kv_seq_free(seq);
    return st;
}

/* Lets go of entries [begin, end). */
static void drop_entries(kv_seq *seq, int g, int64_t begin, int64_t end) {
    int32_t *table = seq->groups[g].table;
    for (int64_t i = begin; i < end; i++) {
        mica_kv_block_unref(seq->pool, g, table[i]);
        table[i] = -1;
    }
}

/* Lets go of the entries from `end` on. */
static void cut_entries(kv_seq *seq, int g, int64_t end) {
    seq_group *group = &seq->groups[g];
    if (end < group->first) end = group->first;
    if (end >= group->end) return;
    drop_entries(seq, g, end, group->end);
    group->end = end;
}

void mica_kv_seq_free(kv_seq *seq) {
    if (!seq) return;
    if (seq->pool) {
        mica_kv_abort(seq);
        for (int g = 0; g < seq->pool->n_groups; g++)
            drop_entries(seq, g, seq->groups[g].first, seq->groups[g].end);
        seq->pool->n_seqs--;
    }
    mica_free(seq->states);
    mica_free(seq->tables);
    mica_free(seq->groups);
    mica_free(seq);
}

int64_t mica_kv_length(const kv_seq *seq) { return seq->committed; }

/* Gives back the blocks of a sliding group in which the next query sees nothing. */
static void recycle(kv_seq *seq, int g) {
    seq_group *group = &seq->groups[g];
    int64_t keep = mica_oldest_key(seq->pool->groups[g].window, seq->committed) / KV_BLOCK;
    if (keep > group->end) keep = group->end;
    if (keep <= group->first) return;
    drop_entries(seq, g, group->first, keep);
    group->first = keep;
}

/* Whether the next row falls into a block that another sequence holds too. */
static bool last_is_shared(const kv_seq *seq, int g) {
    int64_t i = seq->committed / KV_BLOCK;
    const seq_group *group = &seq->groups[g];
    if (seq->reserved || i < group->first || i >= group->end) return false;
    return seq->pool->groups[g].refs[group->table[i]] > 1;
}

/* Blocks missing in group g for positions below `end`. */
static int64_t n_missing(const kv_seq *seq, int g, int64_t end) {
    int64_t n_new = blocks_up_to(end) - seq->groups[g].end;
    return (n_new > 0 ? n_new : 0) + last_is_shared(seq, g);
}

static void take_blocks(kv_seq *seq, int g, int64_t end) {
    seq_group *group = &seq->groups[g];
    kv_pool *pool = seq->pool;
    if (last_is_shared(seq, g)) {
        int32_t *entry = &group->table[seq->committed / KV_BLOCK];
        group->shared = *entry;
        *entry = mica_kv_block_take(pool, g);
        mica_kv_block_copy(pool, g, *entry, group->shared);
    }
    while (group->end < blocks_up_to(end))
        group->table[group->end++] = mica_kv_block_take(pool, g);
}

mica_status mica_kv_reserve(kv_seq *seq, int64_t n, mica_error *err) {
    kv_pool *pool = seq->pool;
    if (n <= 0)
        return mica_fail(err, MICA_E_INVALID, "kv cache: cannot reserve %lld rows", (long long)n);
    int64_t begin = seq->committed + seq->reserved;
    if (n > pool->max_positions - begin)
        return mica_fail(err, MICA_E_LIMIT,
                         "kv cache: %lld positions are held and %lld more do not fit into %lld",
                         (long long)begin, (long long)n, (long long)pool->max_positions);
    if (n > pool->max_rows - seq->reserved)
        return mica_fail(err, MICA_E_LIMIT, "kv cache: a step of %lld rows; at most %lld",
                         (long long)(seq->reserved + n), (long long)pool->max_rows);
    for (int g = 0; g < pool->n_groups; g++)
        recycle(seq, g);
    for (int g = 0; g < pool->n_groups; g++) {
        int64_t missing = n_missing(seq, g, begin + n);
        if (missing > pool->groups[g].n_free)
            return mica_fail(err, MICA_E_LIMIT,
                             "kv cache: %lld more blocks are needed and %d of %d are free",
                             (long long)missing, pool->groups[g].n_free, pool->groups[g].n_blocks);
    }
    for (int g = 0; g < pool->n_groups; g++)
        take_blocks(seq, g, begin + n);
    seq->reserved += n;
    return MICA_OK;
}

const int32_t *mica_kv_table(const kv_seq *seq, int group) { return seq->groups[group].table; }

int32_t mica_kv_slot(const kv_seq *seq, int group, int64_t pos) {
    assert(pos >= seq->committed && pos < seq->committed + seq->reserved);
    return seq->groups[group].table[pos / KV_BLOCK] * KV_BLOCK + (int32_t)(pos % KV_BLOCK);
}

void mica_kv_commit(kv_seq *seq, int64_t n) {
    assert(n >= 0 && n <= seq->reserved);
    assert(!seq->states || !n || n == seq->reserved);
    if (!n) {
        mica_kv_abort(seq);
        return;
    }
    seq->committed += n;
    seq->reserved = 0;
    for (int g = 0; g < seq->pool->n_groups; g++) {
        seq_group *group = &seq->groups[g];
        if (group->shared >= 0) mica_kv_block_unref(seq->pool, g, group->shared);
        group->shared = -1;
        cut_entries(seq, g, blocks_up_to(seq->committed));
    }
    seq->state_in ^= 1;
    seq->last_commit = n;
}

void mica_kv_abort(kv_seq *seq) {
    if (!seq->reserved) return;
    int64_t last = seq->committed / KV_BLOCK, row = seq->committed % KV_BLOCK;
    for (int g = 0; g < seq->pool->n_groups; g++) {
        seq_group *group = &seq->groups[g];
        if (group->shared >= 0) {
            mica_kv_block_unref(seq->pool, g, group->table[last]);
            group->table[last] = group->shared;
            group->shared = -1;
        } else if (row && last >= group->first) {
            mica_kv_block_poison(seq->pool, g, group->table[last], row);
        }
        cut_entries(seq, g, blocks_up_to(seq->committed));
    }
    seq->reserved = 0;
    seq->last_commit = 0; /* the step may have written the older state */
}

/* Whether the rows that a sequence of `length` shows, and a partly filled last block, are held. */
static bool holds(const kv_seq *seq, int g, int64_t length) {
    int64_t first = mica_oldest_key(seq->pool->groups[g].window, length);
    if (first >= length && length % KV_BLOCK == 0) return true; /* it shows none */
    return first / KV_BLOCK >= seq->groups[g].first;
}

static mica_status check_trim(const kv_seq *seq, int64_t n, mica_error *err) {
    if (n < 0 || n > seq->committed)
        return mica_fail(err, MICA_E_INVALID, "kv cache: cannot drop %lld of %lld positions",
                         (long long)n, (long long)seq->committed);
    if (seq->reserved)
        return mica_fail(err, MICA_E_STATE, "kv cache: cannot trim while a step is in flight");
    if (seq->states && n != seq->committed && n != seq->last_commit)
        return mica_fail(err, MICA_E_STATE,
                         "kv cache: recurrent state can go back by the last step's %lld rows, not "
                         "by %lld",
                         (long long)seq->last_commit, (long long)n);
    for (int g = 0; g < seq->pool->n_groups; g++)
        if (!holds(seq, g, seq->committed - n))
            return mica_fail(err, MICA_E_STATE,
                             "kv cache: cannot go back %lld positions: of a window of %d only "
                             "positions from %lld on are held",
                             (long long)n, seq->pool->groups[g].window,
                             (long long)(seq->groups[g].first * KV_BLOCK));
    return MICA_OK;
}

mica_status mica_kv_trim(kv_seq *seq, int64_t n, mica_error *err) {
    mica_status st = check_trim(seq, n, err);
    if (st || !n) return st;
    seq->committed -= n;
    if (seq->states && n == seq->last_commit)
        seq->state_in ^= 1;
    else if (seq->states)
        memset(seq->states + (size_t)seq->state_in * seq->pool->state_bytes, 0,
               seq->pool->state_bytes);
    seq->last_commit = 0;
    for (int g = 0; g < seq->pool->n_groups; g++) {
        seq_group *group = &seq->groups[g];
        cut_entries(seq, g, blocks_up_to(seq->committed));
        if (group->first == group->end) group->first = group->end = seq->committed / KV_BLOCK;
    }
    return MICA_OK;
}

mica_status mica_kv_fork(kv_seq **out, const kv_seq *seq, mica_error *err) {
    kv_pool *pool = seq->pool;
    if (seq->reserved)
        return mica_fail(err, MICA_E_STATE, "kv cache: cannot fork while a step is in flight");
    kv_seq *copy;
    mica_status st = mica_kv_seq_new(&copy, pool, err);
    if (st) return st;
    copy->committed = seq->committed;
    for (int g = 0; g < pool->n_groups; g++) {
        const seq_group *from = &seq->groups[g];
        seq_group *to = &copy->groups[g];
        to->first = from->first;
        to->end = from->end;
        for (int64_t i = from->first; i < from->end; i++) {
            to->table[i] = from->table[i];
            mica_kv_block_ref(pool, g, from->table[i]);
        }
    }
    if (pool->state_bytes) memcpy(copy->states, mica_kv_state_in(seq), pool->state_bytes);
    *out = copy;
    return MICA_OK;
}

void *mica_kv_state_in(const kv_seq *seq) {
    return seq->states ? seq->states + (size_t)seq->state_in * seq->pool->state_bytes : NULL;
}

void *mica_kv_state_out(const kv_seq *seq) {
    return seq->states ? seq->states + (size_t)(seq->state_in ^ 1) * seq->pool->state_bytes : NULL;
}
