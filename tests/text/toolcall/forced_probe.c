/* forced_probe.c: grammars of calls driven from outside, for test_forced.py: one JSON request a
 * line on standard input, one JSON answer a line on standard output.
 *
 *   {"format": NAME | "template": TEXT, "tools": [...], "name": TEXT, "parallel": bool,
 *    "strict": bool, "walks": N, "seed": S, "steps": N, "texts": [TEXT, ...]}
 *   {"error": TEXT, "code": NAME} or
 *   {"trigger": TEXT, "accepts": [how many bytes fit; -1: all, and they are complete, ...],
 *    "walks": [{"text": TEXT, "content": TEXT, "calls": [{"name": TEXT, "arguments": JSON}]}],
 *    "reads": [the same of each text that is accepted]}
 *
 * A walk is a random text that the grammar allows, read back by the format's own parser; null: its
 * end was too far to be found.
 */
#include "text/template/chat_dialect.h"
#include "text/toolcall/call_grammar.h"
#include "walk.h"

enum { MAX_LINE = 1 << 24 };

static void die(const char *what, const mica_error *err) {
    fprintf(stderr, "forced_probe: %s: %s\n", what, err->message);
    exit(1);
}

static void put_read(json_writer *w, const toolcall_dialect *d, const bytes *text,
                     const char *tools, size_t n_tools) {
    toolcall_parser *p;
    mica_error err;
    answer a = {0};
    const toolcall_options options = {.tools = tools, .n_tools = n_tools};
    if (mica_toolcall_open(&p, d, &options, &err)) die("parser", &err);
    if (mica_toolcall_feed(p, text->data, text->n, &err)) die("feed", &err);
    answer_take(&a, p);
    if (mica_toolcall_finish(p, false, &err)) die("finish", &err);
    answer_take(&a, p);
    mica_json_key(w, "content");
    mica_json_put_string(w, a.content.data ? a.content.data : "", a.content.n);
    mica_json_key(w, "calls");
    mica_json_begin_array(w);
    for (size_t i = 0; i < a.n_calls; i++) {
        const answer_call *c = &a.calls[i];
        mica_json_begin_object(w);
        mica_json_key(w, "name");
        mica_json_put_string(w, c->name.data, c->name.n);
        mica_json_key(w, "arguments");
        mica_json_put_string(w, c->arguments.data, c->arguments.n);
        mica_json_end_object(w);
    }
    mica_json_end_array(w);
    answer_free(&a);
    mica_toolcall_free(p);
}

static void put_text(json_writer *w, const toolcall_dialect *d, const bytes *text, bool has_end,
                     const char *tools, size_t n_tools) {
    mica_json_begin_object(w);
    mica_json_key(w, "ends");
    mica_json_put_bool(w, has_end);
    mica_json_key(w, "text");
    mica_json_put_string(w, text->data, text->n);
    put_read(w, d, text, tools, n_tools);
    mica_json_end_object(w);
}

static void put_walk(json_writer *w, grammar_machine *m, uint64_t *seed, uint32_t steps,
                     const toolcall_dialect *d, const char *tools, size_t n_tools) {
    bytes text = {0};
    walk_end end = walk_write(m, seed, steps, &text);
    bytes_append(&text, "", 0);
    if (end == WALK_TOO_FAR)
        mica_json_put_null(w);
    else
        put_text(w, d, &text, end == WALK_ENDS, tools, n_tools);
    free(text.data);
}

static int64_t count_fitting(grammar_machine *m, const char *s, size_t n) {
    uint32_t state = mica_lazy_start(&m->lazy);
    for (size_t i = 0; i < n; i++) {
        uint32_t next = lazy_step(&m->lazy, state, (uint8_t)s[i]);
        if (next == STATE_DEAD) return (int64_t)i;
        state = next;
    }
    return *lazy_flags(&m->lazy, state) & STATE_ACCEPTS ? -1 : (int64_t)n;
}

