/* fast.c: the gates of the fast profile on the tiny checkpoints: its distance from exact f32 with
 * all levers off, with each alone and with the defaults, in both roles; and that a lever does
 * something at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "gate.h"
#include "tiny.h"

static const char *root;

typedef struct setting {
    const char *name;
    uint32_t on;
    bool is_default; /* `on` does not count */
} setting;

static const setting settings[] = {
    {"no levers", 0, false},
    {"swiglu", 1u << LEVER_SWIGLU, false},
    {"geglu", 1u << LEVER_GEGLU, false},
    {"int16", 1u << LEVER_INT16, false},
    {"int8", 1u << LEVER_SWIGLU | 1u << LEVER_GEGLU | 1u << LEVER_INT8, false},
    {"int8-down", 1u << LEVER_SWIGLU | 1u << LEVER_GEGLU | 1u << LEVER_INT8_DOWN, false},
    {"flash", 1u << LEVER_FLASH, false},
    {"bf16", 1u << LEVER_BF16, false}, /* only where there are tiles */
    {"parts", 1u << LEVER_PARTS, false},
    {"norm-rows", 1u << LEVER_INT16 | 1u << LEVER_NORM_ROWS, false},
    {"glu-rows", 1u << LEVER_SWIGLU | 1u << LEVER_GEGLU | 1u << LEVER_INT16 | 1u << LEVER_GLU_ROWS,
     false},
    {"residual", 1u << LEVER_INT16 | 1u << LEVER_RESIDUAL, false},
    {"defaults", 0, true},
};
enum { N_SETTINGS = sizeof(settings) / sizeof(*settings) };

static engine *open_fast(const tiny *t, const setting *s) {
    gate_levers levers;
    engine_options options = {.n_threads = 2, .max_logits = 64};
    gate_levers_init(&levers, s->on);
    options.levers = levers.list;
    options.n_levers = s->is_default ? 0 : LEVER_N;
    return tiny_open(t->path, &options);
}

static int n_steps_of(const engine *e, row_role role, graph_op op) {
    const plan *p = mica_engine_plan(e, role);
    int n = 0;
    for (int32_t i = 0; i < p->n_steps; i++)
        n += p->steps[i].op == op;
    return n;
}

static int n_fused(const engine *e, row_role role) {
    return n_steps_of(e, role, OP_GLU_MATMUL) + n_steps_of(e, role, OP_GLU_MATMUL_I8) +
           n_steps_of(e, role, OP_GLU_ROWS_I8) + n_steps_of(e, role, OP_EXPERT_GLU_MATMUL) +
           n_steps_of(e, role, OP_EXPERT_GLU_MATMUL_I8) + n_steps_of(e, role, OP_GLU_MATMUL_BF16) +
           n_steps_of(e, role, OP_EXPERT_GLU_MATMUL_BF16);
}

/* As without levers. */
static bool has_plain_plan(const engine *e, row_role role) {
    return !n_fused(e, role) && !n_steps_of(e, role, OP_QUANTIZE_ROWS) &&
           !n_steps_of(e, role, OP_RMS_NORM_I8) && !n_steps_of(e, role, OP_LAYER_NORM_I8) &&
           !n_steps_of(e, role, OP_FLASH_ATTENTION) && !n_steps_of(e, role, OP_TILE_ROWS) &&
           !n_steps_of(e, role, OP_ATTENTION_PARTS);
}

/* Prompt and greedy ids: the text that the reference went through. */
static int64_t whole_text(const tiny *t, int32_t *ids) {
    memcpy(ids, t->ids, (size_t)t->n_ids * sizeof(*ids));
    memcpy(ids + t->n_ids, t->greedy, (size_t)t->n_greedy * sizeof(*ids));
    return t->n_ids + t->n_greedy;
}

