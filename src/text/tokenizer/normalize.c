/* normalize.c: the normalizers of tokenizer.json, each from one buffer into the other.
 *
 * BertNormalizer and Precompiled belong to models of other kinds than this reader knows and are
 * refused by name.
 */
#include "text/tokenizer/normalize.h"

#include <utf8proc.h>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/char_class.h"
#include "text/tokenizer/codepoint.h"

/* ---- reading ---- */

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
                 {"ByteLevel", NORMALIZE_BYTES}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        *out = kinds[i].kind;
        return true;
    }
    return false;
}

mica_status mica_normalizer_parse(normalizer **list, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    mica_status st = MICA_OK;
    if (!v || v->kind == JSON_KIND_NULL) return MICA_OK;
    const char *type = mica_json_string(mica_json_find(v, "type"), "");
    if (strcmp(type, "Sequence") == 0) return parse_sequence(list, v, l, err);
    normalizer step = {0};
    if (!find_kind(type, &step.kind)) return mica_step_refuse(l, "normalizer", type, err);
    step.strip_left = mica_json_bool(mica_json_find(v, "strip_left"), true);
    step.strip_right = mica_json_bool(mica_json_find(v, "strip_right"), true);
    if (step.kind == NORMALIZE_REPLACE) {
        st = mica_step_pattern(l, v, "normalizer", &step.pattern, err);
        if (st) return st;
        st = mica_step_string(l, v, "normalizer", "content", NULL, &step.content, &step.n_content,
                              err);
    }
    if (step.kind == NORMALIZE_PREPEND) {
        st = mica_step_string(l, v, "normalizer", "prepend", NULL, &step.content, &step.n_content,
                              err);
    }
    return st ? st : mica_normalizer_append(list, step, l, err);
}

/* ---- running ---- */

void mica_normalized_text_deinit(normalized_text *t) {
    mica_text_buffer_deinit(&t->buffers[0]);
    mica_text_buffer_deinit(&t->buffers[1]);
    *t = (normalized_text){0};
}

/* The only character whose lower case has two is U+0130. */
static mica_status lowercase(const char *text, size_t n, text_buffer *out, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, 3 * n, err);
    if (st) return st;
    for (size_t i = 0, width; i < n; i += width) {
        uint32_t c = utf8_read(text + i, &width);
        if (c == 0x130) {
            text_put_char(out, 'i');
            text_put_char(out, 0x307);
        } else if (c < 0x80) {
            out->data[out->n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        } else {
            text_put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        }
    }
    return MICA_OK;
}

static void strip(const normalizer *step, normalized_text *t) {
    size_t begin = 0, end = t->n, width;
    while (step->strip_left && begin < end) {
        if (!mica_char_is_space(utf8_read(t->text + begin, &width))) break;
        begin += width;
    }
    while (step->strip_right && end > begin) {
        size_t last = utf8_back(t->text, end);
        if (!mica_char_is_space(utf8_read(t->text + last, &width))) break;
        end = last;
    }
    if (begin) t->keeps_head = false;
    t->text += begin;
    t->n = end - begin;
}

static bool is_nmt_deleted(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool is_nmt_space(uint32_t c) {
    return c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

static mica_status filter(const normalizer *step, normalized_text *t, text_buffer *out,
                          mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, t->n, err);
    if (st) return st;
    for (size_t i = 0, width; i < t->n; i += width) {
        uint32_t c = utf8_read(t->text + i, &width);
        bool is_nmt = step->kind == NORMALIZE_NMT;
        if (is_nmt ? is_nmt_deleted(c) : mica_char_is_mark(c)) {
            if (i == 0) t->keeps_head = false;
        } else if (is_nmt && is_nmt_space(c)) {
            out->data[out->n++] = ' ';
        } else {
            text_put_bytes(out, t->text + i, width);
        }
    }
    return MICA_OK;
}

static bool begins_with_match(const normalizer *step, const step_scratch *scratch,
                              const normalized_text *t) {
    const text_pattern *p = &step->pattern;
    if (!p->regex) return t->n >= p->n_literal && memcmp(t->text, p->literal, p->n_literal) == 0;
    const text_piece *first = scratch->matches.n ? &scratch->matches.items[0] : NULL;
    return first && first->is_match && first->end > first->begin;
}

static mica_status replace(const normalizer *step, step_scratch *scratch, normalized_text *t,
                           text_buffer *out, mica_error *err) {
    mica_status st = mica_pattern_replace(&step->pattern, &scratch->regex, &scratch->matches,
                                          step->content, step->n_content, t->text, t->n, out, err);
    if (!step->n_content && begins_with_match(step, scratch, t)) t->keeps_head = false;
    return st;
}

static mica_status run_step(const normalizer *step, step_scratch *scratch, normalized_text *t,
                            text_buffer *out, mica_error *err) {
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        return mica_normalize_unicode(step->kind, t->text, t->n, out, err);
    case NORMALIZE_LOWERCASE:
        return lowercase(t->text, t->n, out, err);
    case NORMALIZE_STRIP_ACCENTS:
    case NORMALIZE_NMT:
        return filter(step, t, out, err);
    case NORMALIZE_REPLACE:
        return replace(step, scratch, t, out, err);
    case NORMALIZE_PREPEND: {
        mica_status st = MICA_OK;
        if (t->n) st = mica_text_buffer_append(out, step->content, step->n_content, err);
        return st ? st : mica_text_buffer_append(out, t->text, t->n, err);
    }
    case NORMALIZE_BYTES:
        return mica_byte_alphabet_map(out, t->text, t->n, err);
    case NORMALIZE_STRIP:
        break; /* moves the ends only */
    }
    return MICA_OK;
}

mica_status mica_normalize(const normalizer *list, step_scratch *scratch, const char *text,
                           size_t n, normalized_text *t, mica_error *err) {
    t->text = text;
    t->n = n;
    t->keeps_head = true;
    int side = 0;
    for (const normalizer *step = list; step; step = step->next) {
        if (step->kind == NORMALIZE_STRIP) {
            strip(step, t);
            continue;
        }
        text_buffer *out = &t->buffers[side];
        out->n = 0;
        mica_status st = run_step(step, scratch, t, out, err);
        if (st) return st;
        t->text = out->data ? out->data : "";
        t->n = out->n;
        side = !side;
    }
    return MICA_OK;
}
