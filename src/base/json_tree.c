/* json_tree.c: builds a tree of values from the reader's events, and looks things up in it.
 *
 * Children wait in one growing list until their container ends and its array is as long as it must
 * be; a level remembers where in the list its children begin. Nothing recurses. Two equal keys in
 * an object are an error; they are found in linear time (json_keys.c).
 */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/json_keys.h"

typedef struct tree_builder {
    json_reader reader;
    mica_arena *arena;
    json_entry *entries;
    size_t n_entries, capacity;
    size_t first_entry[MICA_JSON_MAX_DEPTH];
    int depth;
    json_value *root;
} tree_builder;

static mica_status fail_memory(const tree_builder *b, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", b->reader.name);
}

static mica_status push_entry(tree_builder *b, json_entry entry, mica_error *err) {
    if (b->n_entries == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 64, n_bytes;
        if (!mica_mul_size(capacity, sizeof(*b->entries), &n_bytes)) return fail_memory(b, err);
        json_entry *grown = mica_realloc(b->entries, n_bytes);
        if (!grown) return fail_memory(b, err);
        b->entries = grown;
        b->capacity = capacity;
    }
    b->entries[b->n_entries++] = entry;
    return MICA_OK;
}

/* Gives a finished value to its parent: the key that waits for it, a new item, or the root. */
static mica_status place(tree_builder *b, json_value *value, mica_error *err) {
    if (!value) return fail_memory(b, err);
    if (b->depth == 0) {
        b->root = value;
        return MICA_OK;
    }
    if (b->reader.stack[b->depth - 1]) {
        b->entries[b->n_entries - 1].value = value;
        return MICA_OK;
    }
    return push_entry(b, (json_entry){.value = value}, err);
}

static json_value *new_value(tree_builder *b, json_kind kind) {
    json_value *v = mica_arena_alloc(b->arena, sizeof(*v));
    if (v) v->kind = kind;
    return v;
}

static json_value *new_bool(tree_builder *b, bool boolean) {
    json_value *v = new_value(b, JSON_KIND_BOOL);
    if (v) v->boolean = boolean;
    return v;
}

static json_value *new_string(tree_builder *b) {
    size_t n = b->reader.n_text, n_bytes;
    if (!mica_add_size(n, sizeof(json_value) + 1, &n_bytes)) return NULL;
    json_value *v = mica_arena_alloc(b->arena, n_bytes);
    if (!v) return NULL;
    char *text = (char *)(v + 1);
    if (n) memcpy(text, b->reader.text, n);
    v->kind = JSON_KIND_STRING;
    v->n = n;
    v->string = text;
    v->has_half = b->reader.has_half;
    return v;
}

static json_value *new_number(tree_builder *b) {
    json_value *v = new_value(b, JSON_KIND_INT);
    if (!v || mica_json_text_i64(&b->reader, &v->integer)) return v;
    v->kind = JSON_KIND_DOUBLE;
    v->number = mica_json_text_double(&b->reader);
    v->literal = mica_arena_strndup(b->arena, b->reader.text, b->reader.n_text);
    return v->literal ? v : NULL;
}

static json_value *new_array(tree_builder *b, const json_entry *entries, size_t n) {
    json_value *v = new_value(b, JSON_KIND_ARRAY);
    if (!v || n == 0) return v;
    v->items = mica_arena_calloc(b->arena, n, sizeof(*v->items));
    if (!v->items) return NULL;
    for (size_t i = 0; i < n; i++) {
        v->items[i] = entries[i].value;
    }
    v->n = n;
    return v;
}

static json_value *new_object(tree_builder *b, const json_entry *entries, size_t n) {
    json_value *v = new_value(b, JSON_KIND_OBJECT);
    if (!v || n == 0) return v;
    v->members = mica_arena_calloc(b->arena, n, sizeof(*v->members));
    if (!v->members) return NULL;
    for (size_t i = 0; i < n; i++) {
        v->members[i] =
            (json_member){entries[i].key, entries[i].n_key, entries[i].value, entries[i].has_half};
    }
    v->n = n;
    return v;
}

/* {"__float__": "Infinity"}, which some configs hold because JSON has no such number. */
static bool wrapped_float(const json_entry *entries, size_t n, double *out) {
    if (n != 1 || entries[0].n_key != 9 || memcmp(entries[0].key, "__float__", 9) != 0)
        return false;
    const char *text = mica_json_string(entries[0].value, "");
    if (strcmp(text, "NaN") == 0) {
        *out = NAN;
    } else if (strcmp(text, "Infinity") == 0) {
        *out = INFINITY;
    } else if (strcmp(text, "-Infinity") == 0) {
        *out = -INFINITY;
    } else {
        return false;
    }
    return true;
}

static mica_status finish_object(tree_builder *b, const json_entry *entries, size_t n,
                                 json_value **out, mica_error *err) {
    double number;
    if (b->reader.allow_nonfinite && wrapped_float(entries, n, &number)) {
        json_value *v = *out = new_value(b, JSON_KIND_DOUBLE);
        if (v) v->number = number;
        return MICA_OK;
    }
    const json_entry *twin = NULL;
    if (!mica_json_find_twin(entries, n, &twin)) return fail_memory(b, err);
    if (twin) {
        int n_shown = twin->n_key < 80 ? (int)twin->n_key : 80;
        return mica_fail_at(err, MICA_E_FORMAT, twin->key_off,
                            "%s: JSON: the key \"%.*s\" appears twice in one object",
                            b->reader.name, n_shown, twin->key);
    }
    *out = new_object(b, entries, n);
    return MICA_OK;
}