static int n_wrong_gates(const tiny *t) {
    int32_t ids[256];
    int64_t n = whole_text(t, ids);
    float *exact = malloc((size_t)(n * t->n_vocab) * 4),
          *fast = malloc((size_t)(n * t->n_vocab) * 4);
    int n_wrong = 0;
    engine_options options = tiny_exact(true);
    engine *e = tiny_open(t->path, &options);
    tiny_logits(e, ids, n, ROLE_PROMPT, exact);
    mica_engine_close(e);
    for (int i = 0; i < N_SETTINGS; i++) {
        e = open_fast(t, &settings[i]);
        for (int role = 0; role < 2; role++) {
            char how[64];
            if (i > 0 && has_plain_plan(e, (row_role)role)) continue;
            snprintf(how, sizeof(how), "%s, %s rows", settings[i].name,
                     role == ROLE_PROMPT ? "prompt" : "decode");
            tiny_logits(e, ids, n, (row_role)role, fast);
            if (!gate_holds(t->name, how, gate_measure(exact, fast, n, t->n_vocab))) n_wrong++;
        }
        mica_engine_close(e);
    }
    free(exact);
    free(fast);
    return n_wrong;
}

static void gates(void **state) {
    (void)state;
    int n, n_wrong = 0;
    tiny *list = tiny_load_all(root, NULL, &n);
    for (int i = 0; i < n; i++)
        n_wrong += n_wrong_gates(&list[i]);
    tiny_free_all(list, n);
    assert_int_equal(n_wrong, 0);
}

/* Which activation a family has decides which lever fuses its layers, all of them. */
static void levers_fire(void **state) {
    (void)state;
    static const char *const names[] = {"llama-bf16", "gemma3-bf16", "qwen3_moe-q4"};
    static const bool fused[3][N_SETTINGS] = {
        {false, true, false, false, true, true, false, false, false, false, true, false, true},
        {false, false, true, false, true, true, false, false, false, false, true, false, true},
        {false, true, false, false, true, true, false, false, false, false, true, false, true}};
    for (int k = 0; k < 3; k++) {
        int n;
        tiny *t = tiny_load_all(root, names[k], &n);
        for (int i = 0; i < N_SETTINGS; i++) {
            engine *e = open_fast(t, &settings[i]);
            int n_layers = (int)mica_model_config(mica_engine_model(e))->n_layers;
            bool flash = settings[i].is_default || settings[i].on >> LEVER_FLASH & 1u;
            bool parts = settings[i].is_default || settings[i].on >> LEVER_PARTS & 1u;
            for (int role = 0; role < 2; role++) {
                assert_int_equal(n_fused(e, (row_role)role), fused[k][i] ? n_layers : 0);
                assert_int_equal(n_steps_of(e, (row_role)role, OP_FLASH_ATTENTION),
                                 flash && role == ROLE_PROMPT ? n_layers : 0);
                assert_int_equal(n_steps_of(e, (row_role)role, OP_ATTENTION_PARTS),
                                 parts && role == ROLE_DECODE ? n_layers : 0);
            }
            mica_engine_close(e);
        }
        tiny_free_all(t, n);
    }
}

/* In a layer: the additions join two matmuls or two norms, two norms and the pair are quantized. */
static void rows_and_sums_join(void **state) {
    (void)state;
    static const char *const names[] = {"llama-q4-g64", "gemma3-q8-g64-bf16"};
    for (int k = 0; k < 2; k++) {
        int n;
        tiny *t = tiny_load_all(root, names[k], &n);
        for (int on = 0; on < 2; on++) {
            setting s = {"", mica_levers_fast().on & ~(1u << LEVER_BF16), false};
            if (!on) s.on &= ~(1u << LEVER_NORM_ROWS | 1u << LEVER_GLU_ROWS | 1u << LEVER_RESIDUAL);
            engine *e = open_fast(t, &s);
            int n_layers = (int)mica_model_config(mica_engine_model(e))->n_layers;
            for (int role = 0; role < 2; role++) {
                assert_int_equal(n_steps_of(e, (row_role)role, OP_ADD), on ? 0 : 2 * n_layers);
                assert_int_equal(n_steps_of(e, (row_role)role, OP_RMS_NORM_I8),
                                 on ? 2 * n_layers + 1 : 0);
                assert_int_equal(n_steps_of(e, (row_role)role, OP_GLU_ROWS_I8), on ? n_layers : 0);
                assert_int_equal(n_steps_of(e, (row_role)role, OP_QUANTIZE_ROWS),
                                 on ? n_layers : 4 * n_layers + 1);
            }
            mica_engine_close(e);
        }
        tiny_free_all(t, n);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(gates), cmocka_unit_test(levers_fire),
                                       cmocka_unit_test(rows_and_sums_join)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
