/* seq.c: random operations on sequences against a slow model, a list of rows.
 *
 * Every row written gets a number of its own, stored at the start of its K and V row of each head
 * and layer. The model keeps, for each sequence, the numbers of its committed rows and, for each
 * sliding group, the oldest position that may still be held. After each operation every sequence
 * must show exactly its rows, and the pool must count exactly the blocks that the tables name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"

#include "base/rng.h"
#include "kv/blocks.h"

enum { MAX_LEN = 700, MAX_SEQS = 6, N_GROUPS = 4, N_LAYERS = 5 };

typedef struct rows {
    kv_seq *seq;
    uint32_t row[MAX_LEN + 64];
    int64_t n;
    int64_t pending;
    int64_t held_from[N_GROUPS]; /* the model's own account of recycling */
} rows;

typedef struct world {
    kv_pool *pool;
    int32_t windows[N_GROUPS];
    kv_layer_spec layers[N_LAYERS];
    int64_t max_rows, max_len;
    rows r[MAX_SEQS];
    uint32_t next_row;
    mica_rng_key key;
    uint32_t n_draws;
} world;

static uint32_t draw(world *w, uint32_t n) {
    uint32_t x, y;
    mica_threefry(w->key, w->n_draws++, 0, &x, &y);
    return x % n;
}

static uint8_t *row_at(const world *w, int layer, int32_t slot, int32_t head, bool v) {
    const kv_layout *y = &w->layers[layer].layout;
    size_t element = mica_dtype_bytes(y->dtype);
    size_t dim = (size_t)(v ? y->v_head_dim : y->head_dim);
    uint8_t *block =
        (uint8_t *)mica_kv_pool_base(w->pool, layer) + (size_t)(slot / 64) * y->block_bytes;
    if (v) block += y->k_bytes;
    return block + ((size_t)head * 64 + (size_t)(slot % 64)) * dim * element;
}

static void write_row(const world *w, int layer, int32_t slot, uint32_t number) {
    for (int32_t h = 0; h < w->layers[layer].layout.n_kv_heads; h++)
        for (int v = 0; v < 2; v++) {
            uint32_t x = number * 8u + (uint32_t)h * 2u + (uint32_t)v;
            memcpy(row_at(w, layer, slot, h, v), &x, 4);
        }
}

static void expect_row(const world *w, int layer, int32_t slot, uint32_t number) {
    for (int32_t h = 0; h < w->layers[layer].layout.n_kv_heads; h++)
        for (int v = 0; v < 2; v++) {
            uint32_t x;
            memcpy(&x, row_at(w, layer, slot, h, v), 4);
            assert_int_equal(x, number * 8u + (uint32_t)h * 2u + (uint32_t)v);
        }
}

/* The oldest position that p sees: max(0, p-W+1); with chunks, the start of its own. */
static int64_t oldest(int64_t window, int64_t p) {
    if (window < 0) return p / -window * -window;
    return window && p - window + 1 > 0 ? p - window + 1 : 0;
}

/* What a query at position p sees, by the formula: its oldest position .. p. */
static void expect_visible(const world *w, const rows *r, int64_t p) {
    for (int l = 0; l < N_LAYERS; l++) {
        int g = w->layers[l].group;
        int64_t from = oldest(w->windows[g], p);
        const int32_t *table = mica_kv_table(r->seq, g);
        for (int64_t i = from; i <= p && i < r->n + r->pending; i++) {
            assert_true(table[i / 64] >= 0);
            expect_row(w, l, table[i / 64] * 64 + (int32_t)(i % 64), r->row[i]);
        }
    }
}

/* Counts each block that some table names once. */
static void expect_counts(const world *w) {
    uint64_t n_bytes = 0;
    int64_t length = mica_kv_table_length(w->pool);
    for (int g = 0; g < N_GROUPS; g++) {
        uint32_t *holders = calloc((size_t)w->pool->groups[g].n_blocks, sizeof(*holders));
        int64_t n_used = 0;
        bool copied = false;
        for (int s = 0; s < MAX_SEQS; s++) {
            if (!w->r[s].seq) continue;
            const int32_t *table = mica_kv_table(w->r[s].seq, g);
            for (int64_t i = 0; i < length; i++)
                if (table[i] >= 0) holders[table[i]]++;
            if (w->r[s].pending) copied = true;
        }
        for (int32_t b = 0; b < w->pool->groups[g].n_blocks; b++) {
            if (holders[b]) n_used++;
            /* with a step in flight a replaced block is held on the side */
            if (!copied) assert_int_equal(holders[b], w->pool->groups[g].refs[b]);
        }
        if (!copied) assert_int_equal(n_used, mica_kv_pool_blocks_used(w->pool, g));
        free(holders);
        for (int l = 0; l < N_LAYERS; l++)
            if (w->layers[l].group == g)
                n_bytes += (uint64_t)mica_kv_pool_blocks_used(w->pool, g) *
                           w->layers[l].layout.block_bytes;
    }
    assert_int_equal(n_bytes, mica_kv_pool_bytes_used(w->pool));
}

