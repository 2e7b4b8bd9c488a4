/* JSON: what is accepted and what is refused, the events, the tree, the writer, limits, failure. */
#include "cmocka_base.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fault_alloc.h"
#include "thread_time.h"

/* ---- helpers ---- */

/* Parses a copy that ends exactly where the text ends, so that a sanitizer sees any read beyond. */
static mica_status parse_n(json_value **out, const char *text, size_t n, bool allow_nonfinite,
                           mica_arena *arena, mica_error *err) {
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    mica_status st = mica_json_parse(out, copy, n, "t", allow_nonfinite, arena, err);
    free(copy);
    return st;
}

static void write_value(json_writer *w, const json_value *v) {
    switch (v->kind) {
    case JSON_KIND_NULL:
        mica_json_put_null(w);
        break;
    case JSON_KIND_BOOL:
        mica_json_put_bool(w, v->boolean);
        break;
    case JSON_KIND_INT:
        mica_json_put_i64(w, v->integer);
        break;
    case JSON_KIND_DOUBLE:
        mica_json_put_double(w, v->number);
        break;
    case JSON_KIND_STRING:
        mica_json_put_string(w, v->string, v->n);
        break;
    case JSON_KIND_ARRAY:
        mica_json_begin_array(w);
        for (size_t i = 0; i < v->n; i++) {
            write_value(w, v->items[i]);
        }
        mica_json_end_array(w);
        break;
    case JSON_KIND_OBJECT:
        mica_json_begin_object(w);
        for (size_t i = 0; i < v->n; i++) {
            mica_json_key(w, v->members[i].key);
            write_value(w, v->members[i].value);
        }
        mica_json_end_object(w);
        break;
    }
}

static void check_accepted(const char *text, size_t n, const char *expected) {
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    mica_error err;
    if (parse_n(&v, text, n, false, &arena, &err)) fail_msg("%s: %s", text, err.message);
    json_writer w;
    mica_json_writer_init(&w, false);
    write_value(&w, v);
    assert_false(w.failed);
    assert_int_equal(strlen(w.data), w.n);
    assert_string_equal(w.data, expected);
    mica_json_writer_deinit(&w);
    mica_arena_deinit(&arena);
}

/* ---- accept and reject ---- */

static const struct {
    const char *text;
    const char *expected; /* as the writer puts it */
} accepted[] = {
    {"0", "0"},
    {"-0", "0"},
    {"-0.0", "-0.0"},
    {" \t\r\n1 \t\r\n", "1"},
    {"-12.5e+2", "-1250.0"},
    {"1E1", "10.0"},
    {"0e0", "0.0"},
    {"0.1", "0.1"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"9223372036854775808", "9.223372036854776e+18"},
    {"-9223372036854775809", "-9.223372036854776e+18"},
    {"1000000000000000019884624838656", "1e+30"},
    {"1e400", "null"},
    {"true", "true"},
    {"false", "false"},
    {"null", "null"},
    {"\"\"", "\"\""},
    {"[]", "[]"},
    {"{}", "{}"},
    {"[ ]", "[]"},
    {"{ }", "{}"},
    {"[1,[2,[3]],{}]", "[1,[2,[3]],{}]"},
    {"{\"b\":1,\"a\":{\"b\":2}}", "{\"b\":1,\"a\":{\"b\":2}}"},
    {"{ \"a\" : [ 1 , 2 ] , \"\" : 3 }", "{\"a\":[1,2],\"\":3}"},
    {"{\"a\":1,\"A\":2}", "{\"a\":1,\"A\":2}"},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
    {"\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"", "\"A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
    {"\"\\ud800\"", "\"\xEF\xBF\xBD\""},
    {"\"\\udc00\\ud800\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"\"\\ud800\\u0041\"", "\"\xEF\xBF\xBD"
                           "A\""},
    {"\"\\ud800\\ud83d\\ude00\"", "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\""},
    {"\"\\ud800x\"", "\"\xEF\xBF\xBDx\""},
    {"\"\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\"",
     "\"\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\""},
    {"\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"", "\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\""},
    {"\"abcdefghijklmnopqrstuvwxyz\\nabcdefghijklmnopqrstuvwxyz\"",
     "\"abcdefghijklmnopqrstuvwxyz\\nabcdefghijklmnopqrstuvwxyz\""},
    {"\"\\u001f\\u0001\"", "\"\\u001f\\u0001\""},
};

static void accepts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++) {
        check_accepted(accepted[i].text, strlen(accepted[i].text), accepted[i].expected);
    }
}

