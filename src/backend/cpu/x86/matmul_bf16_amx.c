/* matmul_bf16_amx.c: rows rounded to bf16 in tiles, and matmuls of them, with AMX.
 *
 * Unit: up to 512 outputs. A piece of 512 elements of 32 outputs is unpacked, scaled and rounded to
 * bf16 (bf16_panel.h) into 32 KiB that stay in the first-level cache, and multiplied at once by all
 * rows: 32 outputs by 32 rows are four tiles of sums. The rows of a piece lie side by side
 * (graph/rows_bf16.h) and stay in the second-level cache while the unit's outputs go by. Between
 * pieces the sums wait in memory, which changes no bit; behind the last they are turned and stored.
 * Profile: fast (lever bf16), the bits of ref/matmul_bf16.c.
 */
#include "backend/cpu/x86/bf16_panel.h"
#include "backend/cpu/x86/bf16_tiles.h"

#include "backend/cpu/experts.h"
#include "backend/cpu/vector/activate.h"

enum {
    BLOCK_ROWS = 32,
    BLOCK_FLOATS = 4 * TILE_FLOATS,
    MAX_BLOCKS = 16,          /* of rows that go by at once: 512 KiB of a piece */
    MAX_GROUPS = 16,          /* of 32 outputs of all weights in a unit: 1 MiB of sums */
    UNITS_PER_THREAD = 4,     /* at least, before they grow */
    STREAM_FROM = 2 * 1048576 /* bytes of results that push rows out of the second-level cache */
};

/* The scratch of one thread. */
typedef struct bf16_space {
    int n_weights;
    int64_t n_groups; /* of 32 outputs in a unit */
    int64_t n_blocks; /* of 32 rows, at the bound */
    bf16_weight w[2];
    uint8_t *panel;       /* [2][PIECE / 32] tiles */
    float *last;          /* the sums of one block */
    float *sums[2];       /* [n_groups][n_blocks][BLOCK_FLOATS] */
    const uint8_t *ahead; /* codes of the panel after this one; NULL: none */
    int64_t ahead_rows, ahead_stride, ahead_bytes;
    bool streams; /* results go past the caches */
} bf16_space;

/* A piece of 32 outputs of one weight. */
typedef struct bf16_piece {
    int weight;
    int64_t group, first, width; /* elements [first, first + width) */
    int64_t o, n_outs;
} bf16_piece;

/* Groups of 32 outputs in a unit: rows come from far once a unit, so more are better as long as
 * there are units enough for all threads, and their sums stay in the second-level cache. */
static int64_t unit_groups(const kernel_call *call) {
    int64_t n_out = operand_width(&call->out), n_threads = call->n_threads;
    for (int64_t n = MAX_GROUPS / bf16_n_weights(call); n > 4; n /= 2)
        if (n_out >= UNITS_PER_THREAD * n_threads * PANEL_OUTS * n) return n;
    return n_out >= 1024 ? 4 : n_out >= 256 ? 2 : 1;
}

static int64_t n_units(const kernel_call *call) {
    int64_t n = PANEL_OUTS * unit_groups(call);
    return (operand_width(&call->out) + n - 1) / n;
}

static const char *declines_rows(const kernel_call *call) {
    const kernel_operand *out = &call->out;
    if (!is_dense_row(&call->src[0])) return "the elements of a row do not lie side by side";
    if (out->stride[0] != operand_width(out)) return "tiles with gaps";
    return operand_width(out) % ROWS_BF16_UNIT ? "rows of other than whole 64 elements" : NULL;
}

static const char *declines(const kernel_call *call) {
    if (!is_dense_row(&call->out)) return "the elements of a row do not lie side by side";
    for (int i = 1; i <= bf16_n_weights(call); i++) {
        const char *why = i8_declines_weight(&call->src[i]);
        if (why) return why;
        if (call->src[i].matrix->n_in % ROWS_BF16_UNIT)
            return "rows of other than whole 64 elements";
    }
    return NULL;
}

/* Lines that are written whole need not be read before: long results, and those of experts, go
 * straight to memory. */
static bool goes_past_caches(const kernel_operand *out) {
    return out->dtype == MICA_F32 &&
           (out->rows || 4 * operand_rows(out) * operand_width(out) >= STREAM_FROM);
}