static void expect_all(const world *w) {
    for (int s = 0; s < MAX_SEQS; s++) {
        if (!w->r[s].seq) continue;
        assert_int_equal(w->r[s].n, mica_kv_length(w->r[s].seq));
        expect_visible(w, &w->r[s], w->r[s].n); /* the next query, its own row aside */
    }
    expect_counts(w);
}

static bool try_reserve(world *w, rows *r, int64_t n) {
    mica_error err;
    int64_t used[N_GROUPS];
    for (int g = 0; g < N_GROUPS; g++)
        used[g] = mica_kv_pool_blocks_used(w->pool, g);
    mica_status st = mica_kv_reserve(r->seq, n, &err);
    if (r->n + r->pending + n > w->pool->max_positions || r->pending + n > w->max_rows) {
        assert_int_equal(st, MICA_E_LIMIT);
        return false; /* before anything was touched */
    }
    for (int g = 0; g < N_GROUPS; g++) {
        int64_t low = oldest(w->windows[g], r->n) / 64 * 64;
        if (w->windows[g] && low > r->held_from[g]) r->held_from[g] = low;
    }
    if (st) {
        assert_int_equal(st, MICA_E_LIMIT);
        for (int g = 0; g < N_GROUPS; g++)
            assert_true(mica_kv_pool_blocks_used(w->pool, g) <= used[g]);
        return false;
    }
    r->pending += n;
    return true;
}

/* Writes the rows in flight [from, n + pending) and checks what each of them would see. */
static void write_pending(world *w, rows *r, int64_t from) {
    for (int64_t p = from; p < r->n + r->pending; p++) {
        r->row[p] = w->next_row++;
        for (int l = 0; l < N_LAYERS; l++)
            write_row(w, l, mica_kv_slot(r->seq, w->layers[l].group, p), r->row[p]);
    }
    for (int64_t p = r->n; p < r->n + r->pending; p += 1 + (int64_t)draw(w, 7))
        expect_visible(w, r, p);
}

static void finish_step(world *w, rows *r) {
    uint32_t how = draw(w, 4);
    int64_t n = how == 0 ? 0 : how == 1 ? (int64_t)draw(w, (uint32_t)r->pending + 1) : r->pending;
    if (how == 0)
        mica_kv_abort(r->seq);
    else
        mica_kv_commit(r->seq, n);
    r->n += n;
    r->pending = 0;
}

static void op_step(world *w, rows *r) {
    uint32_t kind = draw(w, 3);
    int64_t n = 1 + (kind ? draw(w, kind == 1 ? 8 : (uint32_t)w->max_rows) : 0);
    if (!try_reserve(w, r, n)) return;
    write_pending(w, r, r->n);
    if (draw(w, 4) == 0) {
        int64_t from = r->n + r->pending;
        if (try_reserve(w, r, 1 + draw(w, 20))) write_pending(w, r, from);
    }
    expect_counts(w);
    mica_error err;
    kv_seq *fork;
    assert_int_equal(mica_kv_trim(r->seq, 1, &err), r->n ? MICA_E_STATE : MICA_E_INVALID);
    assert_int_equal(mica_kv_fork(&fork, r->seq, &err), MICA_E_STATE);
    int64_t before = r->n;
    finish_step(w, r);
    /* what the last commit added can be dropped, whatever the window */
    if (r->n > before && draw(w, 5) == 0) {
        assert_int_equal(mica_kv_trim(r->seq, r->n - before, &err), MICA_OK);
        r->n = before;
    }
}

