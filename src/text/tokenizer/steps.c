/* steps.c: reading the fields that steps of a pipeline have in common. */
#include "text/tokenizer/steps.h"

mica_status mica_step_no_memory(const step_loader *l, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory for the tokenizer", l->name);
}

mica_status mica_step_refuse(const step_loader *l, const char *part, const char *what,
                             mica_error *err) {
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: %s \"%s\" is not supported", l->name, part,
                     what);
}

mica_status mica_step_copy(const step_loader *l, const char *s, size_t n, const char **out,
                           mica_error *err) {
    *out = mica_arena_strndup(l->arena, s, n);
    return *out ? MICA_OK : mica_step_no_memory(l, err);
}

mica_status mica_step_string(const step_loader *l, const json_value *step, const char *part,
                             const char *key, const char *fallback, const char **out, size_t *n_out,
                             mica_error *err) {
    const json_value *v = mica_json_find_set(step, key);
    if (!v && fallback) {
        *n_out = strlen(fallback);
        return mica_step_copy(l, fallback, *n_out, out, err);
    }
    if (!v || v->kind != JSON_KIND_STRING) {
        return mica_fail(err, MICA_E_FORMAT, "%s: a %s lacks the string \"%s\"", l->name, part,
                         key);
    }
    *n_out = v->n;
    return mica_step_copy(l, v->string, v->n, out, err);
}

mica_status mica_step_regex(const step_loader *l, const char *pattern, const regex **out,
                            mica_error *err) {
    regex *re;
    mica_status st = mica_regex_compile(&re, pattern, strlen(pattern), l->name, err);
    if (st) return st;
    re->next = *l->regexes;
    *l->regexes = re;
    *out = re;
    return MICA_OK;
}

mica_status mica_step_pattern(const step_loader *l, const json_value *step, const char *part,
                              text_pattern *out, mica_error *err) {
    const json_value *pattern = mica_json_find_set(step, "pattern");
    const json_value *literal = mica_json_find_set(pattern, "String");
    const json_value *source = mica_json_find_set(pattern, "Regex");
    *out = (text_pattern){0};
    if (literal && literal->kind == JSON_KIND_STRING && literal->n) {
        out->n_literal = literal->n;
        return mica_step_copy(l, literal->string, literal->n, &out->literal, err);
    }
    if (source && source->kind == JSON_KIND_STRING) {
        if (strlen(source->string) != source->n) {
            return mica_step_refuse(l, part, "a regex that holds NUL", err);
        }
        return mica_step_regex(l, source->string, &out->regex, err);
    }
    return mica_fail(err, MICA_E_FORMAT,
                     "%s: a %s needs \"pattern\" with a non-empty \"String\" or a \"Regex\"",
                     l->name, part);
}

mica_status mica_step_behavior(const step_loader *l, const json_value *step, split_behavior *out,
                               mica_error *err) {
    static const struct {
        const char *name;
        split_behavior behavior;
    } names[] = {{"Removed", SPLIT_REMOVED},
                 {"Isolated", SPLIT_ISOLATED},
                 {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
                 {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
                 {"Contiguous", SPLIT_CONTIGUOUS}};
    const char *name = mica_json_string(mica_json_find(step, "behavior"), "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i].name) != 0) continue;
        *out = names[i].behavior;
        return MICA_OK;
    }
    return mica_step_refuse(l, "split behavior", name, err);
}

void mica_step_scratch_deinit(step_scratch *s) {
    mica_regex_scratch_deinit(&s->regex);
    mica_free(s->matches.items);
    s->matches = (piece_list){0};
}
