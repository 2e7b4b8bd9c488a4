/* matmul_bf16_amx.c: rows rounded to bf16 in tiles, and matmuls of them, with AMX.
 *
 * Unit: 32 outputs, or two or four times as many where there are plenty. The codes of 32 outputs
 * are unpacked as for the quantized rows (vector/matmul_i8.h), scaled and rounded to bf16 once,
 * pairs of neighbours side by side: the B tiles. Then 32 rows of x at a time, A tiles one after the
 * other in memory, make four tiles of sums. n_in is cut into pieces whose B tiles stay in the
 * first-level cache and whose A tiles of all rows in the second; between pieces the sums wait in
 * memory, which changes no bit. The tile instructions are written out with a memory clobber: gcc
 * 12's own wrappers let stores that fill a tile's buffer move past the load. Profile: fast (lever
 * bf16), the bits of ref/matmul_bf16.c.
 */
#include "backend/cpu/x86/i8_avx512vnni.h"

#include "backend/cpu/vector/matmul_i8.h"

enum {
    MAX_GROUPS = 4,
    BLOCK_ROWS = 32,
    STEP = 32, /* elements of a product */
    TILE_BYTES = 1024,
    PIECE = 512,   /* elements of n_in whose B tiles take 32 KiB */
    B_STRIDE = 128 /* bytes from a pair of elements of 32 outputs to the next */
};

/* The scratch of one thread for one weight. */
typedef struct bf16_weight {
    i8_weight codes;            /* of one group of 32 outputs after the other */
    uint8_t *tiles[MAX_GROUPS]; /* [n_in / 2][32][2] bf16 */
    float *sums[MAX_GROUPS];    /* [rows rounded up][32] */
} bf16_weight;

/* Groups of 32 outputs in a unit: A tiles come from far once a unit, so more are better as long as
 * there are units for all threads. */
static int unit_groups(const kernel_call *call) {
    int64_t n_out = operand_width(&call->out);
    return n_out >= 4096 ? MAX_GROUPS : n_out >= 1024 ? 2 : 1;
}

static int64_t n_units(const kernel_call *call) {
    int64_t n = 32 * unit_groups(call);
    return (operand_width(&call->out) + n - 1) / n;
}

static const char *declines_rows(const kernel_call *call) {
    const kernel_operand *out = &call->out;
    if (!is_dense_row(&call->src[0])) return "the elements of a row do not lie side by side";
    if (out->stride[0] != operand_width(out)) return "tiles with gaps";
    return operand_width(out) % STEP ? "rows of other than whole 32 elements" : NULL;
}

static const char *declines(const kernel_call *call) {
    if (!is_dense_row(&call->out)) return "the elements of a row do not lie side by side";
    for (int i = 1; i < call->n_src; i++) {
        const char *why = i8_declines_weight(&call->src[i]);
        if (why) return why;
        if (call->src[i].matrix->n_in % STEP) return "rows of other than whole 32 elements";
    }
    return NULL;
}

/* Floats of scratch; with w, its members point into memory at `at`. */
static int64_t weight_init(bf16_weight *w, const kernel_call *call, int i, float *at) {
    const kernel_operand *o = &call->src[i];
    int64_t n = padded(i8_weight_init(w ? &w->codes : NULL, o, at));
    int64_t n_tiles = o->matrix->n_in / 2 * 32;
    int64_t n_rows = (operand_rows(&call->out) + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
    for (int g = 0; g < unit_groups(call); g++) {
        if (w) w->tiles[g] = (uint8_t *)(at + n);
        if (w) w->sums[g] = at + n + n_tiles;
        n += n_tiles + n_rows * 32;
    }
    return n;
}

static size_t scratch_bytes(const kernel_call *call) {
    int64_t n = 0;
    for (int i = 1; i < call->n_src; i++)
        n += weight_init(NULL, call, i, NULL);
    return (size_t)n * sizeof(float);
}

/* ---- rows ---- */

static int64_t n_units_tiles(const kernel_call *call) {
    int64_t n = (operand_rows(&call->src[0]) + 15) / 16;
    return n ? n : 1;
}

/* 16 rows; those that are not there are zeros. */
static void tile_block(const kernel_operand *x, int64_t first, int64_t n_here, uint8_t *block) {
    int64_t n = operand_width(x);
    for (int64_t i = 0; i < 16; i++) {
        const void *row = at(x->data, x->dtype, operand_row(x, first + (i < n_here ? i : 0)));
        for (int64_t k = 0; k < n; k += STEP) {
            __m512 a = v16_load_as(at(row, x->dtype, k), x->dtype);
            __m512 b = v16_load_as(at(row, x->dtype, k + 16), x->dtype);
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh(b, a);
            if (i >= n_here) both = _mm512_setzero_si512();
            _mm512_storeu_si512(block + k / STEP * TILE_BYTES + 64 * i, both);
        }
    }
}

static void run_tile_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0];
    int64_t n = operand_width(x), n_rows = operand_rows(x), n_blocks = (n_rows + 15) / 16;
    uint8_t *out = call->out.data;
    (void)scratch;
    for (int64_t u = begin; u < end; u++) {
        int64_t left = n_rows - 16 * u;
        if (u < n_blocks) tile_block(x, 16 * u, left < 16 ? left : 16, out + 2 * 16 * n * u);
        int64_t n_left_over = operand_rows(&call->out) - 16 * n_blocks;
        if (u + 1 >= n_blocks)
            memset(out + 2 * 16 * n * n_blocks, 0, (size_t)(2 * n * n_left_over));
    }
}

