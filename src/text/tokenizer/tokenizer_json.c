/* tokenizer_json.c: a tokenizer from the bytes of tokenizer.json.
 *
 * The file may have 30 MB, nearly all of it vocabulary and merges: these are read event by event
 * into their tables, without a tree. The small parts are noted as spans and parsed once the
 * vocabulary is known. Truncation and padding are of no meaning here and are ignored; an unknown
 * type is an error.
 */
#include "text/tokenizer/impl.h"

typedef struct json_span {
    size_t begin, end; /* end 0: absent */
} json_span;

typedef struct json_load {
    tokenizer *t;
    const char *data;
    size_t n;
    json_span added, normalizer, pre_tokenizer, post_processor, decoder, merges;
    bool has_model, has_vocab, has_merges;
    char type[32]; /* of the model, "" if it does not say */
} json_load;

static mica_status fail_format(const json_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: %s", load->t->name, what);
}

static bool is_key(const json_reader *r, const char *key) {
    return r->n_text == strlen(key) && memcmp(r->text, key, r->n_text) == 0;
}

/* Notes where the value after a key is and moves past it. */
static mica_status skip_span(json_reader *r, json_span *out, mica_error *err) {
    out->begin = r->pos;
    mica_status st = mica_json_skip(r, err);
    out->end = r->pos;
    return st;
}

/* ---- vocabulary and merges ---- */

static mica_status read_vocab(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event == JSON_ARRAY_BEGIN) {
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: model \"Unigram\" is not supported",
                         load->t->name);
    }
    if (event != JSON_OBJECT_BEGIN) return fail_format(load, "\"vocab\" is no object", err);
    text_buffer key = {0};
    while (!(st = mica_json_next(r, &event, err)) && event == JSON_KEY) {
        key.n = 0;
        if ((st = mica_text_buffer_append(&key, r->text, r->n_text, err))) break;
        if ((st = mica_json_next(r, &event, err))) break;
        int64_t id;
        if (event != JSON_NUMBER || !mica_json_text_i64(r, &id) || id < 0) {
            st = fail_format(load, "an id in \"vocab\" is no whole number from 0", err);
            break;
        }
        st = mica_vocab_add(&load->t->vocab, (size_t)id, key.data, key.n, TOKEN_NORMAL, err);
        if (st) break;
    }
    mica_text_buffer_deinit(&key);
    load->has_vocab = true;
    return st;
}

/* The id of a merged text; its right part loses the prefix that marks it as a continuation. */
static int32_t find_joined(const tokenizer *t, const char *left, size_t n_left, const char *right,
                           size_t n_right) {
    char text[2 * 1024];
    size_t n_prefix = strlen(t->bpe.prefix);
    if (n_prefix && n_right >= n_prefix && memcmp(right, t->bpe.prefix, n_prefix) == 0) {
        right += n_prefix;
        n_right -= n_prefix;
    }
    if (n_left + n_right > sizeof(text)) return -1;
    text_buffer whole = {.data = text, .capacity = sizeof(text)};
    text_put_bytes(&whole, left, n_left);
    text_put_bytes(&whole, right, n_right);
    return mica_vocab_find(&t->vocab, text, whole.n);
}

static mica_status add_merge(json_load *load, const char *left, size_t n_left, const char *right,
                             size_t n_right, mica_error *err) {
    tokenizer *t = load->t;
    int32_t ids[3] = {mica_vocab_find(&t->vocab, left, n_left),
                      mica_vocab_find(&t->vocab, right, n_right),
                      find_joined(t, left, n_left, right, n_right)};
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0) {
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: merge %zu, \"%.*s\" + \"%.*s\", has a part or a result that is not "
                         "in the vocabulary",
                         t->name, t->bpe.n_merges, (int)(n_left < 60 ? n_left : 60), left,
                         (int)(n_right < 60 ? n_right : 60), right);
    }
    bpe_merge merge = {(uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)ids[2]};
    return mica_bpe_add_merge(&t->bpe, merge, err);
}

