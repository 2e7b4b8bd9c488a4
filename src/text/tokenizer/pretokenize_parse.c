/* pretokenize_parse.c: pre-tokenizers from tokenizer.json.
 *
 * ByteLevel becomes up to three steps (prefix space, GPT-2's regex, bytes to characters), Metaspace
 * and BertPreTokenizer up to two, UnicodeScripts a regex.
 */
#include "text/tokenizer/pretokenize.h"

#include "text/tokenizer/codepoint.h"

mica_status mica_pre_tokenizer_append(pre_tokenizer **list, pre_tokenizer step,
                                      const step_loader *l, mica_error *err) {
    pre_tokenizer *copy = mica_arena_alloc(l->arena, sizeof(*copy));
    if (!copy) return mica_step_no_memory(l, err);
    *copy = step;
    copy->next = NULL;
    while (*list) {
        list = &(*list)->next;
    }
    *list = copy;
    return MICA_OK;
}

mica_status mica_pre_tokenizer_append_regex(pre_tokenizer **list, const char *pattern,
                                            const step_loader *l, mica_error *err) {
    pre_tokenizer step = {.kind = PRE_SPLIT, .behavior = SPLIT_ISOLATED};
    mica_status st = mica_step_regex(l, pattern, &step.pattern.regex, err);
    return st ? st : mica_pre_tokenizer_append(list, step, l, err);
}

static mica_status parse_sequence(pre_tokenizer **list, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    const json_value *items = mica_json_find_set(v, "pretokenizers");
    if (!items || items->kind != JSON_KIND_ARRAY) {
        return mica_fail(err, MICA_E_FORMAT, "%s: a Sequence lacks its \"pretokenizers\"", l->name);
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < items->n && !st; i++) {
        st = mica_pre_tokenizer_parse(list, items->items[i], l, err);
    }
    return st;
}

static mica_status parse_byte_level(pre_tokenizer **list, const json_value *v, const step_loader *l,
                                    mica_error *err) {
    mica_status st = MICA_OK;
    if (mica_json_bool(mica_json_find(v, "add_prefix_space"), true)) {
        st = mica_pre_tokenizer_append(list, (pre_tokenizer){.kind = PRE_PREFIX_SPACE}, l, err);
    }
    if (!st && mica_json_bool(mica_json_find(v, "use_regex"), true)) {
        st = mica_pre_tokenizer_append_regex(list, GPT2_REGEX, l, err);
    }
    if (st) return st;
    return mica_pre_tokenizer_append(list, (pre_tokenizer){.kind = PRE_BYTES}, l, err);
}

/* Files from before `prepend_scheme` say add_prefix_space. */
static mica_status read_scheme(const json_value *v, const step_loader *l, prepend_scheme *out,
                               mica_error *err) {
    bool has_prefix = mica_json_bool(mica_json_find(v, "add_prefix_space"), true);
    const char *name =
        mica_json_string(mica_json_find(v, "prepend_scheme"), has_prefix ? "always" : "never");
    if (strcmp(name, "always") == 0) {
        *out = PREPEND_ALWAYS;
    } else if (strcmp(name, "first") == 0) {
        *out = PREPEND_FIRST;
    } else if (strcmp(name, "never") == 0) {
        *out = PREPEND_NEVER;
    } else {
        return mica_step_refuse(l, "prepend_scheme", name, err);
    }
    return MICA_OK;
}

static mica_status parse_metaspace(pre_tokenizer **list, const json_value *v, const step_loader *l,
                                   mica_error *err) {
    pre_tokenizer step = {.kind = PRE_METASPACE};
    mica_status st = mica_step_string(l, v, "Metaspace", "replacement", "\xE2\x96\x81",
                                      &step.replacement, &step.n_replacement, err);
    if (st) return st;
    if (!step.n_replacement) return mica_step_refuse(l, "Metaspace replacement", "", err);
    if ((st = read_scheme(v, l, &step.scheme, err))) return st;
    if ((st = mica_pre_tokenizer_append(list, step, l, err))) return st;
    if (!mica_json_bool(mica_json_find(v, "split"), true)) return MICA_OK;
    pre_tokenizer split = {.kind = PRE_SPLIT, .behavior = SPLIT_MERGED_WITH_NEXT};
    split.pattern.literal = step.replacement;
    split.pattern.n_literal = step.n_replacement;
    return mica_pre_tokenizer_append(list, split, l, err);
}

