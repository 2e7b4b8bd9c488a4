/* embed.c: the embedding checkpoints of tests/golden/embed against the vectors that another
 * implementation made of the same texts.
 *
 * In exact f32 both sides differ by the order of sums alone: no number may be off by more than 2e-3
 * of the numbers' standard deviation. Fast vectors point the same way as exact ones. And a vector
 * has the same bits whatever texts are beside it, however many rows a step has, and on any number
 * of threads.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "fault_alloc.h"

#include "base/json.h"
#include "engine/embed_text.h"
#include "engine/engine.h"

static const char *root;

enum { MAX_CASES = 64, MAX_PATH = 1200 };

typedef struct embed_case {
    const char *text, *prompt_name, *instruction;
    bool has_pooling;
    pooling_kind pooling;
    int32_t *ids;
    int64_t n_ids;
} embed_case;

/* One checkpoint with its cases. */
typedef struct model_cases {
    char name[64], path[MAX_PATH];
    mica_arena arena;
    embed_case cases[MAX_CASES];
    int n;
    bool normalized;
    float *vectors; /* [n, size] */
    int64_t size;
    double std;
} model_cases;

static void read_vectors(model_cases *m, const char *folder) {
    char path[MAX_PATH + 16], *data;
    size_t n_bytes;
    mica_error err;
    long long rows = 0, columns = 0;
    snprintf(path, sizeof(path), "%s/vectors.npy", folder);
    if (mica_file_read(&data, &n_bytes, path, (size_t)1 << 24, &err)) fail_msg("%s", err.message);
    assert_true(n_bytes > 10 && !memcmp(data, "\x93NUMPY\x01", 7));
    size_t header = 10 + (size_t)(uint8_t)data[8] + 256 * (size_t)(uint8_t)data[9];
    const char *shape = strstr(data + 10, "'shape': (");
    assert_non_null(strstr(data + 10, "'<f4'"));
    assert_true(shape && sscanf(shape + 10, "%lld, %lld", &rows, &columns) == 2);
    assert_int_equal(rows, m->n);
    size_t n = (size_t)(rows * columns);
    assert_int_equal(n_bytes, header + 4 * n);
    m->size = columns;
    m->vectors = malloc(4 * n);
    memcpy(m->vectors, data + header, 4 * n);
    mica_free(data);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)m->vectors[i];
        squares += (double)m->vectors[i] * (double)m->vectors[i];
    }
    m->std = sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

static void read_case(model_cases *m, const json_value *v) {
    embed_case *c = &m->cases[m->n++];
    assert_true(m->n <= MAX_CASES);
    c->text = mica_json_string(mica_json_find(v, "text"), NULL);
    c->prompt_name = mica_json_string(mica_json_find_set(v, "prompt_name"), NULL);
    c->instruction = mica_json_string(mica_json_find_set(v, "instruction"), NULL);
    const json_value *pooling = mica_json_find_set(v, "pooling");
    c->has_pooling = pooling != NULL;
    if (pooling) assert_true(mica_pooling_find(pooling->string, &c->pooling));
    const json_value *ids = mica_json_find(v, "ids");
    assert_true(c->text && ids);
    c->n_ids = (int64_t)ids->n;
    c->ids = mica_arena_calloc(&m->arena, ids->n, sizeof(*c->ids));
    for (size_t i = 0; i < ids->n; i++)
        c->ids[i] = (int32_t)mica_json_i64(ids->items[i], -1);
}

static bool read_model(model_cases *m, const char *name) {
    char folder[MAX_PATH - 16], path[MAX_PATH];
    json_value *v;
    mica_error err;
    memset(m, 0, sizeof(*m));
    snprintf(m->name, sizeof(m->name), "%s", name);
    snprintf(folder, sizeof(folder), "%s/%s", root, name);
    snprintf(path, sizeof(path), "%s/embed.json", folder);
    if (name[0] == '.' || !mica_path_exists(path)) return false;
    mica_arena_init(&m->arena, 0);
    if (mica_json_parse_file(&v, path, 1 << 20, false, &m->arena, &err))
        fail_msg("%s", err.message);
    m->normalized = mica_json_bool(mica_json_find(v, "normalized"), false);
    const json_value *cases = mica_json_find(v, "cases");
    assert_non_null(cases);
    for (size_t i = 0; i < cases->n; i++)
        read_case(m, cases->items[i]);
    read_vectors(m, folder);
    snprintf(m->path, sizeof(m->path), "%s/model.gguf", folder);
    if (!mica_path_exists(m->path)) snprintf(m->path, sizeof(m->path), "%s", folder);
    return true;
}