/* Floats of scratch; with s, its members point into memory at `at`. */
static int64_t space_init(bf16_space *s, const kernel_call *call, float *at) {
    int64_t n_groups = unit_groups(call), n_panel = PANEL_OUTS * ROWS_BF16_PIECE / 2;
    int64_t n_blocks = (operand_rows(&call->out) + BLOCK_ROWS - 1) / BLOCK_ROWS;
    if (n_blocks > MAX_BLOCKS) n_blocks = MAX_BLOCKS;
    int64_t n_sums = n_groups * n_blocks * BLOCK_FLOATS, n = n_panel + BLOCK_FLOATS;
    int n_weights = bf16_n_weights(call);
    if (s) {
        *s = (bf16_space){.n_weights = n_weights, .n_groups = n_groups, .n_blocks = n_blocks};
        s->streams = goes_past_caches(&call->out);
        s->panel = (uint8_t *)at;
        s->last = at + n_panel;
    }
    for (int i = 0; i < n_weights; i++) {
        if (s) s->sums[i] = at + n;
        n += n_sums;
        n += padded(bf16_weight_init(s ? &s->w[i] : NULL, &call->src[1 + i], n_groups, at + n));
    }
    return n;
}

static size_t scratch_bytes(const kernel_call *call) {
    return (size_t)space_init(NULL, call, NULL) * sizeof(float);
}

/* ---- rows ---- */

/* The words of two registers of 32 neighbours that are one step, and those of the other. */
static void step_words(__m512i words[2]) {
    uint16_t at[2][32];
    for (int i = 0; i < 64; i++) {
        int64_t place = rows_bf16_place(i);
        at[place / 32][place % 32] = (uint16_t)i;
    }
    words[0] = _mm512_loadu_si512(at[0]);
    words[1] = _mm512_loadu_si512(at[1]);
}

/* 64 elements of 16 rows as two tiles; rows that are not there are zeros. */
static void tile_64(const kernel_operand *x, int64_t first, int64_t n_here, int64_t k,
                    uint8_t *to) {
    __m512i words[2], a[16], b[16];
    step_words(words);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        const void *p = at(x->data, x->dtype, operand_row(x, first + (i < n_here ? i : 0)) + k);
        __m512 f[4];
        for (int j = 0; j < 4; j++)
            f[j] = v16_load_as(at(p, x->dtype, 16 * j), x->dtype);
        __m512i lo = (__m512i)_mm512_cvtne2ps_pbh(f[1], f[0]);
        __m512i hi = (__m512i)_mm512_cvtne2ps_pbh(f[3], f[2]);
        a[i] = _mm512_permutex2var_epi16(lo, words[0], hi);
        b[i] = _mm512_permutex2var_epi16(lo, words[1], hi);
        if (i >= n_here) a[i] = b[i] = _mm512_setzero_si512();
    }
    v16_turn_bits(a);
    v16_turn_bits(b);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        _mm512_storeu_si512(to + 64 * i, a[i]);
        _mm512_storeu_si512(to + TILE_BYTES + 64 * i, b[i]);
    }
}

/* Block b of the matrix that x becomes at `out`. */
static void tile_block(const kernel_operand *x, int64_t b, uint8_t *out) {
    int64_t n = operand_width(x), n_rows = operand_rows(x), n_blocks = (n_rows + 15) / 16;
    int64_t left = n_rows - 16 * b;
    for (int64_t k = 0; k < n; k += ROWS_BF16_UNIT) {
        int64_t piece = k / ROWS_BF16_PIECE * ROWS_BF16_PIECE;
        uint8_t *to = out + 2 * rows_bf16_block(b, piece, n, n_blocks);
        tile_64(x, 16 * b, left < 16 ? left : 16, k,
                to + (k - piece) / ROWS_BF16_STEP * TILE_BYTES);
    }
}

static void run_tile_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n = operand_width(&call->out), n_all = operand_rows(&call->out) * n, first = 0;
    uint8_t *out = call->out.data;
    (void)scratch;
    for (int64_t i = 0; i < n_tile_matrices(call) && first < end; i++) {
        kernel_operand x = tile_matrix_rows(call, i);
        int64_t n_blocks = (operand_rows(&x) + 15) / 16, b = begin > first ? begin - first : 0;
        for (; b < n_blocks && first + b < end; b++)
            tile_block(&x, b, out + 2 * 16 * n * first);
        first += n_blocks;
    }
    int64_t from = 16 * n * (begin > first ? begin : first);
    int64_t last = end == n_units_tiles(call) || 16 * n * end > n_all ? n_all : 16 * n * end;
    if (from < last) memset(out + 2 * from, 0, (size_t)(2 * (last - from)));
}

/* ---- matmul ---- */

/* Turns the sums of 16 outputs and up to 16 rows and stores them. gate: those that become the
 * gate; NULL: a plain matmul. */
