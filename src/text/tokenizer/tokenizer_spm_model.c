/* tokenizer_spm_model.c: a tokenizer from SentencePiece's own file, "tokenizer.model".
 *
 * The file is a protobuf message: pieces with score and type, a trainer's and a normalizer's
 * settings. BPE and Unigram models are read, word and character models are refused by name. Of the
 * many other fields none changes how text is cut. Sizes and numbers are checked as they are read.
 */
#include <float.h>

#include "base/dtype.h"
#include "text/tokenizer/codepoint.h"
#include "text/tokenizer/impl.h"

#define SPACE_MARK "\xE2\x96\x81"

/* ---- protobuf ---- */

typedef struct proto_reader {
    const uint8_t *data;
    size_t n, pos;
} proto_reader;

typedef struct proto_field {
    uint32_t number;
    uint64_t value;   /* of a varint or a fixed number */
    proto_reader sub; /* of a length-delimited one */
    bool is_bytes;
} proto_field;

static bool read_varint(proto_reader *r, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && r->pos < r->n; shift += 7) {
        uint8_t byte = r->data[r->pos++];
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(proto_reader *r, size_t n_bytes, uint64_t *out) {
    *out = 0;
    if (r->n - r->pos < n_bytes) return false;
    for (size_t i = 0; i < n_bytes; i++) {
        *out |= (uint64_t)r->data[r->pos++] << (8 * i);
    }
    return true;
}

/* False at the end and for what is no field; the end is r->pos == r->n. */
static bool next_field(proto_reader *r, proto_field *f) {
    uint64_t tag;
    size_t begin = r->pos;
    bool is_fine = false;
    *f = (proto_field){0};
    if (r->pos == r->n) return false;
    if (read_varint(r, &tag) && tag >> 3 && tag >> 3 < 1u << 29) {
        f->number = (uint32_t)(tag >> 3);
        f->is_bytes = (tag & 7) == 2;
        if ((tag & 7) == 0) is_fine = read_varint(r, &f->value);
        if ((tag & 7) == 1) is_fine = read_fixed(r, 8, &f->value);
        if ((tag & 7) == 5) is_fine = read_fixed(r, 4, &f->value);
        if (f->is_bytes && read_varint(r, &f->value) && f->value <= r->n - r->pos) {
            f->sub = (proto_reader){r->data + r->pos, (size_t)f->value, 0};
            r->pos += (size_t)f->value;
            is_fine = true;
        }
    }
    if (!is_fine) r->pos = begin; /* where it went wrong */
    return is_fine;
}

/* ---- the message ---- */

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

typedef struct spm_load {
    tokenizer *t;
    step_loader steps;
    uint64_t model_type;
    int64_t unk, bos, eos;
    proto_reader unk_surface, charsmap;
    bool byte_fallback;
    spm_spaces spaces;
    float *scores;
    size_t n_scores, capacity;
    float highest; /* of normal pieces, at least FLT_MIN as in SentencePiece */
} spm_load;

static mica_status fail_format(const spm_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: %s", load->t->name, what);
}

static mica_status check_end(const spm_load *load, const proto_reader *r, const char *part,
                             mica_error *err) {
    if (r->pos == r->n) return MICA_OK;
    return mica_fail(err, MICA_E_FORMAT, "%s: no protobuf field at byte %zu of its %s",
                     load->t->name, r->pos, part);
}

static uint8_t piece_flags(uint64_t type) {
    if (type == TOKEN_UNKNOWN || type == TOKEN_CONTROL) {
        return (uint8_t)type | TOKEN_SPECIAL | TOKEN_LITERAL;
    }
    return (uint8_t)type;
}

static mica_status read_piece(spm_load *load, proto_reader r, mica_error *err) {
    proto_field f;
    proto_reader text = {0};
    uint64_t type = TOKEN_NORMAL;
    float score = 0;
    while (next_field(&r, &f)) {
        if (f.number == 1 && f.is_bytes) text = f.sub;
        if (f.number == 2 && !f.is_bytes) score = mica_bits_f32((uint32_t)f.value);
        if (f.number == 3 && !f.is_bytes) type = f.value;
    }
    mica_status st = check_end(load, &r, "piece", err);
    if (st) return st;
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE || score != score) {
        return mica_fail(err, MICA_E_FORMAT, "%s: piece %zu has type %llu and score %g",
                         load->t->name, load->n_scores, (unsigned long long)type, (double)score);
    }
    void *grown = mica_text_grow(load->scores, &load->capacity, load->n_scores + 1, sizeof(score));
    if (!grown) return mica_step_no_memory(&load->steps, err);
    load->scores = grown;
    if (type == TOKEN_NORMAL && score > load->highest) load->highest = score;
    load->scores[load->n_scores] = score;
    return mica_vocab_add(&load->t->vocab, load->n_scores++, (const char *)text.data, text.n,
                          piece_flags(type), err);
}

