/* fuzz_json.c: any bytes as JSON. What is accepted is written and read again: the second text must
 * be the first. The skipping reader must agree with the tree about what is well-formed, except for
 * equal keys, which it does not look for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void write_value(json_writer *w, const json_value *v) {
    switch (v->kind) {
    case JSON_KIND_NULL:
        mica_json_put_null(w);
        return;
    case JSON_KIND_BOOL:
        mica_json_put_bool(w, v->boolean);
        return;
    case JSON_KIND_INT:
        mica_json_put_i64(w, v->integer);
        return;
    case JSON_KIND_DOUBLE:
        mica_json_put_double(w, v->number);
        return;
    case JSON_KIND_STRING:
        mica_json_put_string(w, v->string, v->n);
        return;
    case JSON_KIND_ARRAY:
        mica_json_begin_array(w);
        for (size_t i = 0; i < v->n; i++) {
            write_value(w, v->items[i]);
        }
        mica_json_end_array(w);
        return;
    case JSON_KIND_OBJECT:
        mica_json_begin_object(w);
        for (size_t i = 0; i < v->n; i++) {
            mica_json_key(w, v->members[i].key);
            write_value(w, v->members[i].value);
        }
        mica_json_end_object(w);
        return;
    }
}

/* A key with a NUL is written up to the NUL and may then equal another one. */
static bool has_nul_in_key(const json_value *v) {
    if (v->kind == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < v->n; i++) {
            if (has_nul_in_key(v->items[i])) return true;
        }
    }
    if (v->kind == JSON_KIND_OBJECT) {
        for (size_t i = 0; i < v->n; i++) {
            const json_member *m = &v->members[i];
            if (strlen(m->key) != m->n_key || has_nul_in_key(m->value)) return true;
        }
    }
    return false;
}

static void check_round_trip(const json_value *v, bool pretty) {
    json_writer first, second;
    mica_json_writer_init(&first, pretty);
    mica_json_writer_init(&second, pretty);
    write_value(&first, v);
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *again = NULL;
    if (first.failed) abort();
    if (mica_json_parse(&again, first.data, first.n, "again", false, &arena, NULL)) abort();
    write_value(&second, again);
    if (first.n != second.n || memcmp(first.data, second.data, first.n) != 0) abort();
    mica_json_writer_deinit(&first);
    mica_json_writer_deinit(&second);
    mica_arena_deinit(&arena);
}

static bool is_well_formed(const uint8_t *data, size_t n, bool allow_nonfinite) {
    json_reader r;
    mica_json_reader_init(&r, (const char *)data, n, "fuzz");
    r.allow_nonfinite = allow_nonfinite;
    json_event event = JSON_NULL;
    bool is_good = !mica_json_skip(&r, NULL) && !mica_json_next(&r, &event, NULL);
    mica_json_reader_deinit(&r);
    return is_good && event == JSON_END;
}

static void check(const uint8_t *data, size_t n, bool allow_nonfinite) {
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v = NULL;
    mica_error err;
    mica_error_clear(&err);
    mica_status st =
        mica_json_parse(&v, (const char *)data, n, "fuzz", allow_nonfinite, &arena, &err);
    if (is_well_formed(data, n, allow_nonfinite)) {
        if (st && !strstr(err.message, "appears twice")) abort();
    } else {
        if (!st || err.offset > n) abort();
    }
    if (!st && !has_nul_in_key(v)) {
        check_round_trip(v, false);
        check_round_trip(v, true);
    }
    mica_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    check(data, n, false);
    check(data, n, true);
    return 0;
}