static mica_status parse_split(pre_tokenizer *step, const json_value *v, const step_loader *l,
                               mica_error *err) {
    mica_status st = mica_step_pattern(l, v, "Split pre-tokenizer", &step->pattern, err);
    if (st) return st;
    step->is_inverted = mica_json_bool(mica_json_find(v, "invert"), false);
    return mica_step_behavior(l, v, &step->behavior, err);
}

static mica_status parse_delimiter(pre_tokenizer *step, const json_value *v, const step_loader *l,
                                   mica_error *err) {
    step->behavior = SPLIT_REMOVED;
    mica_status st = mica_step_string(l, v, "CharDelimiterSplit", "delimiter", NULL,
                                      &step->pattern.literal, &step->pattern.n_literal, err);
    if (st) return st;
    size_t n = step->pattern.n_literal;
    bool is_char = n && utf8_width(step->pattern.literal[0]) == n;
    return is_char ? MICA_OK : mica_step_refuse(l, "delimiter", step->pattern.literal, err);
}

static mica_status parse_fixed_length(pre_tokenizer *step, const json_value *v,
                                      const step_loader *l, mica_error *err) {
    int64_t n = mica_json_i64(mica_json_find(v, "length"), 0);
    step->kind = PRE_FIXED_LENGTH;
    step->n_chars = (size_t)n;
    return n > 0 ? MICA_OK : mica_step_refuse(l, "FixedLength", "without a positive length", err);
}

mica_status mica_pre_tokenizer_append_bert(pre_tokenizer **list, const step_loader *l,
                                           mica_error *err) {
    pre_tokenizer spaces = {.kind = PRE_WHITESPACE_ONLY};
    pre_tokenizer marks = {.kind = PRE_PUNCTUATION, .behavior = SPLIT_ISOLATED};
    mica_status st = mica_pre_tokenizer_append(list, spaces, l, err);
    return st ? st : mica_pre_tokenizer_append(list, marks, l, err);
}

mica_status mica_pre_tokenizer_parse(pre_tokenizer **list, const json_value *v,
                                     const step_loader *l, mica_error *err) {
    if (!v || v->kind == JSON_KIND_NULL) return MICA_OK;
    const char *type = mica_json_string(mica_json_find(v, "type"), "");
    if (strcmp(type, "Sequence") == 0) return parse_sequence(list, v, l, err);
    if (strcmp(type, "ByteLevel") == 0) return parse_byte_level(list, v, l, err);
    if (strcmp(type, "Metaspace") == 0) return parse_metaspace(list, v, l, err);
    if (strcmp(type, "BertPreTokenizer") == 0) return mica_pre_tokenizer_append_bert(list, l, err);
    pre_tokenizer step = {.kind = PRE_SPLIT};
    mica_status st = MICA_OK;
    if (strcmp(type, "UnicodeScripts") == 0) {
        step.behavior = SPLIT_REMOVED;
        step.is_inverted = true;
        st = mica_step_script_regex(l, &step.pattern.regex, err);
    } else if (strcmp(type, "Split") == 0) {
        st = parse_split(&step, v, l, err);
    } else if (strcmp(type, "CharDelimiterSplit") == 0) {
        st = parse_delimiter(&step, v, l, err);
    } else if (strcmp(type, "FixedLength") == 0) {
        st = parse_fixed_length(&step, v, l, err);
    } else if (strcmp(type, "Digits") == 0) {
        bool is_individual = mica_json_bool(mica_json_find(v, "individual_digits"), false);
        step.kind = PRE_DIGITS;
        step.behavior = is_individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        step.kind = PRE_PUNCTUATION;
        step.behavior = SPLIT_ISOLATED;
        if (mica_json_find_set(v, "behavior")) st = mica_step_behavior(l, v, &step.behavior, err);
    } else if (strcmp(type, "Whitespace") == 0) {
        step.kind = PRE_WHITESPACE;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        step.kind = PRE_WHITESPACE_ONLY;
    } else {
        return mica_step_refuse(l, "pre-tokenizer", type, err);
    }
    return st ? st : mica_pre_tokenizer_append(list, step, l, err);
}
