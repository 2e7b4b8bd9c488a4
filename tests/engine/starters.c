/* starters.c: the gates of the fast profile on the starter models: the 64 tokens that the reference
 * generated after a prompt, under teacher forcing, against exact f32. Each row of the answer runs
 * once as prompt and once as decode row.
 *
 * Usage: test_engine_starters GOLDEN/starters NAME. Exit code 77 (skipped) when the model has not
 * been fetched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "gate.h"
#include "tiny.h"

#include "base/file.h"
#include "base/json.h"

static const char *golden_root, *model_name;
static char model_path[1024];

static const char *const prompt_names[] = {"prose", "code-py", "cyrillic-greek"};

typedef struct text {
    const char *name;
    int32_t ids[512];
    int64_t n_prompt, n;
    float *exact; /* rows n_prompt-1 .. n-2: what predicts the answer */
} text;

static void append(text *t, const json_value *array) {
    assert_non_null(array);
    for (size_t i = 0; i < array->n; i++)
        t->ids[t->n++] = (int32_t)mica_json_i64(array->items[i], -1);
}

static void load_texts(text *texts) {
    char path[1200];
    mica_error err;
    mica_arena arena;
    json_value *root;
    mica_arena_init(&arena, 0);
    snprintf(path, sizeof(path), "%s/%s.json", golden_root, model_name);
    if (mica_json_parse_file(&root, path, 1 << 24, false, &arena, &err))
        fail_msg("%s", err.message);
    const json_value *prompts = mica_json_find(root, "prompts");
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < prompts->n; i++) {
            const json_value *p = prompts->items[i];
            if (strcmp(mica_json_string(mica_json_find(p, "name"), ""), prompt_names[k])) continue;
            texts[k].name = prompt_names[k];
            append(&texts[k], mica_json_find(p, "ids"));
            texts[k].n_prompt = texts[k].n;
            append(&texts[k], mica_json_find(p, "greedy"));
        }
    mica_arena_deinit(&arena);
}

/* The prompt but its last token, then the rest row by row's logits. */
static void run_text(engine *e, const text *t, row_role role, float *out) {
    session *s;
    mica_error err;
    tiny_rows rows = {out, mica_engine_vocab_size(e), 0};
    eval_options quiet = {.role = ROLE_PROMPT, .n_prompt = t->n_prompt};
    eval_options loud = {.role = role,
                         .n_prompt = t->n_prompt,
                         .all_logits = true,
                         .on_logits = tiny_keep_row,
                         .user = &rows};
    int64_t n = t->n_prompt - 1;
    if (mica_session_new(&s, e, &err)) fail_msg("%s", err.message);
    if (mica_session_eval(s, t->ids, n, &quiet, &err)) fail_msg("%s", err.message);
    if (mica_session_eval(s, t->ids + n, t->n - 1 - n, &loud, &err)) fail_msg("%s", err.message);
    mica_session_free(s);
}

/* on: which levers; all bits: the defaults. */
static int n_wrong_gates(text *texts, const char *how, uint32_t on) {
    gate_levers levers;
    gate_levers_init(&levers, on);
    engine_options options = {.max_logits = 64, .levers = levers.list};
    options.n_levers = on == UINT32_MAX ? 0 : LEVER_N;
    engine *e = tiny_open(model_path, &options);
    int64_t n_vocab = mica_engine_vocab_size(e);
    int n_wrong = 0;
    for (int k = 0; k < 3; k++)
        for (int role = 0; role < 2; role++) {
            char what[128];
            int64_t n = texts[k].n - texts[k].n_prompt;
            float *rows = malloc((size_t)(n * n_vocab) * sizeof(*rows));
            run_text(e, &texts[k], (row_role)role, rows);
            snprintf(what, sizeof(what), "%s, %s rows", how, role ? "decode" : "prompt");
            if (!gate_holds(texts[k].name, what, gate_measure(texts[k].exact, rows, n, n_vocab)))
                n_wrong++;
            free(rows);
        }
    mica_engine_close(e);
    return n_wrong;
}

static void gates(void **state) {
    (void)state;
    text *texts = calloc(3, sizeof(*texts));
    load_texts(texts);
    engine_options options = tiny_exact(true);
    options.n_threads = 0;
    engine *e = tiny_open(model_path, &options);
    int64_t n_vocab = mica_engine_vocab_size(e);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(texts[k].n - texts[k].n_prompt, 64);
        texts[k].exact = malloc((size_t)(64 * n_vocab) * sizeof(float));
        run_text(e, &texts[k], ROLE_PROMPT, texts[k].exact);
    }
    bool gelu = !strncmp(mica_model_config(mica_engine_model(e))->arch, "gemma", 5);
    mica_engine_close(e);
    uint32_t pair = 1u << (gelu ? LEVER_GEGLU : LEVER_SWIGLU);
    int n_wrong = n_wrong_gates(texts, gelu ? "geglu" : "swiglu", pair);
    n_wrong += n_wrong_gates(texts, "int16", 1u << LEVER_INT16);
    n_wrong += n_wrong_gates(texts, "int8", pair | 1u << LEVER_INT8);
    n_wrong += n_wrong_gates(texts, "int8-down", pair | 1u << LEVER_INT8_DOWN);
    n_wrong += n_wrong_gates(texts, "flash", 1u << LEVER_FLASH);
    n_wrong += n_wrong_gates(texts, "parts", 1u << LEVER_PARTS);
    n_wrong += n_wrong_gates(texts, "defaults", UINT32_MAX);
    for (int k = 0; k < 3; k++)
        free(texts[k].exact);
    free(texts);
    assert_int_equal(n_wrong, 0);
}

static void find_model(void) {
    const char *home = getenv("MICA_HOME"), *data = getenv("XDG_DATA_HOME");
    const char *user = getenv("HOME");
    if (home)
        snprintf(model_path, sizeof(model_path), "%s/models/%s.gguf", home, model_name);
    else if (data)
        snprintf(model_path, sizeof(model_path), "%s/mica/models/%s.gguf", data, model_name);
    else
        snprintf(model_path, sizeof(model_path), "%s/.local/share/mica/models/%s.gguf",
                 user ? user : "", model_name);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    golden_root = argv[1];
    model_name = argv[2];
    find_model();
    if (!mica_path_exists(model_path)) {
        printf("skipped: %s is not there\n", model_path);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(gates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