/* ---- weights ---- */

/* Byte k of each lane, scaled. */
ALWAYS_INLINE __m512 scaled_byte(__m512i bytes, int k, __m512 scale, __m512 bias) {
    __m512i code = _mm512_and_si512(_mm512_srli_epi32(bytes, 8 * k), _mm512_set1_epi32(255));
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(code), bias);
}

/* Lane i: bf16 of a's lane i, then of b's. */
ALWAYS_INLINE __m512i bf16_pairs(__m512 a, __m512 b, __m512i order) {
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

/* The B tiles of outputs [o, o + n_outs). */
static void make_tiles(bf16_weight *w, uint8_t *tiles, int64_t o, int64_t n_outs) {
    const i8_weight *c = &w->codes;
    const int64_t n_in = c->matrix->n_in, group = c->matrix->form.group;
    uint16_t places[32];
    for (int i = 0; i < 16; i++) {
        places[2 * i] = (uint16_t)i;
        places[2 * i + 1] = (uint16_t)(16 + i);
    }
    const __m512i order = _mm512_loadu_si512(places);
    i8_open_unit(&w->codes, o, n_outs);
    for (int64_t g = 0; g * group < n_in; g++)
        for (int v = 0; v < 2; v++) {
            __m512 scale = _mm512_loadu_ps(c->scales + g * 32 + 16 * v);
            __m512 bias = c->form.has_bias ? _mm512_loadu_ps(c->biases + g * 32 + 16 * v)
                                           : _mm512_setzero_ps();
            for (int64_t k = g * group; k < (g + 1) * group; k += 4) {
                __m512i bytes = _mm512_loadu_si512(c->tile + k * 32 + 64 * v);
                uint8_t *to = tiles + k / 2 * B_STRIDE + 64 * v;
                _mm512_storeu_si512(to, bf16_pairs(scaled_byte(bytes, 0, scale, bias),
                                                   scaled_byte(bytes, 1, scale, bias), order));
                _mm512_storeu_si512(to + B_STRIDE,
                                    bf16_pairs(scaled_byte(bytes, 2, scale, bias),
                                               scaled_byte(bytes, 3, scale, bias), order));
            }
        }
}

/* ---- tiles: 0 to 3 sums (rows 0 or 16, outputs 0 or 16), 4 and 5 x, 6 and 7 weights ---- */

/* What LDTILECFG reads: palette 1, then bytes of a row and rows of each tile. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void begin_tiles(void) {
    tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

static void end_tiles(void) { __asm__ volatile("tilerelease" ::: "memory"); }

ALWAYS_INLINE void zero_sums(void) {
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::
                         : "memory");
}

/* sums [32][32] f32. */
ALWAYS_INLINE void load_sums(const float *p) {
    __asm__ volatile("tileloadd (%0,%4,1), %%tmm0\n\ttileloadd (%1,%4,1), %%tmm1\n\t"
                     "tileloadd (%2,%4,1), %%tmm2\n\ttileloadd (%3,%4,1), %%tmm3" ::"r"(p),
                     "r"(p + 16), "r"(p + 512), "r"(p + 528), "r"((int64_t)128)
                     : "memory");
}

ALWAYS_INLINE void store_sums(float *p) {
    __asm__ volatile("tilestored %%tmm0, (%0,%4,1)\n\ttilestored %%tmm1, (%1,%4,1)\n\t"
                     "tilestored %%tmm2, (%2,%4,1)\n\ttilestored %%tmm3, (%3,%4,1)" ::"r"(p),
                     "r"(p + 16), "r"(p + 512), "r"(p + 528), "r"((int64_t)128)
                     : "memory");
}

/* 32 elements of 32 rows, or of the first 16, times 32 outputs. second: the A tile of the other 16
 * rows. */
ALWAYS_INLINE void multiply(const uint8_t *x, const uint8_t *second, const uint8_t *b, bool both) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%2,%4,1), %%tmm6\n\t"
                     "tileloadd (%3,%4,1), %%tmm7\n\ttdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                     "tdpbf16ps %%tmm7, %%tmm4, %%tmm1" ::"r"(x),
                     "r"((int64_t)64), "r"(b), "r"(b + 64), "r"((int64_t)B_STRIDE)
                     : "memory");
    if (!both) return;
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm5\n\ttdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                     "tdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::"r"(second),
                     "r"((int64_t)64)
                     : "memory");
}

