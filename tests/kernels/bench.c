/* bench.c: times kernels on shapes of real models and prints the bytes of weights or cache that
 * they get through a second of one thread's own time: median and spread of 7 runs over data that
 * does not fit the second-level cache.
 */
#include <stdlib.h>

#include "backend/cpu/peak.h"
#include "check.h"
#include "graph/attention_parts.h"
#include "thread_time.h"

#define N_RUNS 7

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *t) {
    qsort(t, N_RUNS, sizeof(t[0]), by_value);
    return t[N_RUNS / 2];
}

static void time_kernel(const cpu_kernel *k, const kernel_call *call, const char *what,
                        double n_bytes, double n_ops) {
    void *scratch =
        k->scratch_bytes ? aligned_alloc(64, (k->scratch_bytes(call) + 64) & ~63ull) : NULL;
    double t[N_RUNS];
    int64_t n = k->n_units(call);
    for (int i = 0; i < N_RUNS; i++) {
        double start = thread_seconds();
        k->run(call, 0, n, scratch);
        t[i] = thread_seconds() - start;
    }
    free(scratch);
    double mid = median_of(t);
    printf("%-22s %-44s %9.3f ms (%.3f..%.3f) %7.2f GB/s %7.2f Gop/s\n", k->name, what, mid * 1e3,
           t[0] * 1e3, t[N_RUNS - 1] * 1e3, n_bytes / mid * 1e-9, n_ops / mid * 1e-9);
}

static void time_all(const cpu_table *table, const check_case *c, const char *isa, const char *what,
                     double n_bytes, double n_ops) {
    for (int i = 0; i < table->n_kernels; i++) {
        const cpu_kernel *k = table->kernels[i];
        if (k->op != c->call.op || k->declines(&c->call)) continue;
        if (strcmp(isa, mica_cpu_isa_name(k->isa)) == 0)
            time_kernel(k, &c->call, what, n_bytes, n_ops);
    }
}

static void begin_case(check_case *c, graph_op op, int index) {
    *c = (check_case){.index = index, .rng = {1}, .plain = true};
    c->call.op = op;
    c->call.n_threads = 1;
    c->call.attr = &c->attr;
}

static void bench_matmul(const cpu_table *table, const char *isa, int form, int64_t rows,
                         int64_t n_out, int64_t n_in) {
    check_case c;
    begin_case(&c, OP_MATMUL, form);
    c.panels = CHECK_ROWS;
    int64_t x[2] = {rows, n_in}, out[2] = {rows, n_out};
    check_weight(&c, 1, 0, 0, n_out, &n_in);
    check_operand(&c, 0, MICA_F32, 2, x);
    check_output(&c, MICA_F32, 2, out);
    if (c.call.src[1].matrix) {
        char text[64], what[128];
        mica_weight_form_text(&c.matrix[0].form, text, sizeof(text));
        snprintf(what, sizeof(what), "%s [%lld x %lld] %lld rows", text, (long long)n_out,
                 (long long)n_in, (long long)rows);
        time_all(table, &c, isa, what, (double)mica_weight_bytes(&c.matrix[0]),
                 2.0 * (double)(rows * n_out * n_in));
    }
    check_free(&c);
}

static void bench_matmul_i8(const cpu_table *table, const char *isa, int form, check_layout layout,
                            bool fine, int64_t rows, int64_t n_out, int64_t n_in) {
    check_case c;
    if (!check_form_takes_i8(form)) return;
    begin_case(&c, OP_MATMUL_I8, form);
    c.panels = layout;
    int64_t out[2] = {rows, n_out};
    check_weight(&c, 1, 0, 0, n_out, &n_in);
    check_rows_i8(&c, rows, n_in, fine);
    check_output(&c, MICA_F32, 2, out);
    char text[64], what[128];
    mica_weight_form_text(&c.matrix[0].form, text, sizeof(text));
    snprintf(what, sizeof(what), "%s %s%s [%lld x %lld] %lld rows", text, fine ? "int16" : "int8",
             layout == CHECK_PANELS ? " panels" : "", (long long)n_out, (long long)n_in,
             (long long)rows);
    time_all(table, &c, isa, what, (double)mica_weight_bytes(&c.matrix[0]),
             2.0 * (double)(rows * n_out * n_in));
    check_free(&c);
}

/* What one thread reaches with nothing but multiply-adds of a kind: machines that others share do
 * not give the same from one second to the next. */
static void bench_peak(peak_kind kind) {
    for (int i = 0; i < mica_n_isa_peaks; i++) {
        const cpu_peak *p = mica_isa_peaks[i];
        if (p->kind != kind || (p->is_available && !p->is_available())) continue;
        const int64_t n = (int64_t)(1e9 / p->ops_per_round);
        double t[N_RUNS];
        for (int run = 0; run < N_RUNS; run++) {
            double start = thread_seconds();
            p->run(n);
            t[run] = thread_seconds() - start;
        }
        printf("%-22s peak %82.2f Gop/s\n", p->name,
               (double)n * p->ops_per_round / median_of(t) * 1e-9);
    }
}

