/* decoder.c: reading decoders and running their per-token part.
 *
 * WordPiece, BPEDecoder and CTC belong to models that this reader does not know and are refused by
 * name, as is any step behind one that turns tokens into bytes.
 */
#include "text/tokenizer/decoder.h"

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/codepoint.h"

/* ---- reading ---- */

mica_status mica_decoder_append(decoder *d, decoder_step step, const step_loader *l,
                                mica_error *err) {
    decoder_step *copy = mica_arena_alloc(l->arena, sizeof(*copy));
    if (!copy) return mica_step_no_memory(l, err);
    *copy = step;
    copy->next = NULL;
    decoder_step **tail = &d->steps;
    while (*tail) {
        tail = &(*tail)->next;
    }
    *tail = copy;
    return MICA_OK;
}

/* A Strip behind Fuse: only the head, only one ASCII character, only once. */
static mica_status set_fused_strip(decoder *d, const decoder_step *step, const step_loader *l,
                                   mica_error *err) {
    if (step->n_stop || step->n_content != 1 || d->n_strip || (uint8_t)step->content[0] >= 0x80) {
        return mica_step_refuse(l, "decoder", "Strip of this kind behind Fuse", err);
    }
    d->strip_char = step->content[0];
    d->n_strip = step->n_start;
    return MICA_OK;
}

static mica_status parse_strip(decoder *d, const json_value *v, const step_loader *l,
                               mica_error *err) {
    decoder_step step = {.kind = DECODE_STRIP};
    mica_status st = mica_step_string(l, v, "Strip decoder", "content", NULL, &step.content,
                                      &step.n_content, err);
    if (st) return st;
    int64_t n_start = mica_json_i64(mica_json_find(v, "start"), 0);
    int64_t n_stop = mica_json_i64(mica_json_find(v, "stop"), 0);
    if (n_start < 0 || n_stop < 0 || !step.n_content) {
        return mica_step_refuse(l, "decoder", "Strip with these values", err);
    }
    step.n_start = (size_t)n_start;
    step.n_stop = (size_t)n_stop;
    if (d->is_fused) return set_fused_strip(d, &step, l, err);
    return mica_decoder_append(d, step, l, err);
}

static mica_status parse_replace(decoder *d, const json_value *v, const step_loader *l,
                                 mica_error *err) {
    decoder_step step = {.kind = DECODE_REPLACE};
    mica_status st = mica_step_pattern(l, v, "Replace decoder", &step.pattern, err);
    if (st) return st;
    st = mica_step_string(l, v, "Replace decoder", "content", NULL, &step.content, &step.n_content,
                          err);
    return st ? st : mica_decoder_append(d, step, l, err);
}

static mica_status parse_metaspace(decoder *d, const json_value *v, const step_loader *l,
                                   mica_error *err) {
    decoder_step step = {.kind = DECODE_METASPACE};
    mica_status st = mica_step_string(l, v, "Metaspace decoder", "replacement", "\xE2\x96\x81",
                                      &step.content, &step.n_content, err);
    if (st) return st;
    bool has_prefix = mica_json_bool(mica_json_find(v, "add_prefix_space"), true);
    const char *scheme =
        mica_json_string(mica_json_find(v, "prepend_scheme"), has_prefix ? "always" : "never");
    step.is_first_cut = strcmp(scheme, "never") != 0;
    if (!step.n_content) return mica_step_refuse(l, "Metaspace replacement", "", err);
    return mica_decoder_append(d, step, l, err);
}

static mica_status parse_step(decoder *d, const json_value *v, const step_loader *l,
                              mica_error *err);

static mica_status parse_sequence(decoder *d, const json_value *v, const step_loader *l,
                                  mica_error *err) {
    const json_value *items = mica_json_find_set(v, "decoders");
    if (!items || items->kind != JSON_KIND_ARRAY) {
        return mica_fail(err, MICA_E_FORMAT, "%s: a Sequence lacks its \"decoders\"", l->name);
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < items->n && !st; i++) {
        st = parse_step(d, items->items[i], l, err);
    }
    return st;
}