static void op_trim(world *w, rows *r) {
    int64_t n = draw(w, 2) ? draw(w, (uint32_t)r->n + 1) : draw(w, 9);
    if (n > r->n) n = r->n;
    int64_t left = r->n - n;
    bool legal = true;
    for (int g = 0; g < N_GROUPS; g++) {
        int64_t from = oldest(w->windows[g], left);
        bool none = from >= left && left % 64 == 0;
        if (w->windows[g] && !none && from < r->held_from[g]) legal = false;
    }
    mica_error err;
    mica_status st = mica_kv_trim(r->seq, n, &err);
    if (!n) {
        assert_int_equal(st, MICA_OK);
        return;
    }
    assert_int_equal(st, legal ? MICA_OK : MICA_E_STATE);
    if (st) return;
    r->n = left;
    for (int g = 0; g < N_GROUPS; g++)
        if (r->held_from[g] > left) r->held_from[g] = left / 64 * 64;
}

static void op_fork(world *w, rows *r) {
    for (int s = 0; s < MAX_SEQS; s++) {
        rows *to = &w->r[s];
        if (to->seq) continue;
        mica_error err;
        *to = *r;
        assert_int_equal(mica_kv_fork(&to->seq, r->seq, &err), MICA_OK);
        return;
    }
}

static void one_operation(world *w) {
    rows *r = &w->r[draw(w, MAX_SEQS)];
    mica_error err;
    if (!r->seq) {
        if (draw(w, 3)) return;
        memset(r, 0, sizeof(*r));
        assert_int_equal(mica_kv_seq_new(&r->seq, w->pool, &err), MICA_OK);
        return;
    }
    switch (draw(w, 12)) {
    case 0:
        mica_kv_seq_free(r->seq), r->seq = NULL;
        break;
    case 1:
        op_fork(w, r);
        break;
    case 2:
    case 3:
        op_trim(w, r);
        break;
    default:
        op_step(w, r);
        break;
    }
}

static void world_init(world *w, uint64_t seed) {
    static const mica_dtype dtypes[] = {MICA_F32, MICA_BF16, MICA_F16};
    memset(w, 0, sizeof(*w));
    w->key = mica_rng_key_from_seed(seed);
    static const int32_t sizes[] = {1, 2, 17, 63, 64, 65, 100, 128, 130, 200};
    w->windows[0] = 0;
    for (int g = 1; g < N_GROUPS; g++)
        w->windows[g] = g == N_GROUPS - 1 ? -sizes[draw(w, 10)] : sizes[draw(w, 10)];
    for (int l = 0; l < N_LAYERS; l++) {
        w->layers[l].group = l < N_GROUPS ? l : (int32_t)draw(w, N_GROUPS);
        assert_true(mica_kv_layout_init(&w->layers[l].layout, 1 + draw(w, 3), 2 + 2 * draw(w, 3),
                                        2 + 2 * draw(w, 3), dtypes[draw(w, 3)]));
    }
    w->max_rows = 1 + draw(w, 150);
    w->max_len = MAX_LEN - (int64_t)draw(w, 300);
    kv_pool_spec spec = {w->windows, N_GROUPS, w->layers, N_LAYERS, w->max_len, w->max_rows, 2, 0};
    mica_error err;
    assert_int_equal(mica_kv_pool_new(&w->pool, &spec, &err), MICA_OK);
    w->next_row = 1;
}

static void random_operations(void **state) {
    (void)state;
    static world w;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world_init(&w, seed);
        for (int i = 0; i < 250; i++) {
            one_operation(&w);
            expect_all(&w);
        }
        for (int s = 0; s < MAX_SEQS; s++)
            mica_kv_seq_free(w.r[s].seq);
        for (int g = 0; g < N_GROUPS; g++)
            assert_int_equal(mica_kv_pool_blocks_used(w.pool, g), 0);
        mica_kv_pool_free(w.pool);
    }
}

/* The pool is made for two sequences at full length: two can always grow to it, also when one began
 * as a fork of the other and both copy the same block at once. */
static void room_for_all(void **state) {
    (void)state;
    for (int64_t chunk = 1; chunk <= 130; chunk += 43) {
        int32_t windows[3] = {0, 70, -70};
        kv_layer_spec layers[3] = {{0, {0}}, {1, {0}}, {2, {0}}};
        for (int l = 0; l < 3; l++)
            assert_true(mica_kv_layout_init(&layers[l].layout, 1, 2, 2, MICA_F32));
        kv_pool_spec spec = {windows, 3, layers, 3, 640, chunk, 2, 0};
        kv_pool *pool;
        kv_seq *a, *b;
        mica_error err;
        assert_int_equal(mica_kv_pool_new(&pool, &spec, &err), MICA_OK);
        assert_int_equal(mica_kv_seq_new(&a, pool, &err), MICA_OK);
        assert_int_equal(mica_kv_reserve(a, 1, &err), MICA_OK);
        mica_kv_commit(a, 1);
        assert_int_equal(mica_kv_fork(&b, a, &err), MICA_OK);
        while (mica_kv_length(b) < 640) {
            int64_t n = 640 - mica_kv_length(b) < chunk ? 640 - mica_kv_length(b) : chunk;
            assert_int_equal(mica_kv_reserve(a, n, &err), MICA_OK);
            assert_int_equal(mica_kv_reserve(b, n, &err), MICA_OK);
            mica_kv_commit(a, n);
            mica_kv_commit(b, n);
        }
        assert_int_equal(mica_kv_reserve(a, 1, &err), MICA_E_LIMIT);
        assert_non_null(strstr(err.message, "640"));
        mica_kv_seq_free(a);
        mica_kv_seq_free(b);
        mica_kv_pool_free(pool);
    }
}

