/* limits.c: no template runs, nests or grows without bound; errors say what, where and which. */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/template.h"

static mica_status run(const char *source, size_t n, const char *context, rendered_text *out,
                       mica_error *err) {
    jinja_template *t = NULL;
    json_value *json = NULL;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    mica_status st = mica_json_parse(&json, context, strlen(context), "context", true, &arena, err);
    if (!st) st = mica_template_compile(&t, source, n, "t", err);
    if (!st) st = mica_template_render(t, json, NULL, out, err);
    mica_template_free(t);
    mica_arena_deinit(&arena);
    return st;
}

static void fails(const char *source, mica_status wanted, const char *message) {
    rendered_text out = {0};
    mica_error err = {0};
    mica_status st = run(source, strlen(source), "{\"xs\": [1, 2]}", &out, &err);
    mica_rendered_text_deinit(&out);
    if (st != wanted || !strstr(err.message, message))
        printf("%.200s\n  status %d, %s\n", source, st, err.message);
    assert_int_equal(st, wanted);
    assert_non_null(strstr(err.message, message));
}

static void endless_work_ends(void **state) {
    (void)state;
    fails("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
          MICA_E_LIMIT, "steps");
    fails("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", MICA_E_LIMIT,
          "t:1:");
    fails("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}"
          "{% endfor %}",
          MICA_E_LIMIT, "steps");
    fails("{{ 'a' * 1000000000 }}", MICA_E_LIMIT, "t:1:8: ");
    fails("{{ [1] * 1000000000 }}", MICA_E_LIMIT, "t:1:8: ");
    fails("{{ '%100000000d' % 1 }}", MICA_E_LIMIT, "width");
    fails("{{ 'a'.ljust(1000000000) }}", MICA_E_LIMIT, "t:1:");
    fails("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(90) %}"
          "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
          MICA_E_LIMIT, "t:1:");
    fails("{% set s = 'x' * 1000 %}{% for i in range(100000) %}{{ s }}{% endfor %}", MICA_E_LIMIT,
          "16 MiB");
    fails("{{ 10 ** 1000000000 }}", MICA_E_LIMIT, "64 bits");
    fails("{{ 'a'.replace('', 'b' * 1000000) | replace('b', 'c' * 100) }}", MICA_E_LIMIT, "t:1:");
}

static void deep_nesting_ends(void **state) {
    (void)state;
    fails("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", MICA_E_LIMIT, "deep");
    fails("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", MICA_E_LIMIT, "deep");
    fails("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}"
          "{% endfor %}{{ ns.l }}",
          MICA_E_LIMIT, "deep");
    fails("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}"
          "{% endfor %}{{ ns.l|tojson }}",
          MICA_E_LIMIT, "deep");
    fails("{% set a = namespace(l=[]) %}{% set b = namespace(l=[]) %}{% for i in range(100000) %}"
          "{% set a.l = [a.l] %}{% set b.l = [b.l] %}{% endfor %}{{ a.l == b.l }}",
          MICA_E_LIMIT, "deep");
    fails("{% set ns = namespace(l=()) %}{% for i in range(100000) %}{% set ns.l = (ns.l,) %}"
          "{% endfor %}{{ {ns.l: 1} }}",
          MICA_E_INVALID, "cannot be a key");
    /* 2^60 values in 60 tuples. */
    fails("{% set ns = namespace(l=()) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}"
          "{% endfor %}{{ {ns.l: 1} }}",
          MICA_E_INVALID, "cannot be a key");
    fails("{% set a = namespace(l=1) %}{% set b = namespace(l=1) %}{% for i in range(60) %}"
          "{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
          MICA_E_LIMIT, "steps");
    fails("{% set a = namespace(l=1) %}{% for i in range(60) %}{% set a.l = [a.l, a.l] %}"
          "{% endfor %}{{ a.l|string|length }}",
          MICA_E_LIMIT, "t:1:");
}

/* `n` times `a`, then `middle`, then `n` times `b`. */
static mica_status run_nested(const char *a, const char *middle, const char *b, size_t n,
                              mica_error *err) {
    size_t n_a = strlen(a), n_b = strlen(b), n_middle = strlen(middle);
    char *source = malloc(n * (n_a + n_b) + n_middle + 1), *p = source;
    rendered_text out = {0};
    for (size_t i = 0; i < n; i++, p += n_a)
        memcpy(p, a, n_a);
    memcpy(p, middle, n_middle);
    p += n_middle;
    for (size_t i = 0; i < n; i++, p += n_b)
        memcpy(p, b, n_b);
    mica_status st = run(source, (size_t)(p - source), "{}", &out, err);
    mica_rendered_text_deinit(&out);
    free(source);
    return st;
}

