/* tokenizer_json_model.c: the model of a tokenizer.json.
 *
 * Vocabulary and merges go event by event into their tables, without a tree. Merges need the whole
 * vocabulary and are read in a second pass over their part of the file.
 */
#include <math.h>

#include "text/tokenizer/json_load.h"

static mica_status fail_format(const json_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: %s", load->t->name, what);
}

/* ---- vocabulary and merges ---- */

/* ["piece", score]; the bracket is read. */
static mica_status read_scored(json_load *load, json_reader *r, mica_error *err) {
    tokenizer *t = load->t;
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_STRING) return fail_format(load, "a piece of \"vocab\" is no string", err);
    size_t id = t->unigram.n_scores;
    if ((st = mica_vocab_add(&t->vocab, id, r->text, r->n_text, TOKEN_NORMAL, err))) return st;
    if ((st = mica_json_next(r, &event, err))) return st;
    double score = event == JSON_NUMBER ? mica_json_text_double(r) : NAN;
    if (score != score) return fail_format(load, "a score in \"vocab\" is no number", err);
    if ((st = mica_unigram_push_score(&t->unigram, score, err))) return st;
    if ((st = mica_json_next(r, &event, err))) return st;
    return event == JSON_ARRAY_END ? MICA_OK
                                   : fail_format(load, "an entry of \"vocab\" is no pair", err);
}

static mica_status read_scored_list(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st;
    while (!(st = mica_json_next(r, &event, err)) && event != JSON_ARRAY_END) {
        if (event != JSON_ARRAY_BEGIN) {
            return fail_format(load, "an entry of \"vocab\" is no pair", err);
        }
        if ((st = read_scored(load, r, err))) return st;
    }
    return st;
}

static mica_status read_vocab(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    load->has_vocab = true;
    load->model.has_list = event == JSON_ARRAY_BEGIN;
    if (load->model.has_list) return read_scored_list(load, r, err);
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
    return st;
}

/* Merges wait in batches, so that the memory of many look-ups is on its way at once. A merge's
 * parts lie one behind the other in `text`; the right one may lack the prefix that marks a
 * continuation in the result. */
#define MERGE_BATCH 32

typedef struct waiting_merge {
    size_t begin, n_left, n_right;
    uint64_t hashes[3]; /* of left, right, result */
} waiting_merge;

typedef struct merge_batch {
    waiting_merge items[MERGE_BATCH];
    size_t n;
    text_buffer text;
    text_buffer joined; /* results that are not simply both parts */
} merge_batch;

/* The merged text: both parts, the right one without the prefix. */
static const char *joined_text(const tokenizer *t, merge_batch *batch, const waiting_merge *m,
                               size_t *n, mica_error *err) {
    const char *left = batch->text.data + m->begin, *right = left + m->n_left;
    size_t n_prefix = strlen(t->bpe.prefix);
    *n = m->n_left + m->n_right;
    bool has_prefix =
        n_prefix && m->n_right >= n_prefix && memcmp(right, t->bpe.prefix, n_prefix) == 0;
    if (!has_prefix) return left;
    batch->joined.n = 0;
    if (mica_text_buffer_reserve(&batch->joined, *n, err)) return NULL;
    text_put_bytes(&batch->joined, left, m->n_left);
    text_put_bytes(&batch->joined, right + n_prefix, m->n_right - n_prefix);
    *n -= n_prefix;
    return batch->joined.data;
}

static mica_status add_merge(json_load *load, merge_batch *batch, const waiting_merge *m,
                             mica_error *err) {
    tokenizer *t = load->t;
    size_t n_joined;
    const char *left = batch->text.data + m->begin, *right = left + m->n_left;
    const char *joined = joined_text(t, batch, m, &n_joined, err);
    if (!joined) return MICA_E_NOMEM;
    int32_t ids[3] = {mica_vocab_find_hashed(&t->vocab, left, m->n_left, m->hashes[0]),
                      mica_vocab_find_hashed(&t->vocab, right, m->n_right, m->hashes[1]),
                      mica_vocab_find_hashed(&t->vocab, joined, n_joined, m->hashes[2])};
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0) {
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: merge %zu, \"%.*s\" + \"%.*s\", has a part or a result that is not "
                         "in the vocabulary",
                         t->name, t->bpe.n_merges, (int)(m->n_left < 60 ? m->n_left : 60), left,
                         (int)(m->n_right < 60 ? m->n_right : 60), right);
    }
    bpe_merge merge = {(uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)ids[2]};
    return mica_bpe_add_merge(&t->bpe, merge, err);
}

