/* decoder_parse.c: decoders from tokenizer.json.
 *
 * What cannot run on a stream is refused by name: most steps behind one that turns tokens into
 * bytes or joins them, and steps that ask for the first token behind one that drops tokens.
 */
#include "text/tokenizer/decoder.h"

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

static mica_status parse_wordpiece(decoder *d, const json_value *v, const step_loader *l,
                                   mica_error *err) {
    decoder_step step = {.kind = DECODE_WORDPIECE};
    mica_status st = mica_step_string(l, v, "WordPiece decoder", "prefix", "##", &step.content,
                                      &step.n_content, err);
    step.cleans_up = mica_json_bool(mica_json_find(v, "cleanup"), true);
    return st ? st : mica_decoder_append(d, step, l, err);
}

static mica_status parse_suffix(decoder *d, const json_value *v, const step_loader *l,
                                mica_error *err) {
    decoder_step step = {.kind = DECODE_SUFFIX};
    mica_status st =
        mica_step_string(l, v, "BPEDecoder", "suffix", "</w>", &step.content, &step.n_content, err);
    if (st) return st;
    if (!step.n_content) return mica_step_refuse(l, "BPEDecoder suffix", "", err);
    d->needs_last = true;
    return mica_decoder_append(d, step, l, err);
}

static mica_status parse_ctc(decoder *d, const json_value *v, const step_loader *l,
                             mica_error *err) {
    decoder_step step = {.kind = DECODE_CTC};
    mica_status st = mica_step_string(l, v, "CTC decoder", "pad_token", "<pad>", &step.content,
                                      &step.n_content, err);
    if (st) return st;
    st = mica_step_string(l, v, "CTC decoder", "word_delimiter_token", "|", &step.delimiter,
                          &step.n_delimiter, err);
    if (st) return st;
    step.cleans_up = mica_json_bool(mica_json_find(v, "cleanup"), true);
    if (!step.n_content || !step.n_delimiter) {
        return mica_step_refuse(l, "decoder", "CTC with an empty token", err);
    }
    d->drops_tokens = true;
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
    if (strcmp(type, "CTC") == 0) return parse_ctc(d, v, l, err);
    if (d->drops_tokens) {
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: decoder \"%s\" is not supported behind CTC",
                         l->name, type);
    }
    if (strcmp(type, "Metaspace") == 0) return parse_metaspace(d, v, l, err);
    if (strcmp(type, "WordPiece") == 0) return parse_wordpiece(d, v, l, err);
    if (strcmp(type, "BPEDecoder") == 0) return parse_suffix(d, v, l, err);
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