static void find_dialect(toolcall_dialect *d, const json_value *request) {
    mica_error err;
    const json_value *source = mica_json_find(request, "template");
    toolcall_source by_name = {.format = mica_json_string(mica_json_find(request, "format"), NULL),
                               .reasoning = "none"};
    if (!source) {
        if (mica_toolcall_detect(d, &by_name, &err)) die("format", &err);
        return;
    }
    chat_template *t;
    if (mica_chat_template_from_text(&t, source->string, source->n, NULL, "template", &err))
        die("template", &err);
    if (mica_chat_dialect_find(d, t, NULL, true, &err)) die("dialect", &err);
    mica_chat_template_free(t);
}

static void run(const char *line, size_t n) {
    mica_arena arena;
    mica_error err;
    json_value *request;
    json_writer w;
    toolcall_dialect d;
    grammar *g;
    mica_arena_init(&arena, 0);
    mica_json_writer_init(&w, false);
    if (mica_json_parse(&request, line, n, "request", false, &arena, &err)) die("request", &err);
    const json_value *list = mica_json_find(request, "tools");
    find_dialect(&d, request);
    const toolcall_choice choice = {
        .tools = list->string,
        .n_tools = list->n,
        .name = mica_json_string(mica_json_find(request, "name"), NULL),
        .is_parallel = mica_json_bool(mica_json_find(request, "parallel"), false),
        .is_strict = mica_json_bool(mica_json_find(request, "strict"), false)};
    mica_status st = mica_toolcall_grammar(&g, &d, &choice, &err);
    mica_json_begin_object(&w);
    if (st) {
        mica_json_key(&w, "error");
        mica_json_put_cstring(&w, err.message);
        mica_json_key(&w, "code");
        mica_json_put_cstring(&w, mica_status_name(st));
    } else {
        grammar_machine *m;
        char trigger[TOOLCALL_TRIGGER_BYTES];
        if (mica_grammar_machine_new(&m, g, NULL, NULL, 0, &err)) die("machine", &err);
        mica_json_key(&w, "trigger");
        mica_json_put_cstring(&w, mica_toolcall_trigger(&d, trigger) ? trigger : "");
        mica_json_key(&w, "accepts");
        mica_json_begin_array(&w);
        const json_value *texts = mica_json_find(request, "texts");
        for (size_t i = 0; texts && i < texts->n; i++) {
            mica_json_put_i64(&w, count_fitting(m, texts->items[i]->string, texts->items[i]->n));
        }
        mica_json_end_array(&w);
        mica_json_key(&w, "walks");
        mica_json_begin_array(&w);
        uint64_t seed = (uint64_t)mica_json_i64(mica_json_find(request, "seed"), 1);
        uint32_t steps = (uint32_t)mica_json_i64(mica_json_find(request, "steps"), 100);
        for (int64_t k = mica_json_i64(mica_json_find(request, "walks"), 0); k > 0; k--) {
            put_walk(&w, m, &seed, steps, &d, list->string, list->n);
        }
        mica_json_end_array(&w);
        mica_json_key(&w, "reads");
        mica_json_begin_array(&w);
        for (size_t i = 0; texts && i < texts->n; i++) {
            bytes text = {0};
            bytes_append(&text, texts->items[i]->string, texts->items[i]->n);
            if (count_fitting(m, text.data, text.n) < 0)
                put_text(&w, &d, &text, true, list->string, list->n);
            free(text.data);
        }
        mica_json_end_array(&w);
        mica_grammar_machine_free(m);
        mica_grammar_free(g);
    }
    mica_json_end_object(&w);
    printf("%s\n", w.data);
    fflush(stdout);
    mica_json_writer_deinit(&w);
    mica_arena_deinit(&arena);
}

int main(void) {
    char *line = malloc(MAX_LINE);
    while (line && fgets(line, MAX_LINE, stdin)) {
        run(line, strlen(line));
    }
    free(line);
    return 0;
}