static const struct {
    const char *text;
    uint64_t offset; /* of the error */
} rejected[] = {
    {"", 0},
    {" ", 1},
    {"[", 1},
    {"]", 0},
    {"{", 1},
    {"}", 0},
    {"[1", 2},
    {"[1,", 3},
    {"[1,]", 3},
    {"[,1]", 1},
    {"[1,,2]", 3},
    {"[1 2]", 3},
    {"[1}", 2},
    {"{1:2}", 1},
    {"{\"a\"}", 4},
    {"{\"a\":}", 5},
    {"{\"a\":1,}", 7},
    {"{\"a\":1 \"b\":2}", 7},
    {"{\"a\" 1}", 5},
    {"{\"a\":1]", 6},
    {"{\"a\":1,\"a\":2}", 7},
    {"{\"a\":1,\"\\u0061\":2}", 7},
    {"{\"x\":{\"\":1, \"\":2}}", 12},
    {"1 2", 2},
    {"{} {}", 3},
    {"01", 1},
    {"-", 1},
    {"-a", 1},
    {"+1", 0},
    {".5", 0},
    {"1.", 2},
    {"1.e5", 2},
    {"1e", 2},
    {"1e+", 3},
    {"1e5.5", 3},
    {"0x10", 1},
    {"1_000", 1},
    {"tru", 0},
    {"truE", 0},
    {"nul", 0},
    {"True", 0},
    {"NaN", 0},
    {"Infinity", 0},
    {"-Infinity", 1},
    {"'a'", 0},
    {"// a\n1", 0},
    {"\xEF\xBB\xBF{}", 0},
    {"\"", 1},
    {"\"abc", 4},
    {"\"a\nb\"", 2},
    {"\"a\tb\"", 2},
    {"\"\\\"", 3},
    {"\"\\a\"", 1},
    {"\"\\", 1},
    {"\"\\u12\"", 1},
    {"\"\\u12g4\"", 1},
    {"\"\\u@@@@\"", 1},
    {"\"\\u````\"", 1},
    {"\"\\u 123\"", 1},
    {"\"\\uD800\\u\"", 7},
    {"\"\\U0041\"", 1},
    {"\"ab\x80\"", 3},
    {"\"\xC0\xAF\"", 1},
    {"\"\xC1\xBF\"", 1},
    {"\"\xC3\"", 1},
    {"\"\xC3", 1},
    {"\"\xE0\x9F\xBF\"", 1},
    {"\"\xED\xA0\x80\"", 1},
    {"\"\xE2\x82", 1},
    {"\"\xF0\x8F\xBF\xBF\"", 1},
    {"\"\xF4\x90\x80\x80\"", 1},
    {"\"\xF5\x80\x80\x80\"", 1},
    {"\"\xFF\"", 1},
    {"\"12345678\\n1234567\xFF\"", 18},
};

static void rejects(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(rejected) / sizeof(*rejected); i++) {
        mica_arena arena;
        mica_arena_init(&arena, 0);
        json_value *v = NULL;
        mica_error err;
        const char *text = rejected[i].text;
        mica_status st = parse_n(&v, text, strlen(text), false, &arena, &err);
        if (st != MICA_E_FORMAT) fail_msg("%s: status %d", text, (int)st);
        if (err.offset != rejected[i].offset) fail_msg("%s: %s", text, err.message);
        assert_int_equal(strncmp(err.message, "t: JSON: ", 9), 0);
        assert_null(v);
        mica_arena_deinit(&arena);
    }
}

static void nul_bytes(void **state) {
    (void)state;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    assert_int_equal(parse_n(&v, "1\0", 2, false, &arena, NULL), MICA_E_FORMAT);
    assert_int_equal(parse_n(&v, "\"a\0\"", 4, false, &arena, NULL), MICA_E_FORMAT);
    assert_int_equal(parse_n(&v, "[\0]", 3, false, &arena, NULL), MICA_E_FORMAT);
    const char *text = "{\"a\\u0000b\":\"\\u0000\",\"a\":1}";
    assert_int_equal(parse_n(&v, text, strlen(text), false, &arena, NULL), MICA_OK);
    assert_int_equal(v->members[0].n_key, 3);
    assert_memory_equal(v->members[0].key, "a\0b", 4);
    assert_int_equal(v->members[0].value->n, 1);
    assert_int_equal(mica_json_i64(mica_json_find(v, "a"), 0), 1);
    mica_arena_deinit(&arena);
}

