/* origins.c: text in the output knows who wrote it, through every operation on text.
 *
 * The user's text is made of the letters u to z and of what case and escaping make of them; the
 * template's own of other characters. So in every rendering exactly those letters must be marked.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <string.h>

#include "text/template/template.h"

static mica_status render(const char *source, const char *context, const render_options *options,
                          rendered_text *out, mica_error *err) {
    jinja_template *t = NULL;
    json_value *json;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    mica_status st = mica_json_parse(&json, context, strlen(context), "context", true, &arena, err);
    if (!st) st = mica_template_compile(&t, source, strlen(source), "t", err);
    if (!st) st = mica_template_render(t, json, options, out, err);
    mica_template_free(t);
    mica_arena_deinit(&arena);
    return st;
}

static text_origin origin_at(const rendered_text *out, size_t at) {
    for (size_t i = 0; i < out->n_spans; i++)
        if (out->spans[i].begin <= at && at < out->spans[i].end) return out->spans[i].origin;
    return ORIGIN_TEMPLATE;
}

static void check_spans(const rendered_text *out) {
    for (size_t i = 0; i < out->n_spans; i++) {
        assert_true(out->spans[i].begin < out->spans[i].end);
        assert_true(out->spans[i].end <= out->n);
        assert_true(i == 0 || out->spans[i - 1].end <= out->spans[i].begin);
    }
}

static void letters_are_marked(void **state) {
    static const char context[] =
        "{\"c\": \"uvw xyz\", \"xs\": [\"uv\", \"wx\", \"yz\"], \"d\": {\"u\": \"v\", \"w\": "
        "[\"x\"]},"
        " \"q\": \"u\\\"v'w\", \"n\": \"  u\\nv  \", \"rows\": [{\"w\": \"z\"}, {\"w\": \"y\"}],"
        " \"j\": \"{\\\"u\\\": [\\\"v\\\"]}\", \"f\": \"u%sv\", \"b\": \"u{}v\"}";
    static const char *const sources[] = {
        "{{ c }}",
        "a{{ c }}b",
        "{{ 'a' + c + 'b' }}",
        "{{ 'a' ~ c ~ 'b' ~ c }}",
        "{{ c[1:-1] }}{{ c[::-1] }}{{ c[2] }}",
        "{{ c|upper|lower|title|capitalize }}",
        "{{ n|trim }}{{ n.strip() }}{{ n|indent(2, true) }}",
        "{{ c|replace('v', 'ab') }}",
        "{{ 'aXb'|replace('X', c) }}",
        "{{ c.split()[1] }}{{ c.split('w') }}{{ c.partition(' ') }}",
        "{{ xs|join('-') }}{{ '-'.join(xs) }}",
        "{{ xs }}{{ d }}{{ q }}{{ [q] }}",
        "{{ d|tojson }}{{ q|tojson }}{{ d|tojson(indent=2) }}",
        "{{ '%s-%s'|format(c, 'a') }}",
        "{{ f|format('a') }}{{ b.format('a') }}",
        "{{ '{}={:>9}'.format(c, c) }}",
        "{{ c|e }}{{ c|safe }}{{ (c|safe) + '<' }}",
        "{{ c|center(20) }}{{ c.ljust(9, '.') }}",
        "{% set x %}a{{ c }}b{% endset %}{{ x ~ x }}",
        "{% filter upper %}a{{ c }}b{% endfilter %}",
        "{% macro m(y) %}[{{ y }}]{% endmacro %}{{ m(c) }}{{ m('a') }}",
        "{% set ns = namespace(t='a') %}{% for x in xs %}{% set ns.t = ns.t + x %}{% endfor %}"
        "{{ ns.t }}{{ ns.t + 'b' }}{{ ns.t + c }}",
        "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d.keys()|list }}",
        "{{ xs|sort(reverse=true)|first }}{{ xs|map('upper')|list }}{{ xs|sum(start='') if false "
        "}}",
        "{{ rows|map(attribute='w')|join }}{{ rows|groupby('w') }}",
        "{{ c|truncate(5) }}",
        "{{ c|list }}{% for x in c %}{{ x }}.{% endfor %}",
        "{{ j|from_json }}",
        "{{ c * 2 }}",
        "{{ c.removeprefix('u') }}{{ c.zfill(9) }}{{ n.splitlines() }}{{ c|wordcount }}",
        "{{ c if c else 'a' }}{{ nope|default(c) }}{{ c or 'a' }}{{ {'a': c}.a }}",
        "{{ xs|batch(2)|list }}{{ xs|reverse|list }}{{ xs|last }}{{ xs|max }}{{ c|reverse }}",
    };
    render_options options = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        rendered_text out = {0};
        mica_error err = {0};
        mica_status st = render(sources[i], context, &options, &out, &err);
        if (st) printf("%s: %s\n", sources[i], err.message);
        assert_int_equal(st, MICA_OK);
        check_spans(&out);
        for (size_t k = 0; k < out.n; k++) {
            int letter = out.text[k] | 32;
            bool is_letter = letter >= 'a' && letter <= 'z', is_user = letter >= 'u';
            if (is_letter && (origin_at(&out, k) == ORIGIN_DATA) != is_user) {
                printf("%s\n  %s, byte %zu\n", sources[i], out.text, k);
                fail();
            }
        }
        mica_rendered_text_deinit(&out);
    }
}

static void roles_and_trust_decide(void **state) {
    static const char source[] = "{{ bos }}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
                                 "{% endfor %}{{ other }}{{ tools[0].n }}";
    static const char context[] =
        "{\"bos\": \"B\", \"messages\": [{\"role\": \"user\", \"content\": \"U\"}, {\"role\": "
        "\"assistant\", \"content\": \"A\"}, {\"role\": \"tool\", \"content\": \"T\"}],"
        " \"other\": \"O\", \"tools\": [{\"n\": \"N\"}]}";
    static const char *const trusted[] = {"bos"};
    const render_options options = {.trusted = trusted, .n_trusted = 1, .messages = "messages"};
    rendered_text out = {0};
    mica_error err;
    (void)state;
    assert_int_equal(render(source, context, &options, &out, &err), MICA_OK);
    assert_string_equal(out.text, "B<user>U<assistant>A<tool>TON");
    for (size_t i = 0; i < out.n; i++) {
        text_origin origin = origin_at(&out, i);
        text_origin right = ORIGIN_DATA;
        if (strchr("B<>", out.text[i])) right = ORIGIN_TEMPLATE;
        if (right && i >= 9 && i < 20) right = ORIGIN_ASSISTANT;
        assert_int_equal(origin, right);
    }
    mica_rendered_text_deinit(&out);
}

static void generations_are_marked(void **state) {
    static const char source[] =
        "a{% generation %}bc{% endgeneration %}d{% for i in [1] %}"
        "{% generation %}e{% endgeneration %}{% endfor %}"
        "{% set x %}{% generation %}f{% endgeneration %}{% endset %}{{ x }}";
    rendered_text out = {0};
    mica_error err;
    (void)state;
    assert_int_equal(render(source, "{}", NULL, &out, &err), MICA_OK);
    assert_string_equal(out.text, "abcdef");
    assert_int_equal(out.n_generations, 2); /* what is captured has no place yet */
    assert_int_equal(out.generations[0].begin, 1);
    assert_int_equal(out.generations[0].end, 3);
    assert_int_equal(out.generations[1].begin, 4);
    assert_int_equal(out.generations[1].end, 5);
    mica_rendered_text_deinit(&out);
}

static void the_clock_can_be_fixed(void **state) {
    const render_options options = {.has_now = true, .now_s = 86400 * 45};
    rendered_text out = {0};
    mica_error err;
    (void)state;
    assert_int_equal(render("{{ strftime_now('%Y %% %b') }}", "{}", &options, &out, &err), MICA_OK);
    assert_string_equal(out.text, "1970 % Feb");
    mica_rendered_text_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_are_marked),
        cmocka_unit_test(roles_and_trust_decide),
        cmocka_unit_test(generations_are_marked),
        cmocka_unit_test(the_clock_can_be_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
