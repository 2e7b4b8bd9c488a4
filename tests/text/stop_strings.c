/* stop_strings.c: random streams over two letters, cut anyhow, against a search of the whole text;
 * what is withheld is exactly what may become a stop string.
 */
#include "cmocka_base.h"

#include <stdlib.h>
#include <string.h>

#include "text/stop_strings.h"

#define MAX_TEXT 40
#define MAX_STRINGS 3

typedef struct example {
    char text[MAX_TEXT];
    size_t n_text;
    char strings[MAX_STRINGS][8];
    const char *list[MAX_STRINGS];
    size_t lengths[MAX_STRINGS];
    size_t n_strings;
} example;

static unsigned seed = 1;

static unsigned below(unsigned n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % n;
}

static void make(example *e) {
    e->n_text = below(MAX_TEXT);
    for (size_t i = 0; i < e->n_text; i++) {
        e->text[i] = (char)('a' + below(2));
    }
    e->n_strings = below(MAX_STRINGS + 1);
    for (size_t i = 0; i < e->n_strings; i++) {
        e->lengths[i] = 1 + below(7);
        for (size_t k = 0; k < e->lengths[i]; k++) {
            e->strings[i][k] = (char)('a' + below(2));
        }
        e->list[i] = e->strings[i];
    }
}

/* Whether text[0..end) ends with string i. */
static bool ends_with(const example *e, size_t end, size_t i) {
    size_t n = e->lengths[i];
    return n <= end && memcmp(e->text + end - n, e->strings[i], n) == 0;
}

/* Bytes of text[0..end) before the first stop; *stops: there is one. */
static size_t search(const example *e, size_t end, bool *stops) {
    *stops = true;
    for (size_t at = 1; at <= end; at++) {
        size_t longest = 0;
        for (size_t i = 0; i < e->n_strings; i++) {
            if (ends_with(e, at, i) && e->lengths[i] > longest) longest = e->lengths[i];
        }
        if (longest) return at - longest;
    }
    *stops = false;
    return end;
}

/* The longest suffix of text[0..end) that begins a stop string. */
static size_t suffix(const example *e, size_t end) {
    size_t longest = 0;
    for (size_t i = 0; i < e->n_strings; i++) {
        for (size_t n = 1; n < e->lengths[i] && n <= end; n++) {
            bool is_begin = memcmp(e->text + end - n, e->strings[i], n) == 0;
            if (is_begin && n > longest) longest = n;
        }
    }
    return longest;
}

static void run(const example *e) {
    stop_matcher m;
    mica_error err = {0};
    bool stops = false;
    size_t seen = 0;
    if (mica_stop_matcher_init(&m, e->list, e->lengths, e->n_strings, &err)) {
        fail_msg("%s", err.message);
    }
    for (size_t at = 0, n; at < e->n_text || !e->n_text; at += n) {
        n = below(5);
        if (n > e->n_text - at) n = e->n_text - at;
        assert_int_equal(mica_stop_matcher_push(&m, e->text + at, n, &err), MICA_OK);
        assert_true(seen + m.n_text <= e->n_text);
        assert_memory_equal(m.text, e->text + seen, m.n_text);
        seen += m.n_text;
        size_t expected = search(e, at + n, &stops);
        assert_int_equal(m.is_stopped, stops);
        assert_int_equal(m.n_held, stops ? 0 : suffix(e, at + n));
        assert_int_equal(seen + m.n_held, expected);
        if (!e->n_text) break;
    }
    mica_stop_matcher_finish(&m);
    seen += m.n_text;
    assert_int_equal(seen, search(e, e->n_text, &stops));
    if (stops) assert_true(m.which < e->n_strings);
    mica_stop_matcher_deinit(&m);
}

static void test_random(void **state) {
    (void)state;
    for (int i = 0; i < 200000; i++) {
        example e;
        make(&e);
        run(&e);
    }
}

static void test_bytes(void **state) {
    (void)state;
    stop_matcher m;
    mica_error err = {0};
    static const char *const strings[] = {"\0x", "\xE2\x82\xAC", ""};
    static const size_t lengths[] = {2, 3, 0};
    assert_int_equal(mica_stop_matcher_init(&m, strings, lengths, 3, &err), MICA_E_INVALID);
    assert_non_null(strstr(err.message, "stop string 2 is empty"));
    assert_int_equal(mica_stop_matcher_init(&m, strings, lengths, 2, &err), MICA_OK);
    assert_int_equal(mica_stop_matcher_push(&m, "a\0", 2, &err), MICA_OK);
    assert_int_equal(m.n_text, 1);
    assert_int_equal(mica_stop_matcher_push(&m, "b\xE2\x82", 3, &err), MICA_OK);
    assert_int_equal(m.n_text, 2);
    assert_memory_equal(m.text, "\0b", 2);
    assert_int_equal(mica_stop_matcher_push(&m, "\xACz", 2, &err), MICA_OK);
    assert_true(m.is_stopped && m.which == 1 && m.n_text == 0);
    assert_int_equal(mica_stop_matcher_push(&m, "more", 4, &err), MICA_OK);
    assert_int_equal(m.n_text, 0);
    mica_stop_matcher_deinit(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
