/* cases.c: the answers in tests/golden/toolcalls, whole, cut in two at every place and one byte at
 * a time, must give what stands there.
 *
 * Usage: cases FILE.json...  A file is a list of groups {"format", "reasoning", "tools", "cases"};
 * a case is {"name", "text"} and what is expected: "content", "reasoning", "calls" [name,
 * arguments, id]. "cut", "start", "stream", "ignore" set the options of the same meaning.
 */
#include "cmocka_base.h"

#include "answer.h"

static const char **paths;
static int n_paths;

typedef struct test_case {
    toolcall_dialect dialect;
    toolcall_options options;
    bool is_cut;
    const char *name, *text;
    size_t n_text;
    answer expected;
} test_case;

/* ---- reading ---- */
static void put_value(json_writer *w, const json_value *v) {
    switch (v->kind) {
    case JSON_KIND_STRING:
        mica_json_put_string(w, v->string, v->n);
        return;
    case JSON_KIND_ARRAY:
        mica_json_begin_array(w);
        for (size_t i = 0; i < v->n; i++) {
            put_value(w, v->items[i]);
        }
        mica_json_end_array(w);
        return;
    case JSON_KIND_OBJECT:
        mica_json_begin_object(w);
        for (size_t i = 0; i < v->n; i++) {
            mica_json_key(w, v->members[i].key);
            put_value(w, v->members[i].value);
        }
        mica_json_end_object(w);
        return;
    case JSON_KIND_NULL:
        mica_json_put_null(w);
        return;
    case JSON_KIND_BOOL:
        mica_json_put_bool(w, v->boolean);
        return;
    default:
        mica_json_put_double(w, mica_json_double(v, 0));
    }
}

static void append_value(bytes *b, const json_value *v) {
    if (v && v->kind == JSON_KIND_STRING) bytes_append(b, v->string, v->n);
}

static void read_expected(test_case *t, const json_value *v) {
    const json_value *calls = mica_json_find(v, "calls");
    append_value(&t->expected.content, mica_json_find(v, "content"));
    append_value(&t->expected.reasoning, mica_json_find(v, "reasoning"));
    t->expected.n_calls = calls ? calls->n : 0;
    t->expected.calls = calloc(t->expected.n_calls + 1, sizeof(*t->expected.calls));
    for (size_t i = 0; i < t->expected.n_calls; i++) {
        const json_value *call = calls->items[i];
        answer_call *c = &t->expected.calls[i];
        append_value(&c->name, call->items[0]);
        append_value(&c->arguments, call->items[1]);
        c->has_id = call->n > 2 && call->items[2]->kind == JSON_KIND_STRING;
        if (c->has_id) append_value(&c->id, call->items[2]);
        c->is_broken = call->n > 3;
    }
}

static toolcall_start read_start(const char *word) {
    if (strcmp(word, "reasoning") == 0) return TOOLCALL_START_REASONING;
    return strcmp(word, "unknown") == 0 ? TOOLCALL_START_UNKNOWN : TOOLCALL_START_CONTENT;
}

static void read_case(test_case *t, const json_value *group, const json_value *v,
                      const json_writer *tools) {
    mica_error err = {0};
    toolcall_source source = {.format = mica_json_string(mica_json_find(group, "format"), "none"),
                              .reasoning =
                                  mica_json_string(mica_json_find(group, "reasoning"), "none")};
    memset(t, 0, sizeof(*t));
    if (mica_toolcall_detect(&t->dialect, &source, &err)) fail_msg("%s", err.message);
    t->options.tools = tools->data;
    t->options.n_tools = tools->n;
    t->options.start = read_start(mica_json_string(mica_json_find(v, "start"), ""));
    t->options.streams_arguments = mica_json_bool(mica_json_find(v, "stream"), false);
    t->options.ignores_calls = mica_json_bool(mica_json_find(v, "ignore"), false);
    t->is_cut = mica_json_bool(mica_json_find(v, "cut"), false);
    t->name = mica_json_string(mica_json_find(v, "name"), "?");
    t->text = mica_json_string(mica_json_find(v, "text"), "");
    t->n_text = mica_json_find(v, "text")->n;
    read_expected(t, v);
}

/* ---- checking ---- */
static bool check_cuts(const test_case *t, const answer *expected, const size_t *cuts,
                       size_t n_cuts, const char *how) {
    answer a = answer_parse(&t->dialect, &t->options, t->is_cut, t->text, t->n_text, cuts, n_cuts);
    bool is_good = !a.wrong && answer_equal(&a, expected);
    if (!is_good) {
        fprintf(stderr, "%s: %s, %s (first cut %zu)\n", mica_toolcall_format_name(&t->dialect),
                t->name, how, n_cuts ? cuts[0] : 0);
        answer_print("expected", expected);
        answer_print("found", &a);
    }
    answer_free(&a);
    return is_good;
}

static bool check_splits(const test_case *t, const answer *expected) {
    size_t *all = calloc(t->n_text + 1, sizeof(*all));
    bool is_good = check_cuts(t, expected, NULL, 0, "whole");
    for (size_t i = 0; i <= t->n_text && is_good; i++) {
        is_good = check_cuts(t, expected, &i, 1, "cut in two");
    }
    for (size_t i = 0; i < t->n_text; i++) {
        all[i] = i;
    }
    if (is_good) is_good = check_cuts(t, expected, all, t->n_text, "one byte at a time");
    free(all);
    return is_good;
}

/* Arguments given out while they are read are the same where the call is whole. */
static bool check_stream(const test_case *t) {
    test_case streamed = *t;
    streamed.options.streams_arguments = true;
    answer whole = answer_parse(&streamed.dialect, &streamed.options, streamed.is_cut,
                                streamed.text, streamed.n_text, NULL, 0);
    bool is_broken = false;
    for (size_t i = 0; i < whole.n_calls; i++) {
        is_broken |= whole.calls[i].is_broken;
    }
    bool is_good = !whole.wrong && check_splits(&streamed, &whole);
    if (is_good && !is_broken && !t->options.streams_arguments && !strstr(t->name, "late id")) {
        is_good = check_cuts(&streamed, &t->expected, NULL, 0, "streamed");
    }
    answer_free(&whole);
    return is_good;
}

static size_t check_group(const json_value *group, size_t *n_cases) {
    size_t n_wrong = 0;
    const json_value *tools = mica_json_find(group, "tools"),
                     *cases = mica_json_find(group, "cases");
    json_writer w;
    mica_json_writer_init(&w, false);
    if (tools) put_value(&w, tools);
    for (size_t i = 0; i < cases->n; i++) {
        test_case t;
        read_case(&t, group, cases->items[i], &w);
        n_wrong += !(check_splits(&t, &t.expected) && check_stream(&t));
        ++*n_cases;
        answer_free(&t.expected);
    }
    mica_json_writer_deinit(&w);
    return n_wrong;
}

static void test_cases(void **state) {
    (void)state;
    size_t n_wrong = 0, n_cases = 0;
    for (int i = 0; i < n_paths; i++) {
        mica_arena arena;
        mica_error err = {0};
        json_value *groups;
        mica_arena_init(&arena, 0);
        if (mica_json_parse_file(&groups, paths[i], 1 << 20, false, &arena, &err)) {
            fail_msg("%s", err.message);
        }
        for (size_t k = 0; k < groups->n; k++) {
            n_wrong += check_group(groups->items[k], &n_cases);
        }
        mica_arena_deinit(&arena);
    }
    print_message("%zu cases\n", n_cases);
    assert_true(n_cases > 0);
    assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    paths = (const char **)argv + 1;
    n_paths = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