static mica_status flush_merges(json_load *load, merge_batch *batch, mica_error *err) {
    const vocab *v = &load->t->vocab;
    mica_status st = MICA_OK;
    for (size_t i = 0; i < 3 * batch->n; i++) {
        vocab_prefetch_place(v, batch->items[i / 3].hashes[i % 3]);
    }
    for (size_t i = 0; i < 3 * batch->n; i++) {
        vocab_prefetch_text(v, batch->items[i / 3].hashes[i % 3]);
    }
    for (size_t i = 0; i < batch->n && !st; i++) {
        st = add_merge(load, batch, &batch->items[i], err);
    }
    batch->n = batch->text.n = 0;
    return st;
}

/* A merge whose left part and then right part, if it is not empty, are put behind batch->text. */
static mica_status put_merge(json_load *load, merge_batch *batch, size_t n_left, size_t n_right,
                             mica_error *err) {
    tokenizer *t = load->t;
    waiting_merge *m = &batch->items[batch->n++];
    size_t n_joined;
    *m = (waiting_merge){batch->text.n - n_left - n_right, n_left, n_right, {0}};
    const char *joined = joined_text(t, batch, m, &n_joined, err);
    if (!joined) return MICA_E_NOMEM;
    const char *left = batch->text.data + m->begin;
    m->hashes[0] = mica_text_hash(left, n_left);
    m->hashes[1] = mica_text_hash(left + n_left, n_right);
    m->hashes[2] = mica_text_hash(joined, n_joined);
    for (int i = 0; i < 3; i++) {
        vocab_prefetch_slot(&t->vocab, m->hashes[i]);
    }
    return batch->n == MERGE_BATCH ? flush_merges(load, batch, err) : MICA_OK;
}

/* "left right" with exactly one space. */
static mica_status put_line(json_load *load, merge_batch *batch, const char *line, size_t n,
                            mica_error *err) {
    if (n >= 8 && memcmp(line, "#version", 8) == 0) return MICA_OK;
    const char *space = memchr(line, ' ', n);
    size_t n_left = space ? (size_t)(space - line) : 0, n_right = space ? n - n_left - 1 : 0;
    if (!space || memchr(space + 1, ' ', n_right)) {
        return mica_fail(err, MICA_E_FORMAT, "%s: merge %zu, \"%.*s\", is not two parts",
                         load->t->name, load->t->bpe.n_merges + batch->n, (int)(n < 60 ? n : 60),
                         line);
    }
    mica_status st = mica_text_buffer_reserve(&batch->text, n, err);
    if (st) return st;
    text_put_bytes(&batch->text, line, n_left);
    text_put_bytes(&batch->text, space + 1, n_right);
    return put_merge(load, batch, n_left, n_right, err);
}

/* The string that must come next, behind batch->text. */
static mica_status put_part(json_load *load, json_reader *r, merge_batch *batch, size_t *n,
                            mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_STRING) return fail_format(load, "a merge is no pair of strings", err);
    *n = r->n_text;
    return mica_text_buffer_append(&batch->text, r->text, r->n_text, err);
}

/* ["left", "right"]; the bracket is read. */
static mica_status put_pair(json_load *load, json_reader *r, merge_batch *batch, mica_error *err) {
    json_event event;
    size_t n_left = 0, n_right = 0;
    mica_status st = put_part(load, r, batch, &n_left, err);
    if (!st) st = put_part(load, r, batch, &n_right, err);
    if (!st) st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_ARRAY_END) return fail_format(load, "a merge is no pair of strings", err);
    return put_merge(load, batch, n_left, n_right, err);
}