static mica_status parse_step(decoder *d, const json_value *v, const step_loader *l,
                              mica_error *err) {
    const char *type = mica_json_string(mica_json_find(v, "type"), "");
    if (strcmp(type, "Sequence") == 0) return parse_sequence(d, v, l, err);
    if (strcmp(type, "Fuse") == 0) {
        d->is_fused = true;
        return MICA_OK;
    }
    if (strcmp(type, "Strip") == 0 && (d->is_fused || !d->bytes)) return parse_strip(d, v, l, err);
    if (d->is_fused || d->bytes) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: decoder \"%s\" is not supported behind Fuse or byte decoders",
                         l->name, type);
    }
    if (strcmp(type, "Replace") == 0) return parse_replace(d, v, l, err);
    if (strcmp(type, "Metaspace") == 0) return parse_metaspace(d, v, l, err);
    if (strcmp(type, "ByteFallback") == 0) {
        d->bytes = BYTES_FALLBACK;
        return MICA_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        d->bytes = BYTES_ALPHABET;
        d->is_fused = true;
        return MICA_OK;
    }
    return mica_step_refuse(l, "decoder", type, err);
}

mica_status mica_decoder_parse(decoder *out, const json_value *v, const step_loader *l,
                               mica_error *err) {
    *out = (decoder){0};
    if (!v || v->kind == JSON_KIND_NULL) {
        out->joins_with_space = true;
        return MICA_OK;
    }
    return parse_step(out, v, l, err);
}

/* ---- running ---- */

void mica_decoder_scratch_deinit(decoder_scratch *s) {
    mica_step_scratch_deinit(&s->steps);
    mica_text_buffer_deinit(&s->buffers[0]);
    mica_text_buffer_deinit(&s->buffers[1]);
}

static void strip(const decoder_step *step, const char **text, size_t *n) {
    size_t n_content = step->n_content;
    for (size_t i = 0; i < step->n_start && *n >= n_content; i++) {
        if (memcmp(*text, step->content, n_content) != 0) break;
        *text += n_content;
        *n -= n_content;
    }
    for (size_t i = 0; i < step->n_stop && *n >= n_content; i++) {
        if (memcmp(*text + *n - n_content, step->content, n_content) != 0) break;
        *n -= n_content;
    }
}

static mica_status run_step(const decoder_step *step, decoder_scratch *s, text_buffer *out,
                            bool is_first, const char *text, size_t n, mica_error *err) {
    text_pattern pattern = step->pattern;
    const char *content = step->content;
    size_t n_content = step->n_content;
    if (step->kind == DECODE_METASPACE) {
        pattern = (text_pattern){.literal = step->content, .n_literal = step->n_content};
        content = " ";
        n_content = step->is_first_cut && is_first ? 0 : 1;
    }
    out->n = 0;
    mica_status st = mica_text_buffer_reserve(out, 1, err);
    if (st) return st;
    return mica_pattern_replace(&pattern, &s->steps.regex, &s->steps.matches, content, n_content,
                                text, n, out, err);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

int mica_fallback_byte(const char *text, size_t n) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static mica_status to_bytes(const decoder *d, text_buffer *out, const char **text, size_t *n,
                            mica_error *err) {
    out->n = 0;
    mica_status st = mica_text_buffer_reserve(out, *n + 1, err);
    if (st) return st;
    int byte = d->bytes == BYTES_FALLBACK ? mica_fallback_byte(*text, *n) : -1;
    if (byte >= 0) {
        out->data[out->n++] = (char)byte;
    } else if (d->bytes == BYTES_FALLBACK || !mica_byte_alphabet_unmap(out, *text, *n)) {
        return MICA_OK;
    }
    *text = out->data;
    *n = out->n;
    return MICA_OK;
}

mica_status mica_decoder_run(const decoder *d, decoder_scratch *s, const char *text, size_t n,
                             bool is_first, const char **out, size_t *n_out, mica_error *err) {
    mica_status st;
    int side = 0;
    for (const decoder_step *step = d->steps; step; step = step->next) {
        if (step->kind == DECODE_STRIP) {
            strip(step, &text, &n);
            continue;
        }
        text_buffer *to = &s->buffers[side];
        if ((st = run_step(step, s, to, is_first, text, n, err))) return st;
        text = to->data;
        n = to->n;
        side = !side;
    }
    if (d->bytes && (st = to_bytes(d, &s->buffers[side], &text, &n, err))) return st;
    *out = text;
    *n_out = n;
    return MICA_OK;
}