static mica_status read_trainer(spm_load *load, proto_reader r, mica_error *err) {
    proto_field f;
    while (next_field(&r, &f)) {
        int64_t id = (int32_t)(uint32_t)f.value; /* negative ones are written as 64 bits */
        if (f.number == 3) load->model_type = f.value;
        if (f.number == 24) load->spaces.is_suffix = f.value != 0;
        if (f.number == 35) load->byte_fallback = f.value != 0;
        if (f.number == 40) load->unk = id;
        if (f.number == 41) load->bos = id;
        if (f.number == 42) load->eos = id;
        if (f.number == 44 && f.is_bytes) load->unk_surface = f.sub;
    }
    return check_end(load, &r, "trainer_spec", err);
}

static mica_status read_normalizer(spm_load *load, proto_reader r, mica_error *err) {
    proto_field f;
    while (next_field(&r, &f)) {
        if (f.number == 2 && f.is_bytes) load->charsmap = f.sub;
        if (f.number == 3) load->spaces.add_dummy_prefix = f.value != 0;
        if (f.number == 4) load->spaces.remove_extra = f.value != 0;
        if (f.number == 5) load->spaces.escape = f.value != 0;
    }
    return check_end(load, &r, "normalizer_spec", err);
}

static mica_status read_message(spm_load *load, proto_reader r, mica_error *err) {
    proto_field f;
    mica_status st = MICA_OK;
    while (!st && next_field(&r, &f)) {
        if (!f.is_bytes) continue;
        if (f.number == 1) st = read_piece(load, f.sub, err);
        if (f.number == 2) st = read_trainer(load, f.sub, err);
        if (f.number == 3) st = read_normalizer(load, f.sub, err);
    }
    return st ? st : check_end(load, &r, "message", err);
}

/* ---- the pipeline ---- */

static mica_status make_scores(spm_load *load, mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = MICA_OK;
    if (load->model_type == MODEL_BPE) {
        t->spm.ranks = mica_malloc(load->n_scores * sizeof(*t->spm.ranks) + 1);
        if (!t->spm.ranks) return mica_step_no_memory(&load->steps, err);
    }
    for (size_t i = 0; i < load->n_scores && !st; i++) {
        uint8_t kind = vocab_kind(&t->vocab, (int32_t)i);
        t->spm.has_unused = t->spm.has_unused || kind == TOKEN_UNUSED;
        if (load->model_type == MODEL_BPE) {
            t->spm.ranks[i] = mica_spm_rank(load->scores[i]);
            continue;
        }
        /* Scores are below 0, so this is worth more than nearly any way around it. */
        float score = load->scores[i];
        if (kind == TOKEN_USER) score = (float)t->vocab.len[i] * load->highest - 0.1f;
        st = mica_unigram_push_score(&t->unigram, (double)score, err);
    }
    return st;
}

/* The trie of user-defined pieces; NULL if there are none. */
static mica_status make_user_pieces(spm_load *load, mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = MICA_OK;
    for (size_t i = 0; i < load->n_scores && !st; i++) {
        size_t n;
        const char *text = vocab_text(&t->vocab, (int32_t)i, &n);
        bool is_user = vocab_kind(&t->vocab, (int32_t)i) == TOKEN_USER;
        if (!is_user || utf8_valid_prefix(text, n) != n) continue;
        st = mica_piece_trie_add(&t->user_pieces, text, n, (int32_t)i, err);
    }
    if (t->user_pieces.n_nodes) load->spaces.user = &t->user_pieces;
    return st;
}

static mica_status add_steps(spm_load *load, mica_error *err) {
    tokenizer *t = load->t;
    spm_spaces *spaces = mica_arena_alloc(&t->arena, sizeof(*spaces));
    if (!spaces) return mica_step_no_memory(&load->steps, err);
    *spaces = load->spaces;
    normalizer step = {.kind = NORMALIZE_SENTENCEPIECE, .spaces = spaces};
    mica_status st = mica_charsmap_read(&step.map, (const char *)load->charsmap.data,
                                        load->charsmap.n, &load->steps, err);
    if (!st) st = mica_normalizer_append(&t->normalizers, step, &load->steps, err);
    if (!st && spaces->user && load->model_type == MODEL_BPE) {
        pre_tokenizer cut = {
            .kind = PRE_PIECES, .behavior = SPLIT_ISOLATED, .pieces = spaces->user};
        st = mica_pre_tokenizer_append(&t->pre_tokenizers, cut, &load->steps, err);
    }
    decoder_step head = {.kind = DECODE_HEAD, .content = SPACE_MARK, .n_content = 3};
    head.is_first_cut = !spaces->remove_extra;
    bool has_head = spaces->add_dummy_prefix || spaces->remove_extra;
    if (!st && has_head) st = mica_decoder_append(&t->decoder, head, &load->steps, err);
    decoder_step back = {.kind = DECODE_REPLACE, .content = " ", .n_content = 1};
    back.pattern = (text_pattern){.literal = SPACE_MARK, .n_literal = 3};
    return st ? st : mica_decoder_append(&t->decoder, back, &load->steps, err);
}