/* Elements [piece, end) of all rows times one group of outputs. */
static void multiply_piece(const kernel_call *call, const uint8_t *tiles, float *sums,
                           int64_t piece, int64_t end) {
    int64_t n_rows = operand_rows(&call->out);
    const int64_t block_bytes = 2 * 16 * call->src[1].matrix->n_in;
    for (int64_t r = 0; r < n_rows; r += BLOCK_ROWS) {
        const uint8_t *x = (const uint8_t *)call->src[0].data + r / 16 * block_bytes;
        const uint8_t *second = x + block_bytes;
        bool both = n_rows - r > 16;
        if (piece)
            load_sums(sums + r * 32);
        else
            zero_sums();
        for (int64_t k = piece; k < end; k += STEP)
            multiply(x + k / STEP * TILE_BYTES, second + k / STEP * TILE_BYTES,
                     tiles + k / 2 * B_STRIDE, both);
        store_sums(sums + r * 32);
    }
}

/* Groups of 32 outputs from output `first` on. */
static void run_unit(const kernel_call *call, bf16_weight *w, i8_space *rows, int64_t first,
                     int64_t n_groups) {
    int64_t n_out = operand_width(&call->out), n_in = call->src[1].matrix->n_in;
    for (int i = 0; i < rows->n_weights; i++)
        for (int64_t g = 0; g < n_groups; g++) {
            int64_t o = first + 32 * g;
            make_tiles(&w[i], w[i].tiles[g], o, n_out - o < 32 ? n_out - o : 32);
        }
    for (int64_t piece = 0; piece < n_in; piece += PIECE)
        for (int i = 0; i < rows->n_weights; i++)
            for (int64_t g = 0; g < n_groups; g++)
                multiply_piece(call, w[i].tiles[g], w[i].sums[g], piece,
                               piece + PIECE < n_in ? piece + PIECE : n_in);
    for (int64_t g = 0; g < n_groups; g++) {
        int64_t o = first + 32 * g;
        for (int i = 0; i < rows->n_weights; i++)
            rows->w[i].sums = w[i].sums[g];
        i8_store(call, rows, 0, (int)operand_rows(&call->out), o, n_out - o < 32 ? n_out - o : 32);
    }
}

static void run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n_out = operand_width(&call->out), n_groups = unit_groups(call);
    bf16_weight w[2];
    float *next = scratch;
    i8_space rows = {.n_weights = call->n_src - 1};
    if (operand_rows(&call->out) == 0) return;
    for (int i = 0; i < rows.n_weights; i++)
        next += weight_init(&w[i], call, 1 + i, next);
    begin_tiles();
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * 32 * n_groups, n = (n_out - first + 31) / 32;
        run_unit(call, w, &rows, first, n < n_groups ? n : n_groups);
    }
    end_tiles();
}

_Static_assert(I8_UNIT_OUTS == 32, "a unit is two tiles of outputs");

MICA_DECLARE_KERNELS(matmul_bf16_amx);
const cpu_kernel mica_kernels_matmul_bf16_amx[] = {
    {"tile_rows_amx", OP_TILE_ROWS, ISA_AMX, declines_rows, n_units_tiles, run_tile_rows, NULL},
    {"matmul_bf16_amx", OP_MATMUL_BF16, ISA_AMX, declines, n_units, run, scratch_bytes},
    {"glu_matmul_bf16_amx", OP_GLU_MATMUL_BF16, ISA_AMX, declines, n_units, run, scratch_bytes},
};
const int mica_n_kernels_matmul_bf16_amx = 3;
