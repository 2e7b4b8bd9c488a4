/* conformance.c: small templates for every statement, operator, filter, test, method and error,
 * against what Transformers' renderer gives (tests/oracle/make-templates.py).
 *
 * Usage: conformance CONFORMANCE.json; prints each case that differs.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <string.h>

#include "text/template/template.h"

static const char *cases_path;
static mica_arena arena;
static json_value *suite;

static int load(void **state) {
    mica_error err;
    (void)state;
    mica_arena_init(&arena, 0);
    if (!mica_json_parse_file(&suite, cases_path, 64 << 20, true, &arena, &err)) return 0;
    fprintf(stderr, "%s\n", err.message);
    return 1;
}

static int unload(void **state) {
    (void)state;
    mica_arena_deinit(&arena);
    return 0;
}

static bool is_text(const json_value *wanted, const rendered_text *out) {
    return wanted && wanted->n == out->n && memcmp(wanted->string, out->text, out->n) == 0;
}

/* Whether the error comes where it should, and says where in the template it is. */
static bool is_error(const char *wanted, bool is_compiled, const mica_error *err) {
    unsigned line, column;
    if (strcmp(wanted, "any") != 0 && strcmp(wanted, is_compiled ? "render" : "compile") != 0)
        return false;
    return sscanf(err->message, "t:%u:%u: ", &line, &column) == 2 && line && column;
}

static bool check(const json_value *c) {
    const json_value *source = mica_json_find(c, "template");
    const json_value *own = mica_json_find(c, "context");
    const json_value *context = own ? own : mica_json_find(suite, "context");
    const char *wanted_error = mica_json_string(mica_json_find(c, "error"), NULL);
    jinja_template *t = NULL;
    rendered_text out = {0};
    mica_error err = {0};
    mica_status st = mica_template_compile(&t, source->string, source->n, "t", &err);
    if (!st) st = mica_template_render(t, context, NULL, &out, &err);
    bool is_good = st ? wanted_error && is_error(wanted_error, t != NULL, &err)
                      : is_text(mica_json_find(c, "text"), &out);
    if (!is_good) {
        printf("template: %s\nwanted:   %s\nfound:    %s\n", source->string,
               wanted_error ? wanted_error : mica_json_string(mica_json_find(c, "text"), ""),
               st ? err.message : out.text);
    }
    mica_rendered_text_deinit(&out);
    mica_template_free(t);
    return is_good;
}

static void conforms(void **state) {
    const json_value *groups = mica_json_find(suite, "groups");
    size_t n_cases = 0, n_bad = 0;
    (void)state;
    for (size_t g = 0; g < groups->n; g++) {
        const json_value *cases = mica_json_find(groups->items[g], "cases");
        for (size_t i = 0; i < cases->n; i++)
            n_bad += !check(cases->items[i]);
        n_cases += cases->n;
    }
    assert_true(n_cases >= 300);
    assert_int_equal(n_bad, 0);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    cases_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(conforms)};
    return cmocka_run_group_tests(tests, load, unload);
}