/* "left right" with exactly one space. */
static mica_status add_merge_line(json_load *load, const char *line, size_t n, mica_error *err) {
    if (n >= 8 && memcmp(line, "#version", 8) == 0) return MICA_OK;
    const char *space = memchr(line, ' ', n);
    size_t n_left = space ? (size_t)(space - line) : 0;
    if (!space || memchr(space + 1, ' ', n - n_left - 1)) {
        return mica_fail(err, MICA_E_FORMAT, "%s: merge %zu, \"%.*s\", is not two parts",
                         load->t->name, load->t->bpe.n_merges, (int)(n < 60 ? n : 60), line);
    }
    return add_merge(load, line, n_left, space + 1, n - n_left - 1, err);
}

/* ["left", "right"]; the bracket is read. */
static mica_status add_merge_pair(json_load *load, json_reader *r, text_buffer *left,
                                  mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_STRING) return fail_format(load, "a merge is no pair of strings", err);
    left->n = 0;
    if ((st = mica_text_buffer_append(left, r->text, r->n_text, err))) return st;
    if ((st = mica_json_next(r, &event, err))) return st;
    if (event != JSON_STRING) return fail_format(load, "a merge is no pair of strings", err);
    if ((st = add_merge(load, left->data, left->n, r->text, r->n_text, err))) return st;
    if ((st = mica_json_next(r, &event, err))) return st;
    return event == JSON_ARRAY_END ? MICA_OK
                                   : fail_format(load, "a merge is no pair of strings", err);
}

static mica_status read_merges(json_load *load, mica_error *err) {
    json_reader r;
    json_event event;
    text_buffer left = {0};
    if (!load->merges.end) return fail_format(load, "model \"BPE\" lacks its \"merges\"", err);
    mica_json_reader_init(&r, load->data + load->merges.begin,
                          load->merges.end - load->merges.begin, load->t->name);
    mica_status st = mica_json_next(&r, &event, err);
    if (!st && event != JSON_ARRAY_BEGIN) st = fail_format(load, "\"merges\" is no array", err);
    while (!st && !(st = mica_json_next(&r, &event, err)) && event != JSON_ARRAY_END) {
        if (event == JSON_STRING) {
            st = add_merge_line(load, r.text, r.n_text, err);
        } else if (event == JSON_ARRAY_BEGIN) {
            st = add_merge_pair(load, &r, &left, err);
        } else {
            st = fail_format(load, "a merge is no pair of strings", err);
        }
    }
    mica_text_buffer_deinit(&left);
    mica_json_reader_deinit(&r);
    return st;
}

/* ---- the model ---- */

/* A string of the model, or NULL for null. */
static mica_status read_string(json_load *load, json_reader *r, const char **out, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    *out = NULL;
    if (event == JSON_NULL) return MICA_OK;
    if (event != JSON_STRING) return fail_format(load, "a field of the model is no string", err);
    step_loader l = mica_tokenizer_loader(load->t);
    return mica_step_copy(&l, r->text, r->n_text, out, err);
}

static mica_status read_flag(json_load *load, json_reader *r, bool *out, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    *out = event == JSON_TRUE;
    bool is_flag = event == JSON_TRUE || event == JSON_FALSE || event == JSON_NULL;
    return is_flag ? MICA_OK : fail_format(load, "a flag of the model is no boolean", err);
}

static mica_status read_type(json_load *load, json_reader *r, mica_error *err) {
    const char *type;
    mica_status st = read_string(load, r, &type, err);
    if (st || !type) return st;
    if (strcmp(type, "BPE") == 0) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: model \"%s\" is not supported", load->t->name,
                     type);
}