/* Every prefix of a document is refused, except where what is missing is white space. */
static void every_prefix_is_refused(void **state) {
    (void)state;
    const char *text = "{\"a\":[1.5e-3,\"x\\u00e9\\ud83d\\ude00\xC3\xA9\",true,{}],\"b\":null}";
    size_t n = strlen(text);
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    for (size_t i = 0; i < n; i++) {
        mica_error err;
        assert_int_equal(parse_n(&v, text, i, false, &arena, &err), MICA_E_FORMAT);
        assert_true(err.offset <= i);
    }
    assert_int_equal(parse_n(&v, text, n, false, &arena, NULL), MICA_OK);
    mica_arena_deinit(&arena);
}

/* ---- limits ---- */

static mica_status parse_nested(int depth, mica_error *err) {
    char text[2 * 200 + 1] = {0};
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    mica_status st = parse_n(&v, text, 2 * (size_t)depth, false, &arena, err);
    mica_arena_deinit(&arena);
    return st;
}

static void depth_is_limited(void **state) {
    (void)state;
    mica_error err;
    assert_int_equal(parse_nested(128, &err), MICA_OK);
    assert_int_equal(parse_nested(129, &err), MICA_E_LIMIT);
    assert_int_equal(err.offset, 128);
    json_writer w;
    mica_json_writer_init(&w, false);
    for (int i = 0; i < 128; i++) {
        mica_json_begin_array(&w);
    }
    assert_false(w.failed);
    mica_json_begin_array(&w);
    assert_true(w.failed);
    mica_json_writer_deinit(&w);
}

/* An object of n members whose keys the callback writes; *n_bytes is the length. */
static char *make_object(size_t n, void (*key)(char *out, size_t i), size_t *n_bytes) {
    char *text = malloc(n * 80 + 3), name[64];
    assert_non_null(text);
    size_t pos = 0;
    text[pos++] = '{';
    for (size_t i = 0; i < n; i++) {
        key(name, i);
        pos += (size_t)sprintf(text + pos, "%s\"%s\":%zu", i ? "," : "", name, i);
    }
    text[pos++] = '}';
    *n_bytes = pos;
    return text;
}

static void plain_key(char *out, size_t i) { sprintf(out, "key%zu", i); }

static void last_key_again(char *out, size_t i) { sprintf(out, "key%zu", i == 4999 ? 17 : i); }

static void many_keys(void **state) {
    (void)state;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    size_t n = 0;
    char *text = make_object(300000, plain_key, &n);
    double begin = thread_seconds();
    assert_int_equal(mica_json_parse(&v, text, n, "t", false, &arena, NULL), MICA_OK);
    assert_true(thread_seconds() - begin < 5.0);
    free(text);
    assert_int_equal(v->n, 300000);
    assert_string_equal(v->members[299999].key, "key299999");
    assert_int_equal(v->members[299999].value->integer, 299999);
    mica_error err;
    text = make_object(5000, last_key_again, &n);
    assert_int_equal(mica_json_parse(&v, text, n, "t", false, &arena, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "\"key17\""));
    assert_memory_equal(text + err.offset, "\"key17\":4999", 12);
    free(text);
    mica_arena_deinit(&arena);
}

/* Every size around the switch from comparing to hashing, with the twin at every place. */
static void twins_anywhere(void **state) {
    (void)state;
    for (size_t n = 2; n < 20; n++) {
        for (size_t a = 0; a < n; a++) {
            for (size_t b = a + 1; b < n; b++) {
                char text[400] = "{";
                for (size_t i = 0; i < n; i++) {
                    char member[16];
                    snprintf(member, sizeof(member), "%s\"k%zu\":1", i ? "," : "", i == b ? a : i);
                    strcat(text, member);
                }
                strcat(text, "}");
                mica_arena arena;
                mica_arena_init(&arena, 0);
                json_value *v = NULL;
                mica_error err;
                assert_int_equal(parse_n(&v, text, strlen(text), false, &arena, &err),
                                 MICA_E_FORMAT);
                mica_arena_deinit(&arena);
            }
        }
    }
}

/* ---- reader ---- */