static void store_tile(const kernel_call *call, const float *sums, const float *gate, bool streams,
                       int64_t r, int64_t n_rows, int64_t o, int64_t n_outs) {
    const kernel_operand *out = &call->out;
    v16 t[16];
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++)
        t[j] = v16_load(sums + 16 * j);
    for (int j = 0; gate && j < 16; j++) {
        v16 g = v16_round_to(v16_load(gate + 16 * j), out->dtype);
        t[j] = v16_mul(v16_glu(call->attr->glu.act, g, out->dtype), v16_round_to(t[j], out->dtype));
    }
    v16_turn(t);
    for (int64_t i = 0; i < n_rows; i++) {
        if (bf16_is_added(call))
            t[i] = v16_add(row_chunk(&call->src[2], r + i, o, o + n_outs),
                           v16_round_to(t[i], out->dtype));
        void *p = at_mut(out->data, out->dtype, operand_row(out, r + i) + o);
        if (streams && n_outs == 16 && (uintptr_t)p % 64 == 0)
            _mm512_stream_ps(p, t[i]);
        else if (n_outs == 16)
            v16_store_as(p, out->dtype, t[i]);
        else
            v16_store_part(p, out->dtype, n_outs, t[i]);
    }
}

static void store_block(const kernel_call *call, const float *sums, const float *gate, bool streams,
                        int64_t r, int64_t o, int64_t n_outs) {
    int64_t n_rows = operand_rows(&call->out) - r;
    for (int64_t i = 0; i < 2 && 16 * i < n_outs; i++)
        for (int64_t j = 0; j < 2 && 16 * j < n_rows; j++) {
            int64_t tile = (2 * i + j) * TILE_FLOATS, rows = n_rows - 16 * j;
            int64_t outs = n_outs - 16 * i;
            store_tile(call, sums + tile, gate ? gate + tile : NULL, streams, r + 16 * j,
                       rows < 16 ? rows : 16, o + 16 * i, outs < 16 ? outs : 16);
        }
}

/* Asks for the lines that store_block will write: each row lies on a page of its own. */
static void claim_block(const kernel_call *call, int64_t r, int64_t o) {
    const kernel_operand *out = &call->out;
    int64_t n_rows = operand_rows(out);
    for (int64_t i = r; i < n_rows && i < r + BLOCK_ROWS; i++) {
        const char *p = at_mut(out->data, out->dtype, operand_row(out, i) + o);
        __builtin_prefetch(p, 1, 3);
        __builtin_prefetch(p + 64, 1, 3);
    }
}

/* Asks for a part of what the next panel is made of: its rows lie far apart. */
static void fetch_ahead(bf16_space *s, int64_t n_rows) {
    for (; n_rows > 0 && s->ahead_rows > 0; n_rows--, s->ahead_rows--, s->ahead += s->ahead_stride)
        for (int64_t i = 0; i < s->ahead_bytes; i += 64)
            _mm_prefetch((const char *)s->ahead + i, _MM_HINT_T1);
}

/* One panel times rows [begin, end). The last piece of the last weight is stored. */
static void multiply_panel(const kernel_call *call, bf16_space *s, const bf16_piece *p,
                           int64_t begin, int64_t end) {
    const int64_t n_in = s->w[0].matrix->n_in, half = p->width / ROWS_BF16_STEP * TILE_BYTES;
    const int64_t n_rows = operand_rows(&call->out), n_blocks = s->n_blocks;
    const uint8_t *x = (const uint8_t *)call->src[0].data +
                       2 * rows_bf16_block(begin / 16, p->first, n_in, (n_rows + 15) / 16);
    float *sums = s->sums[p->weight] + p->group * n_blocks * BLOCK_FLOATS;
    const float *gates = s->sums[0] + p->group * n_blocks * BLOCK_FLOATS;
    bool is_last = p->first + p->width == n_in && p->weight + 1 == s->n_weights;
    for (int64_t r = begin; r < end; r += BLOCK_ROWS, x += 2 * half, sums += BLOCK_FLOATS) {
        bool both = n_rows - r > 16;
        if (p->first)
            load_sums(sums);
        else
            zero_sums();
        if (is_last && !s->streams) claim_block(call, r, p->o);
        fetch_ahead(s, (PANEL_OUTS + n_blocks - 1) / n_blocks);
        for (int64_t k = 0; k < half; k += TILE_BYTES) {
            const char *next = (const char *)(sums + BLOCK_FLOATS) + k / 4;
            for (int i = 0; i < 256; i += 64)
                _mm_prefetch(next + i, _MM_HINT_T0);
            multiply(s->panel + k, s->panel + half + k, x + k, x + half + k, both);
        }
        store_sums(is_last ? s->last : sums);
        if (is_last)
            store_block(call, s->last,
                        p->weight ? gates + (r - begin) / BLOCK_ROWS * BLOCK_FLOATS : NULL,
                        s->streams, r, p->o, p->n_outs);
    }
}