/* The field whose key was just read. */
static mica_status read_model_field(json_load *load, json_reader *r, mica_error *err) {
    bpe_model *bpe = &load->t->bpe;
    const char *text;
    mica_status st;
    if (is_key(r, "type")) return read_type(load, r, err);
    if (is_key(r, "vocab") && !load->has_vocab) return read_vocab(load, r, err);
    if (is_key(r, "merges")) return skip_span(r, &load->merges, err);
    if (is_key(r, "unk_token")) return read_string(load, r, &bpe->unk_text, err);
    if (is_key(r, "fuse_unk")) return read_flag(load, r, &bpe->fuse_unk, err);
    if (is_key(r, "byte_fallback")) return read_flag(load, r, &bpe->byte_fallback, err);
    if (is_key(r, "ignore_merges")) return read_flag(load, r, &bpe->ignore_merges, err);
    if (is_key(r, "continuing_subword_prefix")) {
        if ((st = read_string(load, r, &text, err))) return st;
        bpe->prefix = text ? text : "";
        return MICA_OK;
    }
    if (is_key(r, "end_of_word_suffix")) {
        if ((st = read_string(load, r, &text, err))) return st;
        bpe->suffix = text ? text : "";
        return MICA_OK;
    }
    return mica_json_skip(r, err); /* dropout: for training only */
}

static mica_status read_model(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_OBJECT_BEGIN) return fail_format(load, "\"model\" is no object", err);
    load->has_model = true;
    while (!(st = mica_json_next(r, &event, err)) && event == JSON_KEY) {
        if ((st = read_model_field(load, r, err))) return st;
    }
    return st;
}

static mica_status finish_model(json_load *load, mica_error *err) {
    bpe_model *bpe = &load->t->bpe;
    if (!load->has_model || !load->has_vocab) return fail_format(load, "no model vocabulary", err);
    bpe->later_rank_wins = true;
    mica_status st = read_merges(load, err);
    if (!st && bpe->unk_text) {
        bpe->unk_id = mica_vocab_find(&load->t->vocab, bpe->unk_text, strlen(bpe->unk_text));
    }
    return st;
}

/* ---- the small parts ---- */

static mica_status parse_span(const json_load *load, json_span span, mica_arena *arena,
                              const json_value **out, mica_error *err) {
    json_value *value = NULL;
    mica_status st = MICA_OK;
    if (span.end) {
        st = mica_json_parse(&value, load->data + span.begin, span.end - span.begin, load->t->name,
                             false, arena, err);
    }
    *out = value;
    return st;
}

static mica_status read_added_list(json_load *load, mica_arena *arena, mica_error *err) {
    const json_value *list;
    mica_status st = parse_span(load, load->added, arena, &list, err);
    if (st || !list || list->kind == JSON_KIND_NULL) return st;
    if (list->kind != JSON_KIND_ARRAY)
        return fail_format(load, "\"added_tokens\" is no array", err);
    for (size_t i = 0; i < list->n && !st; i++) {
        int64_t id = mica_json_i64(mica_json_find(list->items[i], "id"), -1);
        st = mica_tokenizer_read_added(load->t, list->items[i], id, err);
    }
    return st;
}

static mica_status template_ids(json_load *load, const json_value *tokens, const char *name,
                                token_list *out, mica_error *err) {
    const json_value *ids = mica_json_find_set(mica_json_find(tokens, name), "ids");
    if (!ids || ids->kind != JSON_KIND_ARRAY) {
        return mica_fail(err, MICA_E_FORMAT, "%s: the post-processor's token \"%s\" has no ids",
                         load->t->name, name);
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < ids->n && !st; i++) {
        int64_t id = mica_json_i64(ids->items[i], -1);
        if (!vocab_has_token(&load->t->vocab, id)) {
            return mica_fail(err, MICA_E_FORMAT,
                             "%s: the post-processor's token \"%s\" has an id that is not in the "
                             "vocabulary",
                             load->t->name, name);
        }
        st = mica_token_list_push(out, (int32_t)id, err);
    }
    return st;
}

/* ids + what is there already. */
static mica_status put_in_front(token_list *list, token_list *ids, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < list->n && !st; i++) {
        st = mica_token_list_push(ids, list->ids[i], err);
    }
    token_list old = *list;
    *list = *ids;
    *ids = old;
    return st;
}

