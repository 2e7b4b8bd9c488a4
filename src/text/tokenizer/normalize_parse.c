/* normalize_parse.c: normalizers from tokenizer.json.
 *
 * BertNormalizer becomes up to five steps, a Sequence those of its members.
 */
#include "text/tokenizer/normalize.h"

mica_status mica_normalizer_append(normalizer **list, normalizer step, const step_loader *l,
                                   mica_error *err) {
    normalizer *copy = mica_arena_alloc(l->arena, sizeof(*copy));
    if (!copy) return mica_step_no_memory(l, err);
    *copy = step;
    copy->next = NULL;
    while (*list) {
        list = &(*list)->next;
    }
    *list = copy;
    return MICA_OK;
}

static mica_status parse_sequence(normalizer **list, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    const json_value *items = mica_json_find_set(v, "normalizers");
    if (!items || items->kind != JSON_KIND_ARRAY) {
        return mica_fail(err, MICA_E_FORMAT, "%s: a Sequence lacks its \"normalizers\"", l->name);
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < items->n && !st; i++) {
        st = mica_normalizer_parse(list, items->items[i], l, err);
    }
    return st;
}

static bool find_kind(const char *type, normalizer_kind *out) {
    static const struct {
        const char *type;
        normalizer_kind kind;
    } kinds[] = {{"NFC", NORMALIZE_NFC},
                 {"NFD", NORMALIZE_NFD},
                 {"NFKC", NORMALIZE_NFKC},
                 {"NFKD", NORMALIZE_NFKD},
                 {"Lowercase", NORMALIZE_LOWERCASE},
                 {"Strip", NORMALIZE_STRIP},
                 {"StripAccents", NORMALIZE_STRIP_ACCENTS},
                 {"Replace", NORMALIZE_REPLACE},
                 {"Prepend", NORMALIZE_PREPEND},
                 {"Nmt", NORMALIZE_NMT},
                 {"Precompiled", NORMALIZE_CHARSMAP},
                 {"ByteLevel", NORMALIZE_BYTES}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        *out = kinds[i].kind;
        return true;
    }
    return false;
}

mica_status mica_normalizer_append_bert(normalizer **list, bert_normalizer bert,
                                        const step_loader *l, mica_error *err) {
    const struct {
        bool is_on;
        normalizer_kind kind;
    } steps[] = {
        {bert.cleans, NORMALIZE_CLEAN},       {bert.spaces_ideographs, NORMALIZE_SPACE_IDEOGRAPHS},
        {bert.strips_accents, NORMALIZE_NFD}, {bert.strips_accents, NORMALIZE_STRIP_NONSPACING},
        {bert.lowers, NORMALIZE_LOWERCASE},
    };
    mica_status st = MICA_OK;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !st; i++) {
        normalizer step = {.kind = steps[i].kind};
        if (steps[i].is_on) st = mica_normalizer_append(list, step, l, err);
    }
    return st;
}

static mica_status parse_bert(normalizer **list, const json_value *v, const step_loader *l,
                              mica_error *err) {
    bool is_lower = mica_json_bool(mica_json_find(v, "lowercase"), true);
    bert_normalizer bert = {
        .cleans = mica_json_bool(mica_json_find(v, "clean_text"), true),
        .spaces_ideographs = mica_json_bool(mica_json_find(v, "handle_chinese_chars"), true),
        .strips_accents = mica_json_bool(mica_json_find_set(v, "strip_accents"), is_lower),
        .lowers = is_lower,
    };
    return mica_normalizer_append_bert(list, bert, l, err);
}

static mica_status parse_content(normalizer *step, const json_value *v, const step_loader *l,
                                 mica_error *err) {
    mica_status st = MICA_OK;
    const char *key = step->kind == NORMALIZE_PREPEND ? "prepend" : "content";
    if (step->kind == NORMALIZE_REPLACE) {
        st = mica_step_pattern(l, v, "normalizer", &step->pattern, err);
    }
    if (st) return st;
    return mica_step_string(l, v, "normalizer", key, NULL, &step->content, &step->n_content, err);
}

static mica_status parse_charsmap(normalizer *step, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    const json_value *map = mica_json_find_set(v, "precompiled_charsmap");
    if (!map) return MICA_OK;
    if (map->kind != JSON_KIND_STRING) {
        return mica_step_refuse(l, "precompiled_charsmap", "that is no string", err);
    }
    return mica_charsmap_decode(&step->map, map->string, map->n, l, err);
}

mica_status mica_normalizer_parse(normalizer **list, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    mica_status st = MICA_OK;
    if (!v || v->kind == JSON_KIND_NULL) return MICA_OK;
    const char *type = mica_json_string(mica_json_find(v, "type"), "");
    if (strcmp(type, "Sequence") == 0) return parse_sequence(list, v, l, err);
    if (strcmp(type, "BertNormalizer") == 0) return parse_bert(list, v, l, err);
    normalizer step = {0};
    if (!find_kind(type, &step.kind)) return mica_step_refuse(l, "normalizer", type, err);
    step.strip_left = mica_json_bool(mica_json_find(v, "strip_left"), true);
    step.strip_right = mica_json_bool(mica_json_find(v, "strip_right"), true);
    if (step.kind == NORMALIZE_REPLACE || step.kind == NORMALIZE_PREPEND) {
        st = parse_content(&step, v, l, err);
    }
    if (step.kind == NORMALIZE_CHARSMAP) st = parse_charsmap(&step, v, l, err);
    return st ? st : mica_normalizer_append(list, step, l, err);
}