static mica_status add_specials(spm_load *load, mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = MICA_OK;
    for (size_t i = 0; i < load->n_scores && !st; i++) {
        uint8_t kind = vocab_kind(&t->vocab, (int32_t)i);
        added_token token = {.id = (int32_t)i, .special = true};
        if (kind == TOKEN_CONTROL) st = mica_tokenizer_add_token(t, token, err);
    }
    t->bos = vocab_has(&t->vocab, load->bos) ? (int32_t)load->bos : -1;
    t->eos = vocab_has(&t->vocab, load->eos) ? (int32_t)load->eos : -1;
    int32_t unk = vocab_has(&t->vocab, load->unk) ? (int32_t)load->unk : -1;
    t->unigram.unk_id = t->spm.unk_id = unk;
    const char *surface =
        load->unk_surface.data ? (const char *)load->unk_surface.data : " \xE2\x81\x87 ";
    size_t n = load->unk_surface.data ? load->unk_surface.n : 5;
    if (!st && utf8_valid_prefix(surface, n) == n) {
        st = mica_step_copy(&load->steps, surface, n, &t->unk_surface, err);
        t->n_unk_surface = n;
    }
    return st;
}

/* Which of bos and eos a text gets: what the config says, else the habit of the model's kind. */
static mica_status add_ends(spm_load *load, const json_value *config, mica_error *err) {
    tokenizer *t = load->t;
    const char *class = mica_json_string(mica_json_find(config, "tokenizer_class"), "");
    bool is_t5 = strncmp(class, "T5", 2) == 0 || strncmp(class, "MT5", 3) == 0;
    bool is_bpe = load->model_type == MODEL_BPE;
    bool bos = mica_json_bool(mica_json_find_set(config, "add_bos_token"), is_bpe && !is_t5);
    bool eos = mica_json_bool(mica_json_find_set(config, "add_eos_token"), is_t5);
    mica_status st = MICA_OK;
    if (bos && t->bos >= 0) st = mica_token_list_push(&t->prefix, t->bos, err);
    if (!st && eos && t->eos >= 0) st = mica_token_list_push(&t->suffix, t->eos, err);
    return st;
}

static mica_status apply_config(spm_load *load, const json_value *config, mica_error *err) {
    tokenizer *t = load->t;
    int32_t bos = t->bos, eos = t->eos;
    mica_status st = mica_tokenizer_apply_config(t, config, err);
    if (t->bos < 0) t->bos = bos;
    if (t->eos < 0) t->eos = eos;
    return st;
}

static mica_status load_all(spm_load *load, proto_reader message, const json_value *config,
                            mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = read_message(load, message, err);
    if (st) return st;
    if (load->model_type != MODEL_BPE && load->model_type != MODEL_UNIGRAM) {
        return mica_fail(
            err, MICA_E_UNSUPPORTED,
            "%s: SentencePiece's model_type %llu%s is not supported; 1 (unigram) and 2 "
            "(bpe) are",
            t->name, (unsigned long long)load->model_type,
            load->model_type == 3   ? " (word)"
            : load->model_type == 4 ? " (char)"
                                    : "");
    }
    if (!load->n_scores) return fail_format(load, "holds no pieces", err);
    t->model = load->model_type == MODEL_BPE ? TOKENIZER_SPM : TOKENIZER_UNIGRAM;
    t->unigram.byte_fallback = load->byte_fallback;
    t->unigram.is_single = true;
    load->spaces.only_head = !mica_json_bool(mica_json_find_set(config, "legacy"), true) &&
                             load->spaces.add_dummy_prefix;
    if ((st = make_scores(load, err))) return st;
    if ((st = make_user_pieces(load, err))) return st;
    if ((st = add_steps(load, err))) return st;
    if ((st = add_specials(load, err))) return st;
    if (config && (st = apply_config(load, config, err))) return st;
    if ((st = add_ends(load, config, err))) return st;
    t->n_tokens = t->vocab.n_ids;
    return mica_tokenizer_finish(t, err);
}

mica_status mica_tokenizer_parse_spm(tokenizer **out, const uint8_t *data, size_t n,
                                     const json_value *config, const char *name, mica_error *err) {
    tokenizer *t = mica_tokenizer_new(name, err);
    if (!t) return MICA_E_NOMEM;
    spm_load load = {.t = t,
                     .steps = mica_tokenizer_loader(t),
                     .model_type = MODEL_UNIGRAM,
                     .unk = 0,
                     .bos = 1,
                     .eos = 2,
                     .highest = FLT_MIN};
    load.spaces = (spm_spaces){.add_dummy_prefix = true, .remove_extra = true, .escape = true};
    mica_status st = load_all(&load, (proto_reader){data, n, 0}, config, err);
    mica_free(load.scores);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}