static void events_with_places(void **state) {
    (void)state;
    const char *text = " { \"a\" : [ 1 , \"x\\n\" ] , \"b\" : null } ";
    static const json_event events[] = {
        JSON_OBJECT_BEGIN, JSON_KEY,  JSON_ARRAY_BEGIN, JSON_NUMBER, JSON_STRING, JSON_ARRAY_END,
        JSON_KEY,          JSON_NULL, JSON_OBJECT_END,  JSON_END,    JSON_END};
    static const size_t starts[] = {1, 3, 9, 11, 15, 21, 25, 31, 36, 38, 38};
    json_reader r;
    mica_json_reader_init(&r, text, strlen(text), "t");
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        json_event event;
        assert_int_equal(mica_json_next(&r, &event, NULL), MICA_OK);
        assert_int_equal(event, events[i]);
        assert_int_equal(r.start, starts[i]);
        if (event == JSON_STRING) assert_int_equal(r.n_text, 2);
    }
    mica_json_reader_deinit(&r);
}

static void errors_repeat(void **state) {
    (void)state;
    static const char *const broken[] = {"{\"a\" 1}", "{\"a\":1,\"b\"}", "[1,x]", "\"\\q\""};
    for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
        json_reader r;
        mica_json_reader_init(&r, broken[i], strlen(broken[i]), "t");
        mica_error first, second;
        json_event event;
        while (!mica_json_next(&r, &event, &first)) {
        }
        assert_int_equal(mica_json_next(&r, &event, &second), first.code);
        assert_string_equal(first.message, second.message);
        mica_json_reader_deinit(&r);
    }
}

static void skipping(void **state) {
    (void)state;
    const char *text = "{\"a\":{\"x\":[1,{\"y\":[]}]},\"b\":7,\"c\":[],\"d\":true}";
    json_reader r;
    mica_json_reader_init(&r, text, strlen(text), "t");
    json_event event;
    assert_int_equal(mica_json_next(&r, &event, NULL), MICA_OK);
    char seen[8] = "";
    while (!mica_json_next(&r, &event, NULL) && event == JSON_KEY) {
        strncat(seen, r.text, r.n_text);
        assert_int_equal(mica_json_skip(&r, NULL), MICA_OK);
    }
    assert_int_equal(event, JSON_OBJECT_END);
    assert_string_equal(seen, "abcd");
    mica_json_reader_deinit(&r);
    mica_json_reader_init(&r, "[[1,]]", 6, "t");
    assert_int_equal(mica_json_skip(&r, NULL), MICA_E_FORMAT);
    mica_json_reader_deinit(&r);
}

static void literals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_integer;
        int64_t integer;
        double number;
    } cases[] = {
        {"0", true, 0, 0.0},
        {"-7", true, -7, -7.0},
        {"9223372036854775807", true, INT64_MAX, 9223372036854775808.0},
        {"-9223372036854775808", true, INT64_MIN, -9223372036854775808.0},
        {"9223372036854775808", false, 0, 9223372036854775808.0},
        {"18446744073709551616", false, 0, 18446744073709551616.0},
        {"1.0", false, 0, 1.0},
        {"1e2", false, 0, 100.0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_reader r;
        mica_json_reader_init(&r, cases[i].text, strlen(cases[i].text), "t");
        json_event event;
        assert_int_equal(mica_json_next(&r, &event, NULL), MICA_OK);
        int64_t integer = 0;
        assert_int_equal(mica_json_text_i64(&r, &integer), cases[i].is_integer);
        assert_true(integer == cases[i].integer);
        assert_true(mica_json_text_double(&r) == cases[i].number);
        mica_json_reader_deinit(&r);
    }
}

/* Numbers keep their spelling, strings tell of halves of surrogate pairs. */
static void nothing_is_lost(void **state) {
    (void)state;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v;
    const char *text = "{\"a\":[0.10,1E400,-12345678901234567890,5,-0],"
                       "\"\\ud800\":\"\xEF\xBF\xBD\\n\",\"\\ud83d\\ude00\":\"\\udc00\\ud800\","
                       "\"\\ufffdx\":\"b\"}";
    assert_int_equal(parse_n(&v, text, strlen(text), false, &arena, NULL), MICA_OK);
    json_value **numbers = v->members[0].value->items;
    assert_string_equal(numbers[0]->literal, "0.10");
    assert_string_equal(numbers[1]->literal, "1E400");
    assert_string_equal(numbers[2]->literal, "-12345678901234567890");
    assert_true(mica_json_is_long_integer(numbers[2]));
    assert_false(mica_json_is_long_integer(numbers[0]) || mica_json_is_long_integer(numbers[1]) ||
                 mica_json_is_long_integer(numbers[3]) || mica_json_is_long_integer(NULL));
    assert_int_equal(numbers[4]->kind, JSON_KIND_INT);
    assert_true(v->members[1].has_half && !v->members[1].value->has_half);
    assert_true(!v->members[2].has_half && v->members[2].value->has_half);
    assert_true(!v->members[3].has_half && !v->members[3].value->has_half);
    mica_arena_deinit(&arena);
}