static mica_status read_list(json_load *load, json_reader *r, merge_batch *batch, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (!st && event != JSON_ARRAY_BEGIN) st = fail_format(load, "\"merges\" is no array", err);
    while (!st && !(st = mica_json_next(r, &event, err)) && event != JSON_ARRAY_END) {
        if (event == JSON_STRING) {
            st = put_line(load, batch, r->text, r->n_text, err);
        } else if (event == JSON_ARRAY_BEGIN) {
            st = put_pair(load, r, batch, err);
        } else {
            st = fail_format(load, "a merge is no pair of strings", err);
        }
    }
    return st ? st : flush_merges(load, batch, err);
}

static mica_status read_merges(json_load *load, json_reader *r, mica_error *err) {
    merge_batch *batch = mica_calloc(1, sizeof(*batch));
    if (!batch) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", load->t->name);
    load->t->bpe.prefix = load->model.prefix ? load->model.prefix : "";
    load->has_merges = true;
    mica_status st = read_list(load, r, batch, err);
    mica_text_buffer_deinit(&batch->text);
    mica_text_buffer_deinit(&batch->joined);
    mica_free(batch);
    return st;
}

/* Merges that came before what they need. */
static mica_status read_noted_merges(json_load *load, mica_error *err) {
    json_reader r;
    mica_json_reader_init(&r, load->data + load->merges.begin,
                          load->merges.end - load->merges.begin, load->t->name);
    mica_status st = read_merges(load, &r, err);
    mica_json_reader_deinit(&r);
    return st;
}