static void free_model(model_cases *m) {
    mica_arena_deinit(&m->arena);
    free(m->vectors);
}

/* Calls fn with every checkpoint whose name contains `filter` (NULL: all). */
static void each_model(void (*fn)(const model_cases *m), const char *filter) {
    DIR *dir = opendir(root);
    int n = 0;
    if (!dir) fail_msg("no folder %s", root);
    for (struct dirent *e; (e = readdir(dir));) {
        model_cases *m = malloc(sizeof(*m));
        if ((!filter || strstr(e->d_name, filter)) && read_model(m, e->d_name)) {
            fn(m);
            free_model(m);
            n++;
        }
        free(m);
    }
    closedir(dir);
    assert_true(n > 0);
}

static engine_options exact_f32(void) {
    return (engine_options){.use = ENGINE_EMBEDS,
                            .exact = true,
                            .has_dtype = true,
                            .dtype = MICA_F32,
                            .n_threads = 1,
                            .max_seqs = 5};
}

static engine *open_engine(const model_cases *m, const engine_options *options) {
    engine *e = NULL;
    mica_error err;
    if (mica_engine_open(&e, m->path, options, &err)) fail_msg("%s: %s", m->path, err.message);
    return e;
}

static const char *prompt_of(const embedding_config *c, const embed_case *k) {
    const char *name = k->prompt_name ? k->prompt_name : c->default_prompt;
    return name ? mica_embedding_prompt(c, name) : NULL;
}

/* The ids that mica makes of a case's text. */
static int64_t encode(const engine *e, const tokenizer *t, const embed_case *k, token_list *ids) {
    const embedding_config *c = mica_engine_embedding(e);
    char *instruction = k->instruction ? mica_embed_instruction(k->instruction) : NULL;
    const char *prompt = instruction ? instruction : prompt_of(c, k);
    const embed_words words = {prompt, prompt ? strlen(prompt) : 0, k->text, strlen(k->text)};
    int64_t n_prompt;
    mica_error err;
    if (mica_embed_encode(c, t, &words, mica_engine_max_embedded(e), ids, &n_prompt, &err))
        fail_msg("%s", err.message);
    mica_free(instruction);
    return n_prompt;
}

static void embed_one(engine *e, const embed_case *k, int64_t n_prompt, float *out) {
    embed_options o;
    mica_error err;
    const embed_text text = {k->ids, k->n_ids, n_prompt};
    mica_embed_defaults(e, &o);
    if (k->has_pooling) o.pooling = k->pooling;
    if (mica_embed(e, &text, 1, &o, out, &err)) fail_msg("%s", err.message);
}

/* ---- against the other implementation ---- */

static void compare(const model_cases *m) {
    const engine_options options = exact_f32();
    engine *e = open_engine(m, &options);
    tokenizer *t = NULL;
    mica_error err;
    double worst = 0;
    float *out = malloc((size_t)m->size * sizeof(*out));
    if (mica_tokenizer_open_source(&t, m->path, &err)) fail_msg("%s", err.message);
    assert_int_equal(mica_engine_embedding_size(e), m->size);
    assert_int_equal(mica_engine_embedding(e)->normalizes, m->normalized);
    for (int i = 0; i < m->n; i++) {
        const embed_case *k = &m->cases[i];
        token_list ids = {0};
        int64_t n_prompt = encode(e, t, k, &ids);
        if (ids.n != (size_t)k->n_ids || memcmp(ids.ids, k->ids, ids.n * sizeof(*ids.ids)))
            fail_msg("%s case %d: other ids, %zu instead of %lld", m->name, i, ids.n,
                     (long long)k->n_ids);
        mica_free(ids.ids);
        embed_one(e, k, n_prompt, out);
        for (int64_t d = 0; d < m->size; d++) {
            double off = fabs((double)out[d] - (double)m->vectors[i * m->size + d]) / m->std;
            if (!(off <= 2e-3))
                fail_msg("%s case %d: number %lld is %.7g, not %.7g", m->name, i, (long long)d,
                         (double)out[d], (double)m->vectors[i * m->size + d]);
            if (off > worst) worst = off;
        }
    }
    print_message("%-16s %d vectors, off by %.1e of their std\n", m->name, m->n, worst);
    free(out);
    mica_tokenizer_free(t);
    mica_engine_close(e);
}