/* The reader allocates nothing for strings without escapes and little for others. */
static void reader_allocates_little(void **state) {
    (void)state;
    const char *plain = "{\"a\":[\"b\",\"c\",1.5,{\"d\":\"\xC3\xA9\"}]}";
    const char *escaped = "[\"\\n\",\"\\t\",\"\\u0041\",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\\n\"]";
    const char *texts[] = {plain, escaped};
    for (int i = 0; i < 2; i++) {
        fault_alloc_arm(0);
        json_reader r;
        mica_json_reader_init(&r, texts[i], strlen(texts[i]), "t");
        json_event event = JSON_NULL;
        while (event != JSON_END) {
            assert_int_equal(mica_json_next(&r, &event, NULL), MICA_OK);
        }
        mica_json_reader_deinit(&r);
        assert_int_equal(fault_alloc_calls(), i);
    }
}

/* ---- tree ---- */

static void nonfinite_numbers(void **state) {
    (void)state;
    const char *text = "[NaN,Infinity,-Infinity,{\"__float__\":\"Infinity\"},"
                       "{\"__float__\":\"-Infinity\"},{\"__float__\":\"NaN\"},"
                       "{\"__float__\":\"x\"},{\"__float__\":\"NaN\",\"b\":1}]";
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    assert_int_equal(parse_n(&v, text, strlen(text), true, &arena, NULL), MICA_OK);
    assert_true(isnan(mica_json_double(v->items[0], 0)));
    assert_true(mica_json_double(v->items[1], 0) == INFINITY);
    assert_true(mica_json_double(v->items[2], 0) == -INFINITY);
    assert_true(mica_json_double(v->items[3], 0) == INFINITY);
    assert_true(mica_json_double(v->items[4], 0) == -INFINITY);
    assert_true(isnan(mica_json_double(v->items[5], 0)));
    assert_int_equal(v->items[6]->kind, JSON_KIND_OBJECT);
    assert_int_equal(v->items[7]->kind, JSON_KIND_OBJECT);
    assert_int_equal(mica_json_i64(v->items[1], 5), 5);
    assert_int_equal(mica_json_i64(v->items[0], 5), 5);
    const char *wrapped = "{\"__float__\":\"Infinity\"}";
    assert_int_equal(parse_n(&v, wrapped, strlen(wrapped), false, &arena, NULL), MICA_OK);
    assert_int_equal(v->kind, JSON_KIND_OBJECT);
    mica_arena_deinit(&arena);
}

static void look_ups(void **state) {
    (void)state;
    const char *text =
        "{\"i\":3,\"d\":2.0,\"f\":2.5,\"b\":true,\"s\":\"x\",\"n\":null,\"big\":1e19}";
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    assert_int_equal(parse_n(&v, text, strlen(text), false, &arena, NULL), MICA_OK);
    assert_int_equal(mica_json_i64(mica_json_find(v, "i"), -1), 3);
    assert_int_equal(mica_json_i64(mica_json_find(v, "d"), -1), 2);
    assert_int_equal(mica_json_i64(mica_json_find(v, "f"), -1), -1);
    assert_int_equal(mica_json_i64(mica_json_find(v, "big"), -1), -1);
    assert_int_equal(mica_json_i64(mica_json_find(v, "s"), -1), -1);
    assert_int_equal(mica_json_i64(mica_json_find(v, "zzz"), -1), -1);
    assert_true(mica_json_double(mica_json_find(v, "i"), -1) == 3.0);
    assert_true(mica_json_double(mica_json_find(v, "f"), -1) == 2.5);
    assert_true(mica_json_bool(mica_json_find(v, "b"), false));
    assert_true(mica_json_bool(mica_json_find(v, "i"), true));
    assert_string_equal(mica_json_string(mica_json_find(v, "s"), "y"), "x");
    assert_string_equal(mica_json_string(mica_json_find(v, "i"), "y"), "y");
    assert_non_null(mica_json_find(v, "n"));
    assert_null(mica_json_find_set(v, "n"));
    assert_non_null(mica_json_find_set(v, "i"));
    assert_null(mica_json_find(NULL, "a"));
    assert_null(mica_json_find(mica_json_find(v, "i"), "a"));
    assert_false(mica_json_is_number(NULL));
    assert_false(mica_json_is_number(mica_json_find(v, "s")));
    mica_arena_deinit(&arena);
}