static void deep_sources_end(void **state) {
    static const struct {
        const char *a, *middle, *b;
    } cases[] = {
        {"{% if 1 %}", "x", "{% endif %}"},          {"{{ ", "x", " }}"},
        {"{{ 1 }}{% set x = (", "1", ") %}"},        {"{% filter upper %}", "x", "{% endfilter %}"},
        {"{% for i in 'a' %}", "x", "{% endfor %}"}, {"{% macro m() %}", "", "{% endmacro %}"},
    };
    mica_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_not_equal(run_nested(cases[i].a, cases[i].middle, cases[i].b, 20000, &err),
                             MICA_OK);
    assert_int_equal(run_nested("{% if 1 %}", "x", "{% endif %}", 150, &err), MICA_OK);
    const char *inside[][3] = {{"(", "1", ")"},           {"[", "1", "]"},    {"-", "1", ""},
                               {"not ", "1", ""},         {"1+", "1", ""},    {"1~", "1", ""},
                               {"1 if 1 else ", "1", ""}, {"{1:", "1", "}"},  {"x.", "x", ""},
                               {"", "x", "|upper"},       {"", "x", "(1)"},   {"x[", "1", "]"},
                               {"1 < ", "1", ""},         {"2 ** ", "1", ""}, {"1 and ", "1", ""}};
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        char a[64], b[64];
        snprintf(a, sizeof(a), "%s", inside[i][0]);
        snprintf(b, sizeof(b), "%s", inside[i][2]);
        size_t n = 30000;
        char *source = malloc(n * (strlen(a) + strlen(b)) + 64), *p = source;
        p += sprintf(p, "{{ ");
        for (size_t k = 0; k < n; k++)
            p += sprintf(p, "%s", a);
        p += sprintf(p, "%s", inside[i][1]);
        for (size_t k = 0; k < n; k++)
            p += sprintf(p, "%s", b);
        p += sprintf(p, " }}");
        rendered_text out = {0};
        run(source, (size_t)(p - source), "{}", &out, &err); /* any answer, but no crash */
        mica_rendered_text_deinit(&out);
        free(source);
    }
}

static void errors_name_the_place(void **state) {
    (void)state;
    fails("a\n  {{ xs.y.z }}", MICA_E_INVALID, "t:2:10: list has no attribute or item 'y'");
    fails("{{ nope.x }}", MICA_E_INVALID, "t:1:8: 'nope' is undefined");
    fails("\n\n{% if %}", MICA_E_FORMAT, "t:3:7: expected an expression, found '%}'");
    fails("{% for x in xs %}\n", MICA_E_FORMAT, "t:1:18: expected one of the tags: endfor else");
    fails("\xC3\xA9\xC3\xA9 {{ @ }}", MICA_E_FORMAT, "t:1:7: unexpected character '@'");
    fails("{{ xs|nosuch }}", MICA_E_UNSUPPORTED, "t:1:7: there is no filter 'nosuch'");
    fails("{{ xs is nosuch }}", MICA_E_UNSUPPORTED, "t:1:10: there is no test 'nosuch'");
    fails("{% include 'x' %}", MICA_E_UNSUPPORTED, "t:1:4: {% include %}");
    fails("{% frob %}", MICA_E_FORMAT, "t:1:4: 'frob'");
    fails("{{ raise_exception('the message') }}", MICA_E_INVALID,
          "t:1:19: the template raised: the message");
    fails("{{ xs.append(1) }}", MICA_E_INVALID, "cannot be changed");
    fails("{% set xs.a = 1 %}", MICA_E_INVALID, "'xs' is no namespace");
    fails("{{ xs + 'a' }}", MICA_E_INVALID, "t:1:7: '+' does not take list and str");
    fails("{{ 1 / 0 }}", MICA_E_INVALID, "by zero");
    fails("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", MICA_E_INVALID, "macro 'm'");
    fails("{{ xs|join(1, 2, 3) }}", MICA_E_INVALID, "join takes at most 2 arguments, not 3");
    fails("{{ 'a'.split(x=1) }}", MICA_E_INVALID, "split: unexpected keyword 'x'");
}

static void unknown_names_under_a_condition_warn(void **state) {
    static const char source[] = "{% if xs %}{{ 1 }}{% else %}\n{{ xs|nosuch }}{% endif %}";
    jinja_template *t = NULL;
    (void)state;
    assert_int_equal(mica_template_compile(&t, source, sizeof(source) - 1, "t", NULL), MICA_OK);
    assert_non_null(strstr(mica_template_warning(t), "t:2:7: there is no filter 'nosuch'"));
    mica_template_free(t);
    t = NULL;
    assert_int_equal(mica_template_compile(&t, "x", 1, "t", NULL), MICA_OK);
    assert_null(mica_template_warning(t));
    mica_template_free(t);
}

static void sources_may_hold_anything(void **state) {
    static const char nul[] = "a\0{{ 'b\0c' }}", bad[] = "\xFF{{ '\xC3' }}\xE2\x82";
    rendered_text out = {0};
    mica_error err;
    (void)state;
    assert_int_equal(run(nul, sizeof(nul) - 1, "{}", &out, &err), MICA_OK);
    assert_int_equal(out.n, 5);
    assert_memory_equal(out.text, "a\0b\0c", 5);
    mica_rendered_text_deinit(&out);
    assert_int_equal(run(bad, sizeof(bad) - 1, "{}", &out, &err), MICA_OK);
    assert_string_equal(out.text, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    mica_rendered_text_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endless_work_ends),
        cmocka_unit_test(deep_nesting_ends),
        cmocka_unit_test(deep_sources_end),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(unknown_names_under_a_condition_warn),
        cmocka_unit_test(sources_may_hold_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