static void recurrent_state(void **state) {
    (void)state;
    kv_pool_spec spec = {NULL, 0, NULL, 0, 128, 16, 2, 8};
    kv_pool *pool;
    kv_seq *a, *b;
    mica_error err;
    uint64_t x = 0;
    assert_int_equal(mica_kv_pool_new(&pool, &spec, &err), MICA_OK);
    assert_int_equal(mica_kv_seq_new(&a, pool, &err), MICA_OK);
    assert_memory_equal(mica_kv_state_in(a), &x, 8);
    for (x = 1; x <= 3; x++) {
        assert_int_equal(mica_kv_reserve(a, 4, &err), MICA_OK);
        memcpy(mica_kv_state_out(a), &x, 8);
        mica_kv_commit(a, 4);
        assert_memory_equal(mica_kv_state_in(a), &x, 8);
    }
    assert_int_equal(mica_kv_fork(&b, a, &err), MICA_OK);
    assert_int_equal(mica_kv_reserve(a, 4, &err), MICA_OK);
    x = 99;
    memcpy(mica_kv_state_out(a), &x, 8);
    mica_kv_abort(a);
    x = 3;
    assert_memory_equal(mica_kv_state_in(a), &x, 8);
    assert_int_equal(mica_kv_trim(a, 4, &err), MICA_E_STATE); /* the step wrote over it */
    assert_memory_equal(mica_kv_state_in(b), &x, 8);
    assert_int_equal(mica_kv_trim(b, 4, &err), MICA_E_STATE); /* a fork has no older state */
    assert_int_equal(mica_kv_reserve(a, 2, &err), MICA_OK);
    x = 4;
    memcpy(mica_kv_state_out(a), &x, 8);
    mica_kv_commit(a, 2);
    assert_int_equal(mica_kv_trim(a, 2, &err), MICA_OK);
    x = 3;
    assert_memory_equal(mica_kv_state_in(a), &x, 8);
    assert_int_equal(mica_kv_length(a), 12);
    assert_int_equal(mica_kv_trim(a, 12, &err), MICA_OK);
    x = 0;
    assert_memory_equal(mica_kv_state_in(a), &x, 8);
    mica_kv_seq_free(a);
    mica_kv_seq_free(b);
    mica_kv_pool_free(pool);
}

static void bad_specs(void **state) {
    (void)state;
    int32_t window = 0;
    kv_layer_spec layer = {0, {0}};
    assert_true(mica_kv_layout_init(&layer.layout, 8, 128, 128, MICA_BF16));
    const kv_pool_spec good = {&window, 1, &layer, 1, 1000, 10, 1, 0};
    kv_pool *pool;
    mica_error err;
    kv_pool_spec s = good;
    s.max_positions = 0;
    assert_int_equal(mica_kv_pool_new(&pool, &s, &err), MICA_E_INVALID);
    s = good;
    s.max_positions = (int64_t)1 << 40;
    assert_int_equal(mica_kv_pool_new(&pool, &s, &err), MICA_E_LIMIT);
    s = good;
    s.max_seqs = (int64_t)1 << 40;
    assert_int_equal(mica_kv_pool_new(&pool, &s, &err), MICA_E_LIMIT);
    s = good;
    s.max_rows = 1001;
    assert_int_equal(mica_kv_pool_new(&pool, &s, &err), MICA_E_LIMIT);
    kv_layer_spec stray = layer;
    stray.group = 1;
    s = good;
    s.layers = &stray;
    assert_int_equal(mica_kv_pool_new(&pool, &s, &err), MICA_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(room_for_all),
        cmocka_unit_test(recurrent_state),
        cmocka_unit_test(bad_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