static mica_status parse_template(json_load *load, const json_value *v, mica_error *err) {
    const json_value *items = mica_json_find_set(v, "single");
    const json_value *tokens = mica_json_find_set(v, "special_tokens");
    token_list before = {0};
    mica_status st = MICA_OK;
    size_t n_sequences = 0;
    if (!items || items->kind != JSON_KIND_ARRAY) {
        return fail_format(load, "a TemplateProcessing lacks \"single\"", err);
    }
    for (size_t i = 0; i < items->n && !st; i++) {
        const json_value *special = mica_json_find(items->items[i], "SpecialToken");
        const json_value *sequence = mica_json_find(items->items[i], "Sequence");
        if (special) {
            const char *name = mica_json_string(mica_json_find(special, "id"), "");
            token_list *out = n_sequences ? &load->t->suffix : &before;
            st = template_ids(load, tokens, name, out, err);
        } else if (sequence &&
                   strcmp(mica_json_string(mica_json_find(sequence, "id"), ""), "A") == 0) {
            n_sequences++;
        } else {
            st = fail_format(load, "a TemplateProcessing has an item of unknown kind", err);
        }
    }
    if (!st && n_sequences != 1) st = fail_format(load, "a template without its one text", err);
    if (!st) st = put_in_front(&load->t->prefix, &before, err);
    mica_free(before.ids);
    return st;
}

/* ["</s>", 2]: BertProcessing and RobertaProcessing. */
static mica_status push_named_pair(json_load *load, const json_value *v, const char *key,
                                   token_list *out, mica_error *err) {
    const json_value *pair = mica_json_find_set(v, key);
    bool is_pair = pair && pair->kind == JSON_KIND_ARRAY && pair->n == 2;
    int64_t id = is_pair ? mica_json_i64(pair->items[1], -1) : -1;
    if (!vocab_has_token(&load->t->vocab, id)) {
        return mica_fail(err, MICA_E_FORMAT, "%s: the post-processor's \"%s\" is no known token",
                         load->t->name, key);
    }
    return mica_token_list_push(out, (int32_t)id, err);
}

static mica_status parse_pair_processor(json_load *load, const json_value *v, mica_error *err) {
    token_list before = {0};
    mica_status st = push_named_pair(load, v, "cls", &before, err);
    if (!st) st = push_named_pair(load, v, "sep", &load->t->suffix, err);
    if (!st) st = put_in_front(&load->t->prefix, &before, err);
    mica_free(before.ids);
    return st;
}

static mica_status parse_post_processor(json_load *load, const json_value *v, mica_error *err) {
    if (!v || v->kind == JSON_KIND_NULL) return MICA_OK;
    const char *type = mica_json_string(mica_json_find(v, "type"), "");
    if (strcmp(type, "ByteLevel") == 0) return MICA_OK; /* moves offsets only */
    if (strcmp(type, "TemplateProcessing") == 0) return parse_template(load, v, err);
    bool is_pair = strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0;
    if (is_pair) return parse_pair_processor(load, v, err);
    if (strcmp(type, "Sequence") != 0) {
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: post-processor \"%s\" is not supported",
                         load->t->name, type);
    }
    const json_value *items = mica_json_find_set(v, "processors");
    if (!items || items->kind != JSON_KIND_ARRAY) {
        return fail_format(load, "a Sequence lacks its \"processors\"", err);
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < items->n && !st; i++) {
        st = parse_post_processor(load, items->items[i], err);
    }
    return st;
}

/* A byte-level vocabulary takes any bytes, and its added tokens print as they are spelt: they were
 * never put through the alphabet. */
static void mark_byte_level(tokenizer *t, size_t n_model_ids) {
    for (const normalizer *s = t->normalizers; s; s = s->next) {
        t->is_byte_level = t->is_byte_level || s->kind == NORMALIZE_BYTES;
    }
    for (const pre_tokenizer *s = t->pre_tokenizers; s; s = s->next) {
        t->is_byte_level = t->is_byte_level || s->kind == PRE_BYTES;
    }
    if (t->decoder.bytes != BYTES_ALPHABET) return;
    for (size_t i = n_model_ids; i < t->vocab.n_ids; i++) {
        t->vocab.kind[i] |= t->vocab.kind[i] & TOKEN_ADDED ? TOKEN_LITERAL : 0;
    }
}