/* Panel i of the unit that begins at output `first`; n_groups of it are there. */
static bf16_piece piece_at(const kernel_call *call, const bf16_space *s, int64_t first,
                           int64_t n_groups, int64_t i) {
    int64_t n_out = operand_width(&call->out), g = i / s->n_weights % n_groups;
    bf16_piece p = {.weight = (int)(i % s->n_weights), .group = g, .o = first + PANEL_OUTS * g};
    p.n_outs = n_out - p.o < PANEL_OUTS ? n_out - p.o : PANEL_OUTS;
    p.first = i / s->n_weights / n_groups * ROWS_BF16_PIECE;
    p.width = rows_bf16_width(p.first, s->w[0].matrix->n_in);
    return p;
}

static void look_ahead(bf16_space *s, const bf16_piece *next) {
    const weight_matrix *m = s->w[next->weight].matrix;
    int64_t n_rows = m->panels ? WEIGHT_PANEL : 1; /* that lie side by side */
    s->ahead = m->codes + (size_t)next->o * m->row_bytes + n_rows * next->first * m->form.bits / 8;
    s->ahead_rows = (next->n_outs + n_rows - 1) / n_rows;
    s->ahead_stride = n_rows * (int64_t)m->row_bytes;
    s->ahead_bytes = n_rows * next->width * m->form.bits / 8;
}

/* Rows [begin, end) times the outputs from `first` on. */
static void run_rows(const kernel_call *call, bf16_space *s, int64_t first, int64_t begin,
                     int64_t end) {
    int64_t left = (operand_width(&call->out) - first + PANEL_OUTS - 1) / PANEL_OUTS;
    int64_t n_groups = left < s->n_groups ? left : s->n_groups, n_in = s->w[0].matrix->n_in;
    int64_t n = (n_in + ROWS_BF16_PIECE - 1) / ROWS_BF16_PIECE * n_groups * s->n_weights;
    for (int64_t i = 0; i < n; i++) {
        bf16_piece p = piece_at(call, s, first, n_groups, i);
        bf16_weight *w = &s->w[p.weight];
        if (p.first == 0 && begin == 0) bf16_open(w, p.o, p.n_outs, p.group);
        bf16_panel(w, p.o, p.n_outs, p.group, p.first, p.width, s->panel);
        s->ahead_rows = 0;
        if (i + 1 < n) {
            bf16_piece next = piece_at(call, s, first, n_groups, i + 1);
            look_ahead(s, &next);
        }
        multiply_panel(call, s, &p, begin, end);
    }
}

static void run_unit(const kernel_call *call, bf16_space *s, int64_t first) {
    int64_t n_rows = operand_rows(&call->out), step = MAX_BLOCKS * BLOCK_ROWS;
    for (int64_t r = 0; r < n_rows; r += step)
        run_rows(call, s, first, r, r + step < n_rows ? r + step : n_rows);
}

static void run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    bf16_space s;
    if (operand_rows(&call->out) == 0) return;
    space_init(&s, call, scratch);
    begin_tiles();
    for (int64_t u = begin; u < end; u++)
        run_unit(call, &s, u * PANEL_OUTS * s.n_groups);
    end_tiles();
    _mm_sfence(); /* what went past the caches is there before anybody is told */
}

/* ---- the same for experts ---- */

static const expert_kernel of_experts = {OP_MATMUL_BF16, 1, n_units, run};
static const expert_kernel pairs_of_experts = {OP_GLU_MATMUL_BF16, 2, n_units, run};

static const expert_kernel *experts_of(const kernel_call *call) {
    return call->op == OP_EXPERT_MATMUL_BF16 ? &of_experts : &pairs_of_experts;
}

static int64_t n_units_experts(const kernel_call *call) {
    return expert_units(call, experts_of(call));
}

static size_t scratch_experts(const kernel_call *call) {
    return expert_scratch(call, experts_of(call), scratch_bytes);
}

static const char *declines_experts(const kernel_call *call) {
    return expert_declines(call, experts_of(call), declines);
}

static void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, experts_of(call), begin, end, scratch);
}

MICA_DECLARE_KERNELS(matmul_bf16_amx);
const cpu_kernel mica_kernels_matmul_bf16_amx[] = {
    {"tile_rows_amx", OP_TILE_ROWS, ISA_AMX, declines_rows, n_units_tiles, run_tile_rows, NULL},
    {"matmul_bf16_amx", OP_MATMUL_BF16, ISA_AMX, declines, n_units, run, scratch_bytes},
    {"glu_matmul_bf16_amx", OP_GLU_MATMUL_BF16, ISA_AMX, declines, n_units, run, scratch_bytes},
    {"expert_matmul_bf16_amx", OP_EXPERT_MATMUL_BF16, ISA_AMX, declines_experts, n_units_experts,
     run_experts, scratch_experts},
    {"expert_glu_matmul_bf16_amx", OP_EXPERT_GLU_MATMUL_BF16, ISA_AMX, declines_experts,
     n_units_experts, run_experts, scratch_experts},
};
const int mica_n_kernels_matmul_bf16_amx = 5;
