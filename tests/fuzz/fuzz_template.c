/* fuzz_template.c: any bytes as a template, rendered with a context of every kind of value.
 *
 * The first byte chooses what the context is; the rest is the source. An accepted template must
 * render to well-formed UTF-8 with sorted, disjoint spans, or fail with a message that begins with
 * a place; rendering twice must give the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const contexts[] = {
    "{}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S \\u00e9\"},{\"role\":\"user\",\"content\":"
    "[{\"type\":\"text\",\"text\":\"hi <b>\"}]},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,true]}}}]},"
    "{\"role\":\"tool\",\"content\":\"42\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
    "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],\"bos_token\":"
    "\"<s>\",\"add_generation_prompt\":true}",
    "{\"s\":\"Hello \\u00df "
    "\\ud83d\\ude00\",\"n\":5,\"f\":2.5,\"t\":true,\"z\":null,\"xs\":[3,1,2],"
    "\"d\":{\"a\":1,\"b\":{\"c\":[10]}},\"big\":123456789012345678901,\"e\":\"\","
    "\"rows\":[{\"k\":\"b\"},{\"k\":\"A\"}]}",
};
enum { N_CONTEXTS = sizeof(contexts) / sizeof(contexts[0]) };

static json_value *parsed[N_CONTEXTS];

static const json_value *context_of(uint8_t choice) {
    static mica_arena arena; /* lives as long as the program */
    if (!arena.chunk_bytes) mica_arena_init(&arena, 0);
    size_t i = choice % N_CONTEXTS;
    if (!parsed[i] && mica_json_parse(&parsed[i], contexts[i], strlen(contexts[i]), "context", true,
                                      &arena, NULL))
        abort();
    return parsed[i];
}

static void check_text(const rendered_text *out) {
    for (size_t i = 0; i < out->n;) {
        bool is_valid;
        i += mica_utf8_step(out->text + i, out->n - i, &is_valid);
        if (!is_valid) abort();
    }
    for (size_t i = 0; i < out->n_spans; i++) {
        text_span s = out->spans[i];
        if (s.begin >= s.end || s.end > out->n || s.origin == ORIGIN_TEMPLATE) abort();
        if (i && out->spans[i - 1].end > s.begin) abort();
    }
}

static void check_error(const mica_error *err) {
    unsigned line, column;
    if (sscanf(err->message, "t:%u:%u: ", &line, &column) != 2) abort();
}

static void check_render(const jinja_template *t, const json_value *context) {
    const render_options options = {
        .max_steps = 200000, .has_now = true, .now_s = 1, .messages = "messages"};
    rendered_text first = {0}, second = {0};
    mica_error err;
    if (mica_template_render(t, context, &options, &first, &err)) {
        check_error(&err);
        return;
    }
    check_text(&first);
    if (mica_template_render(t, context, &options, &second, &err)) abort();
    if (first.n != second.n || memcmp(first.text, second.text, first.n) != 0) abort();
    mica_rendered_text_deinit(&first);
    mica_rendered_text_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    jinja_template *t = NULL;
    mica_error err;
    if (n == 0) return 0;
    if (mica_template_compile(&t, (const char *)data + 1, n - 1, "t", &err)) {
        check_error(&err);
        return 0;
    }
    check_render(t, context_of(data[0]));
    mica_template_free(t);
    return 0;
}