static mica_status parse_parts(json_load *load, mica_arena *arena, mica_error *err) {
    tokenizer *t = load->t;
    step_loader l = mica_tokenizer_loader(t);
    const json_value *v;
    mica_status st = parse_span(load, load->normalizer, arena, &v, err);
    if (!st) st = mica_normalizer_parse(&t->normalizers, v, &l, err);
    if (!st) st = parse_span(load, load->pre_tokenizer, arena, &v, err);
    if (!st) st = mica_pre_tokenizer_parse(&t->pre_tokenizers, v, &l, err);
    if (!st) st = parse_span(load, load->post_processor, arena, &v, err);
    if (!st) st = parse_post_processor(load, v, err);
    if (!st) st = parse_span(load, load->decoder, arena, &v, err);
    return st ? st : mica_decoder_parse(&t->decoder, v, &l, err);
}

/* ---- the file ---- */

static mica_status read_version(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event == JSON_STRING && is_key(r, "1.0")) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: \"version\" is not \"1.0\"", load->t->name);
}

static mica_status read_field(json_load *load, json_reader *r, mica_error *err) {
    if (is_key(r, "version")) return read_version(load, r, err);
    if (is_key(r, "model") && !load->has_model) return read_model(load, r, err);
    if (is_key(r, "added_tokens")) return skip_span(r, &load->added, err);
    if (is_key(r, "normalizer")) return skip_span(r, &load->normalizer, err);
    if (is_key(r, "pre_tokenizer")) return skip_span(r, &load->pre_tokenizer, err);
    if (is_key(r, "post_processor")) return skip_span(r, &load->post_processor, err);
    if (is_key(r, "decoder")) return skip_span(r, &load->decoder, err);
    return mica_json_skip(r, err); /* truncation, padding */
}

static mica_status read_file(json_load *load, mica_error *err) {
    json_reader r;
    json_event event;
    mica_json_reader_init(&r, load->data, load->n, load->t->name);
    mica_status st = mica_json_next(&r, &event, err);
    if (!st && event != JSON_OBJECT_BEGIN) st = fail_format(load, "not a JSON object", err);
    while (!st && !(st = mica_json_next(&r, &event, err)) && event == JSON_KEY) {
        st = read_field(load, &r, err);
    }
    if (!st) st = mica_json_next(&r, &event, err); /* nothing may follow */
    mica_json_reader_deinit(&r);
    return st;
}

static mica_status apply_config(json_load *load, const char *config, size_t n_config,
                                mica_arena *arena, mica_error *err) {
    json_value *v = NULL;
    if (!config) return MICA_OK;
    mica_status st =
        mica_json_parse(&v, config, n_config, "tokenizer_config.json", true, arena, err);
    return st ? st : mica_tokenizer_apply_config(load->t, v, err);
}

static mica_status load_all(json_load *load, const char *config, size_t n_config, mica_arena *arena,
                            mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = read_file(load, err);
    if (!st) st = finish_model(load, err);
    size_t n_model_ids = t->vocab.n_ids;
    if (!st) st = read_added_list(load, arena, err);
    if (!st) st = apply_config(load, config, n_config, arena, err);
    if (!st) st = parse_parts(load, arena, err);
    if (st) return st;
    mark_byte_level(t, n_model_ids);
    t->n_tokens = t->vocab.n_ids;
    if (t->bos < 0 && t->prefix.n == 1) t->bos = t->prefix.ids[0];
    return mica_tokenizer_finish(t, err);
}

mica_status mica_tokenizer_parse(tokenizer **out, const char *json, size_t n_json,
                                 const char *config, size_t n_config, const char *name,
                                 mica_error *err) {
    tokenizer *t = mica_tokenizer_new(name, err);
    if (!t) return MICA_E_NOMEM;
    json_load load = {.t = t, .data = json, .n = n_json};
    mica_arena arena;
    mica_arena_init(&arena, 0);
    mica_status st = load_all(&load, config, n_config, &arena, err);
    mica_arena_deinit(&arena);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}
