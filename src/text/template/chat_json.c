/* chat_json.c: building JSON values in an arena. */
#include <string.h>

#include "text/template/chat_impl.h"

json_value *mica_chat_json(mica_arena *arena, json_kind kind, size_t capacity) {
    json_value *v = mica_arena_alloc(arena, sizeof(*v));
    if (!v) return NULL;
    v->kind = kind;
    if (kind == JSON_KIND_OBJECT)
        v->members = mica_arena_calloc(arena, capacity + 1, sizeof(*v->members));
    if (kind == JSON_KIND_ARRAY)
        v->items = mica_arena_calloc(arena, capacity + 1, sizeof(*v->items));
    bool is_good =
        (kind != JSON_KIND_OBJECT || v->members) && (kind != JSON_KIND_ARRAY || v->items);
    return is_good ? v : NULL;
}

json_value *mica_chat_text(mica_arena *arena, const char *text, size_t n) {
    json_value *v = mica_chat_json(arena, JSON_KIND_STRING, 0);
    char *copy = v ? mica_arena_strndup(arena, text, n) : NULL;
    if (!copy) return NULL;
    v->string = copy;
    v->n = n;
    return v;
}

json_value *mica_chat_bool(mica_arena *arena, bool boolean) {
    json_value *v = mica_chat_json(arena, JSON_KIND_BOOL, 0);
    if (v) v->boolean = boolean;
    return v;
}

bool mica_chat_set(json_value *object, const char *key, json_value *value) {
    if (!object || !value) return false;
    for (size_t i = 0; i < object->n; i++) {
        if (strcmp(object->members[i].key, key) != 0) continue;
        object->members[i].value = value;
        return true;
    }
    object->members[object->n++] = (json_member){.key = key, .n_key = strlen(key), .value = value};
    return true;
}

bool mica_chat_push(json_value *array, json_value *value) {
    if (!array || !value) return false;
    array->items[array->n++] = value;
    return true;
}

const char *mica_chat_role(const json_value *message) {
    return mica_json_string(mica_json_find(message, "role"), "");
}