static void golden(void **state) {
    (void)state;
    each_model(compare, NULL);
}

static double cosine(const float *a, const float *b, int64_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void compare_fast(const model_cases *m) {
    const engine_options options = {.use = ENGINE_EMBEDS, .n_threads = 2};
    engine *e = open_engine(m, &options);
    const embedding_config *c = mica_engine_embedding(e);
    float *out = malloc((size_t)m->size * sizeof(*out));
    double least = 1;
    for (int i = 0; i < m->n; i++) {
        if (c->excludes_prompt && prompt_of(c, &m->cases[i])) continue;
        embed_one(e, &m->cases[i], 0, out);
        double x = cosine(out, m->vectors + i * m->size, m->size);
        if (x < least) least = x;
    }
    print_message("%-16s fast: least cosine %.6f\n", m->name, least);
    assert_true(least > 0.9995);
    free(out);
    mica_engine_close(e);
}

static void fast(void **state) {
    (void)state;
    each_model(compare_fast, NULL);
}

/* ---- no bit depends on how it is done ---- */

/* All cases in one call, `turn` cases later first; out [n, size] in the cases' order. */
static void embed_all(engine *e, const model_cases *m, int turn, float *out) {
    embed_text texts[MAX_CASES];
    embed_options o;
    mica_error err;
    float *turned = malloc((size_t)(m->n * m->size) * sizeof(*turned));
    for (int i = 0; i < m->n; i++) {
        const embed_case *k = &m->cases[(i + turn) % m->n];
        texts[i] = (embed_text){k->ids, k->n_ids, k->n_ids > 3 ? 1 : 0};
    }
    mica_embed_defaults(e, &o);
    if (mica_embed(e, texts, m->n, &o, turned, &err)) fail_msg("%s: %s", m->name, err.message);
    for (int i = 0; i < m->n; i++)
        memcpy(out + (i + turn) % m->n * m->size, turned + i * m->size, (size_t)m->size * 4);
    free(turned);
}

static void same_bits_of(const model_cases *m) {
    static const int chunks[] = {0, 1, 7, 50, 200};
    size_t n_bytes = (size_t)(m->n * m->size) * sizeof(float);
    float *base = malloc(n_bytes), *other = malloc(n_bytes);
    for (int exact = 0; exact < 2; exact++) {
        engine_options plain = exact_f32();
        plain.exact = plain.has_dtype = exact;
        plain.max_seqs = 1;
        engine *e = open_engine(m, &plain);
        embed_all(e, m, 0, base);
        mica_engine_close(e);
        for (int i = 0; i < 5; i++) {
            engine_options o = plain;
            o.chunk = chunks[i];
            o.max_seqs = 1 + 3 * i;
            o.n_threads = 1 + i % 3;
            o.use = i % 2 ? ENGINE_DOES_BOTH : ENGINE_EMBEDS;
            e = open_engine(m, &o);
            for (int turn = 0; turn < 9; turn += 4) {
                embed_all(e, m, turn, other);
                if (memcmp(base, other, n_bytes))
                    fail_msg("%s: other bits with chunk %d, %d texts a step, turned by %d", m->name,
                             chunks[i], o.max_seqs, turn);
            }
            mica_engine_close(e);
        }
    }
    free(base);
    free(other);
}

static void same_bits(void **state) {
    (void)state;
    each_model(same_bits_of, NULL);
}

/* ---- what is refused ---- */

static void expect_refusal(engine *e, const embed_text *t, const embed_options *o, mica_status code,
                           const char *part) {
    mica_error err = {0};
    float out[64];
    mica_status st = mica_embed(e, t, 1, o, out, &err);
    if (st != code || !strstr(err.message, part))
        fail_msg("expected '%s', found status %d '%s'", part, (int)st, st ? err.message : "");
}

static void refusals_of(const model_cases *m) {
    static const int32_t ids[80] = {3, 4, 5}, wild[] = {3, 4, 5, 1000};
    engine_options options = exact_f32();
    engine *e = open_engine(m, &options);
    embed_options o;
    mica_error err = {0};
    mica_embed_defaults(e, &o);
    expect_refusal(e, &(embed_text){ids, 0, 0}, &o, MICA_E_INVALID, "text 0 has no token");
    expect_refusal(e, &(embed_text){ids, 3, 3}, &o, MICA_E_INVALID, "text 0 has no token");
    expect_refusal(e, &(embed_text){wild, 4, 0}, &o, MICA_E_INVALID, "token 3 is 1000");
    expect_refusal(e, &(embed_text){ids, 49, 0}, &o, MICA_E_LIMIT,
                   "text 0 has 49 tokens; this model embeds at most 48");
    o.n_dims = 33;
    expect_refusal(e, &(embed_text){ids, 3, 0}, &o, MICA_E_INVALID, "33 dimensions");
    /* an engine for embeddings alone does not generate */
    session *s;
    generate_options g;
    generate_result r = {0};
    mica_generate_defaults(&g);
    assert_int_equal(mica_session_new(&s, e, &err), MICA_OK);
    assert_int_equal(mica_generate(s, ids, 3, &g, &r, &err), MICA_E_STATE);
    mica_generate_result_deinit(&r);
    mica_session_free(s);
    mica_engine_close(e);
    /* and an encoder makes no text at all */
    options.use = ENGINE_GENERATES;
    assert_int_equal(mica_engine_open(&e, m->path, &options, &err), MICA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "bert is an encoder: it makes embeddings"));
}