/* The value of "merges": at once if all that it needs is known, as in most files. */
static mica_status take_merges(json_load *load, json_reader *r, mica_error *err) {
    const json_model *m = &load->model;
    bool is_bpe = m->type && strcmp(m->type, "BPE") == 0;
    if (!is_bpe || !load->has_vocab || !m->has_prefix || load->merges.end) {
        return json_skip_span(r, &load->merges, err);
    }
    load->merges.begin = r->pos;
    mica_status st = read_merges(load, r, err);
    load->merges.end = r->pos;
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

/* A whole number from 0, or -1 for null. */
static mica_status read_count(json_load *load, json_reader *r, int64_t *out, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    *out = -1;
    if (event == JSON_NULL) return MICA_OK;
    bool is_count = event == JSON_NUMBER && mica_json_text_i64(r, out) && *out >= 0;
    return is_count ? MICA_OK : fail_format(load, "a field of the model is no whole number", err);
}

/* The field whose key was just read. */
static mica_status read_field(json_load *load, json_reader *r, mica_error *err) {
    json_model *m = &load->model;
    if (json_is_key(r, "type")) return read_string(load, r, &m->type, err);
    if (json_is_key(r, "vocab") && !load->has_vocab) {
        load->vocab.begin = r->pos;
        mica_status st = read_vocab(load, r, err);
        load->vocab.end = r->pos;
        return st;
    }
    if (json_is_key(r, "merges")) return take_merges(load, r, err);
    if (json_is_key(r, "unk_token")) return read_string(load, r, &m->unk_text, err);
    if (json_is_key(r, "unk_id")) return read_count(load, r, &m->unk_id, err);
    if (json_is_key(r, "fuse_unk")) return read_flag(load, r, &m->fuse_unk, err);
    if (json_is_key(r, "byte_fallback")) return read_flag(load, r, &m->byte_fallback, err);
    if (json_is_key(r, "ignore_merges")) return read_flag(load, r, &m->ignore_merges, err);
    if (json_is_key(r, "continuing_subword_prefix")) {
        m->has_prefix = true;
        return read_string(load, r, &m->prefix, err);
    }
    if (json_is_key(r, "end_of_word_suffix")) return read_string(load, r, &m->suffix, err);
    if (json_is_key(r, "max_input_chars_per_word")) return read_count(load, r, &m->max_chars, err);
    return mica_json_skip(r, err); /* dropout: for training only */
}

mica_status mica_json_load_model(json_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st = mica_json_next(r, &event, err);
    if (st) return st;
    if (event != JSON_OBJECT_BEGIN) return fail_format(load, "\"model\" is no object", err);
    load->has_model = true;
    load->model.unk_id = load->model.max_chars = -1;
    while (!(st = mica_json_next(r, &event, err)) && event == JSON_KEY) {
        if ((st = read_field(load, r, err))) return st;
    }
    return st;
}

/* -1 for NULL and unknown texts. */
static int32_t find_token(const json_load *load, const char *text) {
    return text ? mica_vocab_find(&load->t->vocab, text, strlen(text)) : -1;
}

static mica_status finish_bpe(json_load *load, mica_error *err) {
    const json_model *m = &load->model;
    bpe_model *bpe = &load->t->bpe;
    bpe->prefix = m->prefix ? m->prefix : "";
    bpe->suffix = m->suffix ? m->suffix : "";
    bpe->unk_text = m->unk_text;
    bpe->unk_id = find_token(load, m->unk_text);
    bpe->fuse_unk = m->fuse_unk;
    bpe->byte_fallback = m->byte_fallback;
    bpe->ignore_merges = m->ignore_merges;
    bpe->later_rank_wins = true;
    if (!load->merges.end) return fail_format(load, "model \"BPE\" lacks its \"merges\"", err);
    return load->has_merges ? MICA_OK : read_noted_merges(load, err);
}

static void finish_word(json_load *load, bool is_whole) {
    const json_model *m = &load->model;
    load->t->model = TOKENIZER_WORD;
    load->t->word = (word_model){
        .unk_text = m->unk_text ? m->unk_text
                    : is_whole  ? "<unk>"
                                : "[UNK]",
        .is_whole = is_whole,
        .head = "",
        .prefix = m->prefix  ? m->prefix
                  : is_whole ? ""
                             : "##",
        .max_chars = m->max_chars < 0 ? 100 : (uint64_t)m->max_chars,
    };
    load->t->word.unk_id = find_token(load, load->t->word.unk_text);
}

static mica_status finish_unigram(json_load *load, mica_error *err) {
    const json_model *m = &load->model;
    unigram_model *unigram = &load->t->unigram;
    load->t->model = TOKENIZER_UNIGRAM;
    if (m->unk_id >= 0 && (uint64_t)m->unk_id >= unigram->n_scores) {
        return fail_format(load, "\"unk_id\" is no piece of the vocabulary", err);
    }
    unigram->unk_id = (int32_t)m->unk_id;
    unigram->byte_fallback = m->byte_fallback;
    return MICA_OK;
}

/* Files from before "type" are told apart by their fields. */
static const char *model_type(const json_load *load) {
    const json_model *m = &load->model;
    if (m->type) return m->type;
    if (m->has_list) return "Unigram";
    if (load->merges.end || !m->unk_text) return "BPE";
    return m->max_chars >= 0 ? "WordPiece" : "WordLevel";
}

mica_status mica_json_load_finish_model(json_load *load, mica_error *err) {
    if (!load->has_model || !load->has_vocab) return fail_format(load, "no model vocabulary", err);
    const char *type = model_type(load);
    bool is_unigram = strcmp(type, "Unigram") == 0;
    if (is_unigram != load->model.has_list) {
        return mica_fail(err, MICA_E_FORMAT, "%s: the \"vocab\" of model \"%s\" is no %s",
                         load->t->name, type, is_unigram ? "list" : "object");
    }
    if (is_unigram) return finish_unigram(load, err);
    if (strcmp(type, "BPE") == 0) return finish_bpe(load, err);
    bool is_whole = strcmp(type, "WordLevel") == 0;
    if (is_whole || strcmp(type, "WordPiece") == 0) {
        finish_word(load, is_whole);
        return MICA_OK;
    }
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: model \"%s\" is not supported", load->t->name,
                     type);
}
