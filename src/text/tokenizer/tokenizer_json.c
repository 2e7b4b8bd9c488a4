/* tokenizer_json.c: a tokenizer from the bytes of tokenizer.json.
 *
 * The file may have 30 MB, nearly all of it vocabulary and merges: these are read event by event
 * into their tables, without a tree. The small parts are noted as spans and parsed once the
 * vocabulary is known. Truncation and padding are of no meaning here and are ignored; an unknown
 * type is an error.
 */
#include "text/tokenizer/json_load.h"
#include "text/tokenizer/token_cache.h"

static mica_status fail_format(const json_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: %s", load->t->name, what);
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
    if (event == JSON_STRING && json_is_key(r, "1.0")) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: \"version\" is not \"1.0\"", load->t->name);
}

static mica_status read_field(json_load *load, json_reader *r, mica_error *err) {
    if (json_is_key(r, "version")) return read_version(load, r, err);
    if (json_is_key(r, "model") && !load->has_model) return mica_json_load_model(load, r, err);
    if (json_is_key(r, "added_tokens")) return json_skip_span(r, &load->added, err);
    if (json_is_key(r, "normalizer")) return json_skip_span(r, &load->normalizer, err);
    if (json_is_key(r, "pre_tokenizer")) return json_skip_span(r, &load->pre_tokenizer, err);
    if (json_is_key(r, "post_processor")) return json_skip_span(r, &load->post_processor, err);
    if (json_is_key(r, "decoder")) return json_skip_span(r, &load->decoder, err);
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
    if (!st && load->restored) st = mica_token_cache_restore(load->restored, t, err);
    if (!st) st = mica_json_load_finish_model(load, err);
    if (!st && load->record) mica_token_cache_record_model(load->record, load);
    size_t n_model_ids = t->vocab.n_ids;
    if (!st) st = read_added_list(load, arena, err);
    if (!st) st = apply_config(load, config, n_config, arena, err);
    if (!st) st = parse_parts(load, arena, err);
    if (st) return st;
    mark_byte_level(t, n_model_ids);
    t->n_tokens = t->vocab.n_ids;
    if (t->bos < 0 && t->prefix.n == 1) t->bos = t->prefix.ids[0];
    st = mica_tokenizer_finish(t, err);
    if (!st && load->record) mica_token_cache_record_indices(load->record, t);
    return st;
}

mica_status mica_tokenizer_load_json(tokenizer **out, json_load load, const char *config,
                                     size_t n_config, const char *name, mica_error *err) {
    tokenizer *t = load.t = mica_tokenizer_new(name, err);
    if (!t) return MICA_E_NOMEM;
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

mica_status mica_tokenizer_parse(tokenizer **out, const char *json, size_t n_json,
                                 const char *config, size_t n_config, const char *name,
                                 mica_error *err) {
    json_load load = {.data = json, .n = n_json};
    return mica_tokenizer_load_json(out, load, config, n_config, name, err);
}