static void bench_matmul_bf16(const cpu_table *table, const char *isa, int form, int64_t rows,
                              int64_t n_out, int64_t n_in) {
    check_case c;
    if (!check_form_takes_i8(form)) return;
    begin_case(&c, OP_MATMUL_BF16, form);
    int64_t out[2] = {rows, n_out};
    check_weight(&c, 1, 0, 0, n_out, &n_in);
    check_tiles(&c, rows, n_in);
    check_output(&c, MICA_F32, 2, out);
    char text[64], what[128];
    mica_weight_form_text(&c.matrix[0].form, text, sizeof(text));
    snprintf(what, sizeof(what), "%s bf16 [%lld x %lld] %lld rows", text, (long long)n_out,
             (long long)n_in, (long long)rows);
    bench_peak(PEAK_BF16);
    time_all(table, &c, isa, what, (double)mica_weight_bytes(&c.matrix[0]),
             2.0 * (double)(rows * n_out * n_in));
    check_free(&c);
}

/* What a machine with tiles does with prompts; the reference would take minutes. */
static void bench_bf16(const cpu_table *table, const char *isa) {
    if (!strcmp(isa, "ref")) return;
    for (int form = 0; form < check_form_count(); form++) {
        weight_form f;
        check_form_at(form, &f);
        bool usual = f.kind == WEIGHT_AFFINE && f.scale == SCALE_BF16 && f.bias == BIAS_GROUP &&
                     f.group == 64 && (f.bits == 4 || f.bits == 8);
        if (!usual) continue;
        bench_matmul_bf16(table, isa, form, 16, 1536, 3072);
        bench_matmul_bf16(table, isa, form, 128, 1536, 3072);
        bench_matmul_bf16(table, isa, form, 512, 1536, 3072);
        bench_matmul_bf16(table, isa, form, 512, 2048, 8192);
        bench_matmul_bf16(table, isa, form, 2048, 8192, 2048);
    }
}

/* Prompts on machines without tiles: shapes of SmolLM2 and of a 1b model, each form as GGUF files
 * have it. */
static void bench_prompts(const cpu_table *table, const char *isa) {
    static const int64_t shapes[][2] = {
        {1536, 576}, {576, 1536}, {2048, 2048}, {8192, 2048}, {2048, 8192}};
    if (!strcmp(isa, "ref")) return;
    for (int form = 0; form < check_form_count(); form++) {
        weight_form f;
        check_form_at(form, &f);
        bool q4 = f.kind == WEIGHT_AFFINE && f.group == 32 && f.scale == SCALE_F16 && f.bits == 4;
        if (!q4 || f.bias == BIAS_NONE) continue;
        for (int i = 0; i < 5; i++)
            for (int fine = 0; fine < 2; fine++) {
                bench_peak(PEAK_INT8);
                bench_matmul_i8(table, isa, form, CHECK_PANELS, fine, 512, shapes[i][0],
                                shapes[i][1]);
            }
    }
}

/* The special forms, and every width in groups of 64 with bf16 scales and biases. */
static void bench_forms(const cpu_table *table, const char *isa, bool i8) {
    for (int form = 0; form < check_form_count(); form++) {
        weight_form f;
        check_form_at(form, &f);
        bool plain = f.kind == WEIGHT_AFFINE && f.scale != SCALE_TWO_LEVEL;
        bool usual = f.group == 64 && f.scale == SCALE_BF16 && f.bias == BIAS_GROUP;
        bool gguf = i8 && f.group == 32 && f.scale == SCALE_F16 && f.bits % 4 == 0;
        if (plain ? !usual && !gguf : form >= 39) continue;
        for (int way = 0; i8 && way < 4; way++) {
            check_layout layout = way / 2 ? CHECK_PANELS : CHECK_ROWS;
            bench_matmul_i8(table, isa, form, layout, way % 2, 1, 12288, 3072);
            bench_matmul_i8(table, isa, form, layout, way % 2, 64, 1536, 3072);
        }
        if (i8) continue;
        bench_matmul(table, isa, form, 1, 12288, 3072);
        bench_matmul(table, isa, form, 64, 1536, 3072);
    }
}

/* What a plain read of the same memory reaches, by the widest loads that there are. */
static void bench_read(const void *p, size_t n_bytes) {
    if (!mica_n_isa_readers) return;
    const cpu_reader *reader = mica_isa_readers[mica_n_isa_readers - 1];
    size_t n_words = n_bytes / sizeof(uint64_t) / 256 * 256;
    static volatile uint64_t sum; /* kept, so that the reads cannot be left out */
    double t[N_RUNS];
    for (int run = 0; run < N_RUNS; run++) {
        double start = thread_seconds();
        sum = sum + reader->read(p, n_words);
        t[run] = thread_seconds() - start;
    }
    printf("%-22s plain read of the cache %53.2f GB/s\n", mica_cpu_isa_name(reader->isa),
           (double)(n_words * sizeof(uint64_t)) / median_of(t) * 1e-9);
}