static void refusals(void **state) {
    (void)state;
    each_model(refusals_of, "bert-mean");
}

/* ---- the first numbers alone ---- */

static void shorter_of(const model_cases *m) {
    const engine_options options = exact_f32();
    engine *e = open_engine(m, &options);
    const embed_case *k = &m->cases[0];
    const embed_text text = {k->ids, k->n_ids, 0};
    embed_options o;
    mica_error err;
    float out[8];
    double squares = 0;
    mica_embed_defaults(e, &o);
    o.n_dims = 8;
    assert_int_equal(mica_embed(e, &text, 1, &o, out, &err), MICA_OK);
    for (int i = 0; i < 8; i++)
        squares += (double)out[i] * (double)out[i];
    assert_true(fabs(squares - 1) < 1e-6);
    assert_true(cosine(out, m->vectors, 8) > 1 - 1e-6);
    mica_engine_close(e);
}

static void shorter(void **state) {
    (void)state;
    each_model(shorter_of, "bert-cls");
}

/* ---- every allocation made to fail ---- */

static mica_status load_and_embed(const model_cases *m, mica_error *err) {
    engine *e = NULL;
    embed_text texts[8];
    embed_options o;
    float *out = malloc((size_t)(8 * m->size) * sizeof(*out));
    const engine_options options = {
        .use = ENGINE_EMBEDS, .n_threads = 1, .max_seqs = 3, .chunk = 64};
    for (int i = 0; i < 8; i++)
        texts[i] = (embed_text){m->cases[i % 7].ids, m->cases[i % 7].n_ids, 0};
    mica_status st = mica_engine_open(&e, m->path, &options, err);
    if (!st) {
        mica_embed_defaults(e, &o);
        st = mica_embed(e, texts, 8, &o, out, err);
    }
    mica_engine_close(e);
    free(out);
    return st;
}

static void faults_of(const model_cases *m) {
    mica_error err;
    long before = fault_alloc_live();
    fault_alloc_arm(0);
    assert_int_equal(load_and_embed(m, &err), MICA_OK);
    long n_calls = fault_alloc_calls();
    assert_int_equal(fault_alloc_live(), before);
    for (long i = 1; i <= n_calls; i++) {
        memset(&err, 0, sizeof(err));
        fault_alloc_arm(i);
        mica_status st = load_and_embed(m, &err);
        long live = fault_alloc_live();
        if (st != MICA_E_NOMEM || err.code != st || live != before)
            fail_msg("%s: allocation %ld of %ld: status %d, '%s', %ld blocks left", m->name, i,
                     n_calls, (int)st, err.message, live - before);
    }
    fault_alloc_arm(0);
    print_message("%s: %ld allocations\n", m->name, n_calls);
}

static void every_allocation(void **state) {
    (void)state;
    each_model(faults_of, "bert-apart");
    each_model(faults_of, "gguf-bert");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),   cmocka_unit_test(fast),    cmocka_unit_test(same_bits),
        cmocka_unit_test(refusals), cmocka_unit_test(shorter), cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
