/* faults.c: every allocation made to fail in turn while a template is compiled and rendered, and
 * while a chat template is tried out and serves requests. */
#include "cmocka_base.h"

#include <string.h>

#include "fault_alloc.h"
#include "text/template/chat.h"

static const char part[] =
    "{%- macro show(x, deep=true) -%}{% if x is mapping %}{% for k, v in x.items() %}{{ k }}:"
    "{{ show(v, deep=false) }},{% endfor %}{% else %}{{ x|tojson(indent=2) }}{% endif %}"
    "{%- endmacro -%}{% set ns = namespace(n=0, text='') %}{% for m in messages if m.role %}"
    "{% set ns.n = ns.n + loop.length %}{% set ns.text = ns.text ~ m.content|trim|upper %}"
    "{% filter indent %}{{ show(m) }}{% endfilter %}{% endfor %}{% generation %}{{ ns.text[::-1] }}"
    "{% endgeneration %}{{ messages|map(attribute='role')|sort|unique|join(', ') }}"
    "{{ '%s %d'|format(ns.n, 3) }}{{ '{:>5}'.format('a') }}{{ 'a b'.split() }}{{ [1, 2.5, none] }}"
    "{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}{{ ns.n }}{% endcall %}";
static const char context[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" h\\u00e9 \"}, "
                              "{\"role\": \"assistant\", \"content\": \"yo\"}]}";

/* The part many times, so that the arenas need many chunks. */
enum { N_PARTS = 60 };
static char source[N_PARTS * sizeof(part)];

static mica_status use(const json_value *json, mica_error *err) {
    jinja_template *t = NULL;
    rendered_text out = {0};
    render_options options = {.messages = "messages"};
    mica_status st = mica_template_compile(&t, source, strlen(source), "t", err);
    if (!st) st = mica_template_render(t, json, &options, &out, err);
    mica_rendered_text_deinit(&out);
    mica_template_free(t);
    return st;
}

static void each_allocation_may_fail(void **state) {
    mica_arena arena;
    json_value *json;
    mica_error err;
    (void)state;
    for (int i = 0; i < N_PARTS; i++)
        strcat(source, part);
    mica_arena_init(&arena, 0);
    assert_int_equal(
        mica_json_parse(&json, context, sizeof(context) - 1, "context", false, &arena, &err),
        MICA_OK);
    long live = fault_alloc_live();
    fault_alloc_arm(0);
    assert_int_equal(use(json, &err), MICA_OK);
    long n_calls = fault_alloc_calls();
    assert_true(n_calls >= 20);
    for (long i = 1; i <= n_calls; i++) {
        fault_alloc_arm(i);
        assert_int_equal(use(json, &err), MICA_E_NOMEM);
        assert_int_equal(fault_alloc_live(), live);
    }
    fault_alloc_arm(0);
    mica_arena_deinit(&arena);
}

static const char chat_source[] =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}{{ "
    "m.content|trim }}{% for c in m.tool_calls %}"
    "{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}</>{% endfor %}";
static const char conversation[] =
    "[{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, {\"role\": "
    "\"assistant\", \"reasoning\": \"r\", \"tool_calls\": [{\"id\": \"1\", \"function\": "
    "{\"name\": "
    "\"f\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": "
    "\"\"}, {\"role\": "
    "\"assistant\", \"content\": \"abc\"}]";

static mica_status chat(const json_value *messages, const json_value *special, mica_error *err) {
    chat_template *t = NULL;
    rendered_text out = {0};
    chat_request request = {.messages = messages, .continue_final = true};
    mica_status st =
        mica_chat_template_from_text(&t, chat_source, sizeof(chat_source) - 1, special, "t", err);
    if (!st) st = mica_chat_render(t, &request, &out, err);
    if (!st) assert_string_equal(out.text, "<s>systema</>assistantf{}</>tool</>assistantabc");
    mica_rendered_text_deinit(&out);
    mica_chat_template_free(t);
    return st;
}

static void each_allocation_of_a_chat_may_fail(void **state) {
    static const char special_json[] = "{\"bos_token\": \"<s>\"}";
    mica_arena arena;
    json_value *messages, *special;
    mica_error err;
    (void)state;
    mica_arena_init(&arena, 0);
    assert_int_equal(mica_json_parse(&messages, conversation, sizeof(conversation) - 1, "messages",
                                     false, &arena, &err),
                     MICA_OK);
    assert_int_equal(mica_json_parse(&special, special_json, sizeof(special_json) - 1, "special",
                                     false, &arena, &err),
                     MICA_OK);
    long live = fault_alloc_live();
    fault_alloc_arm(0);
    assert_int_equal(chat(messages, special, &err), MICA_OK);
    long n_calls = fault_alloc_calls();
    for (long i = 1; i <= n_calls; i++) {
        fault_alloc_arm(i);
        assert_int_equal(chat(messages, special, &err), MICA_E_NOMEM);
        assert_int_equal(fault_alloc_live(), live);
    }
    fault_alloc_arm(0);
    mica_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_may_fail),
                                       cmocka_unit_test(each_allocation_of_a_chat_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