static mica_status finish_container(tree_builder *b, bool is_object, mica_error *err) {
    size_t first = b->first_entry[--b->depth];
    const json_entry *entries = b->entries ? b->entries + first : NULL;
    size_t n = b->n_entries - first;
    json_value *v = NULL;
    if (is_object) {
        mica_status st = finish_object(b, entries, n, &v, err);
        if (st) return st;
    } else {
        v = new_array(b, entries, n);
    }
    b->n_entries = first;
    return place(b, v, err);
}

static mica_status add_key(tree_builder *b, mica_error *err) {
    const json_reader *r = &b->reader;
    const char *key = mica_arena_strndup(b->arena, r->text, r->n_text);
    if (!key) return fail_memory(b, err);
    json_entry entry = {
        .key = key, .n_key = r->n_text, .key_off = r->start, .has_half = r->has_half};
    return push_entry(b, entry, err);
}

static mica_status add_event(tree_builder *b, json_event event, mica_error *err) {
    switch (event) {
    case JSON_OBJECT_BEGIN:
    case JSON_ARRAY_BEGIN:
        b->first_entry[b->depth++] = b->n_entries;
        return MICA_OK;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        return finish_container(b, event == JSON_OBJECT_END, err);
    case JSON_KEY:
        return add_key(b, err);
    case JSON_STRING:
        return place(b, new_string(b), err);
    case JSON_NUMBER:
        return place(b, new_number(b), err);
    case JSON_TRUE:
    case JSON_FALSE:
        return place(b, new_bool(b, event == JSON_TRUE), err);
    case JSON_NULL:
        return place(b, new_value(b, JSON_KIND_NULL), err);
    case JSON_END:
        break;
    }
    return MICA_OK;
}

mica_status mica_json_parse(json_value **out, const char *data, size_t n_bytes, const char *name,
                            bool allow_nonfinite, mica_arena *arena, mica_error *err) {
    tree_builder b = {.arena = arena};
    mica_json_reader_init(&b.reader, data, n_bytes, name);
    b.reader.allow_nonfinite = allow_nonfinite;
    mica_status st;
    json_event event = JSON_END;
    do {
        if ((st = mica_json_next(&b.reader, &event, err))) goto out;
        if ((st = add_event(&b, event, err))) goto out;
    } while (event != JSON_END);
    *out = b.root;
out:
    mica_free(b.entries);
    mica_json_reader_deinit(&b.reader);
    return st;
}

mica_status mica_json_parse_file(json_value **out, const char *path, size_t max_bytes,
                                 bool allow_nonfinite, mica_arena *arena, mica_error *err) {
    mica_map *map = NULL;
    mica_status st = mica_map_open(&map, path, err);
    if (st) return st;
    if (map->size > max_bytes) {
        st = mica_fail(err, MICA_E_LIMIT, "%s: is larger than the limit of %zu bytes", path,
                       max_bytes);
    } else {
        st = mica_json_parse(out, (const char *)map->data, map->size, path, allow_nonfinite, arena,
                             err);
    }
    mica_map_unref(map);
    return st;
}

/* ---- look-ups ---- */

const json_value *mica_json_find(const json_value *object, const char *key) {
    if (!object || object->kind != JSON_KIND_OBJECT) return NULL;
    size_t n_key = strlen(key);
    for (size_t i = 0; i < object->n; i++) {
        const json_member *m = &object->members[i];
        if (m->n_key == n_key && memcmp(m->key, key, n_key) == 0) return m->value;
    }
    return NULL;
}

const json_value *mica_json_find_set(const json_value *object, const char *key) {
    const json_value *v = mica_json_find(object, key);
    return v && v->kind != JSON_KIND_NULL ? v : NULL;
}

bool mica_json_is_number(const json_value *v) {
    return v && (v->kind == JSON_KIND_INT || v->kind == JSON_KIND_DOUBLE);
}

bool mica_json_is_long_integer(const json_value *v) {
    if (!v || v->kind != JSON_KIND_DOUBLE || !v->literal) return false;
    const char *s = v->literal + (v->literal[0] == '-');
    return s[strspn(s, "0123456789")] == '\0';
}

double mica_json_double(const json_value *v, double fallback) {
    if (!mica_json_is_number(v)) return fallback;
    return v->kind == JSON_KIND_INT ? (double)v->integer : v->number;
}

int64_t mica_json_i64(const json_value *v, int64_t fallback) {
    if (!mica_json_is_number(v)) return fallback;
    if (v->kind == JSON_KIND_INT) return v->integer;
    bool fits = v->number >= -0x1p63 && v->number < 0x1p63 && v->number == trunc(v->number);
    return fits ? (int64_t)v->number : fallback;
}

bool mica_json_bool(const json_value *v, bool fallback) {
    return v && v->kind == JSON_KIND_BOOL ? v->boolean : fallback;
}

const char *mica_json_string(const json_value *v, const char *fallback) {
    return v && v->kind == JSON_KIND_STRING ? v->string : fallback;
}