typedef struct bench_heads {
    int64_t heads, kv, d;
} bench_heads;

/* One row, or the last `rows` rows of a prompt, over n_keys cached positions. */
static void bench_attention(const cpu_table *table, const char *isa, graph_op op, mica_dtype t,
                            bench_heads h, int64_t rows, int64_t n_keys) {
    check_case c;
    begin_case(&c, op, 0);
    int64_t n_blocks = n_keys / KV_BLOCK, n = h.heads * attention_n_parts(h.heads, h.kv);
    int64_t q[3] = {rows, h.heads, h.d}, table_dims[2] = {1, n_blocks};
    int64_t out[2] = {rows,
                      op == OP_ATTENTION_PARTS ? attention_parts_length(n, h.d) : h.heads * h.d};
    uint64_t size = (uint64_t)(h.kv * h.d * KV_BLOCK) * mica_dtype_bytes(t);
    size_t n_bytes = 2 * size * (size_t)n_blocks;
    c.attr.attention.layout =
        (kv_layout){(int32_t)h.kv, (int32_t)h.d, (int32_t)h.d, t, size, 2 * size, false};
    c.attr.attention.scale = 0.088f;
    check_operand(&c, 0, MICA_F32, 3, q);
    c.call.src[1].data = check_memory(&c, n_bytes);
    check_fill_floats(&c, c.call.src[1].data, t, 2 * h.kv * h.d * KV_BLOCK * n_blocks);
    int32_t *blocks = check_operand_i32(&c, 2, 2, table_dims);
    for (int64_t b = 0; b < n_blocks; b++)
        blocks[b] = (int32_t)b;
    for (int i = 3; i < 7; i++) {
        int32_t *p = check_operand_i32(&c, i, 1, &rows);
        for (int64_t r = 0; r < rows; r++)
            p[r] = i == 4 ? 0 : (int32_t)(n_keys - rows + r + (i == 6));
    }
    check_output(&c, MICA_F32, 2, out);
    char what[128];
    snprintf(what, sizeof(what), "%s cache, %lld keys, %lld/%lld heads of %lld, %lld rows",
             mica_dtype_name(t), (long long)n_keys, (long long)h.heads, (long long)h.kv,
             (long long)h.d, (long long)rows);
    if (rows == 1) bench_read(c.call.src[1].data, n_bytes);
    time_all(table, &c, isa, what, (double)n_bytes, 4.0 * (double)(rows * h.heads * h.d * n_keys));
    check_free(&c);
}

/* Decoding: heads of common models, of SmolLM2 135M and of Gemma 3 270M. */
static void bench_row(const cpu_table *table, const char *isa, graph_op op) {
    static const bench_heads usual = {32, 8, 128};
    static const bench_heads few[] = {{9, 3, 64}, {4, 1, 256}, {8, 8, 128}, {32, 4, 128}};
    bench_attention(table, isa, op, MICA_BF16, usual, 1, 4096);
    bench_attention(table, isa, op, MICA_F32, usual, 1, 4096);
    if (op != OP_ATTENTION_PARTS) return;
    bench_attention(table, isa, op, MICA_F16, usual, 1, 4096);
    bench_attention(table, isa, op, MICA_BF16, usual, 4, 4096);
    bench_attention(table, isa, op, MICA_BF16, usual, 1, 32768);
    for (int i = 0; i < 4; i++) /* as many bytes */
        bench_attention(table, isa, op, MICA_BF16, few[i], 1,
                        32768 * 8 * 128 / (few[i].kv * few[i].d * KV_BLOCK) * KV_BLOCK);
}

int check_bench(const cpu_table *table, const char *filter, const char *isa) {
    if (!filter || strstr("matmul", filter)) bench_forms(table, isa, false);
    if (!filter || strstr("matmul_i8", filter)) bench_forms(table, isa, true);
    if (!filter || strstr("matmul_i8_prompt", filter)) bench_prompts(table, isa);
    if (!filter || strstr("matmul_bf16", filter)) bench_bf16(table, isa);
    const graph_op ops[3] = {OP_ATTENTION, OP_FLASH_ATTENTION, OP_ATTENTION_PARTS};
    for (int i = 0; i < 3; i++) {
        if (filter && !strstr(mica_graph_op_name(ops[i]), filter)) continue;
        bench_row(table, isa, ops[i]);
        if (i < 2)
            bench_attention(table, isa, ops[i], MICA_BF16, (bench_heads){32, 8, 128}, i ? 256 : 16,
                            4096);
    }
    return 0;
}