static void files(void **state) {
    (void)state;
    char path[] = "/tmp/mica-test-json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fputs("{\"a\": 1}\n", f);
    fclose(f);
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    mica_error err;
    assert_int_equal(mica_json_parse_file(&v, path, 9, false, &arena, &err), MICA_OK);
    assert_int_equal(mica_json_i64(mica_json_find(v, "a"), 0), 1);
    assert_int_equal(mica_json_parse_file(&v, path, 8, false, &arena, &err), MICA_E_LIMIT);
    remove(path);
    assert_int_equal(mica_json_parse_file(&v, path, 9, false, &arena, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, path));
    mica_arena_deinit(&arena);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const char *text = "{\"a\":[\"x\\ny\",1,2.5,{\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\":5,"
                       "\"k6\":6,\"k7\":7,\"k8\":8,\"k9\":9}],\"b\":true}";
    long live = fault_alloc_live();
    long n_failed = 0;
    for (long fail_at = 1, done = 0; !done; fail_at++) {
        mica_arena arena;
        mica_arena_init(&arena, 64);
        json_value *v = NULL;
        json_writer w;
        mica_json_writer_init(&w, true);
        mica_error err = {.code = MICA_OK};
        fault_alloc_arm(fail_at);
        mica_status st = mica_json_parse(&v, text, strlen(text), "t", false, &arena, &err);
        if (!st) write_value(&w, v);
        done = fault_alloc_calls() < fail_at;
        fault_alloc_arm(0);
        assert_true(st == MICA_OK ? err.code == MICA_OK : st == MICA_E_NOMEM && !v);
        n_failed += st || w.failed;
        if (!done) assert_true(st || w.failed);
        mica_json_writer_deinit(&w);
        mica_arena_deinit(&arena);
        assert_int_equal(fault_alloc_live(), live);
    }
    assert_true(n_failed > 10);
}

/* ---- writer ---- */

static void pretty_text(void **state) {
    (void)state;
    json_writer w;
    mica_json_writer_init(&w, true);
    mica_json_begin_object(&w);
    mica_json_key(&w, "a\n");
    mica_json_begin_array(&w);
    mica_json_put_u64(&w, UINT64_MAX);
    mica_json_put_i64(&w, INT64_MIN);
    mica_json_put_double(&w, 0.1);
    mica_json_put_float(&w, 0.1f);
    mica_json_put_double(&w, (double)NAN);
    mica_json_put_float(&w, INFINITY);
    mica_json_put_cstring(&w, NULL);
    mica_json_end_array(&w);
    mica_json_key(&w, "b");
    mica_json_begin_object(&w);
    mica_json_end_object(&w);
    mica_json_key(&w, "c");
    mica_json_begin_array(&w);
    mica_json_end_array(&w);
    mica_json_end_object(&w);
    assert_false(w.failed);
    assert_string_equal(w.data, "{\n  \"a\\n\": [\n    18446744073709551615,\n"
                                "    -9223372036854775808,\n    0.1,\n    0.1,\n    null,\n"
                                "    null,\n    null\n  ],\n  \"b\": {},\n  \"c\": []\n}");
    mica_json_writer_deinit(&w);
}

static void strings_are_repaired(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        const char *written;
    } cases[] = {
        {"a\xFF", "\"a\xEF\xBF\xBD\""},
        {"\xE2\x82", "\"\xEF\xBF\xBD\""}, /* one maximal subpart, one replacement */
        {"\xE2\x82x", "\"\xEF\xBF\xBDx\""},
        {"\xF0\x9F\x98\xC3\xA9", "\"\xEF\xBF\xBD\xC3\xA9\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"</script>\x7F", "\"</script>\x7F\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_writer w;
        mica_json_writer_init(&w, false);
        mica_json_put_string(&w, cases[i].bytes, strlen(cases[i].bytes));
        assert_string_equal(w.data, cases[i].written);
        mica_json_writer_deinit(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(rejects),
        cmocka_unit_test(nul_bytes),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(many_keys),
        cmocka_unit_test(twins_anywhere),
        cmocka_unit_test(events_with_places),
        cmocka_unit_test(errors_repeat),
        cmocka_unit_test(skipping),
        cmocka_unit_test(literals),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(reader_allocates_little),
        cmocka_unit_test(nonfinite_numbers),
        cmocka_unit_test(look_ups),
        cmocka_unit_test(files),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(pretty_text),
        cmocka_unit_test(strings_are_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
