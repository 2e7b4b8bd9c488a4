/* tokenizer_gguf.c: a tokenizer from the tokenizer.ggml.* keys of a GGUF file.
 *
 * The file holds a vocabulary and the name of a pipeline, not the pipeline itself. "llama" is
 * SentencePiece's BPE by score, "gpt2" byte-level BPE with a named pre-tokenizer, "gemma4" rank BPE
 * over text with U+2581 for spaces, "t5" SentencePiece's Unigram, "bert" whole words with U+2581 in
 * front. Other models and unknown names are refused: nothing is guessed.
 */
#include "text/tokenizer/impl.h"

#define SPACE_MARK "\xE2\x96\x81"

typedef struct gguf_load {
    tokenizer *t;
    const gguf_file *file;
    const gguf_entry *tokens, *types, *scores, *merges;
    step_loader steps;
    bool add_bos, add_eos, add_space_prefix; /* defaults of the model, then the keys */
    int64_t bos, eos, unk;
} gguf_load;

static mica_status fail_format(const gguf_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: %s", load->t->name, what);
}

/* ---- vocabulary ---- */

static mica_status find_arrays(gguf_load *load, mica_error *err) {
    load->tokens = mica_gguf_find(load->file, "tokenizer.ggml.tokens");
    load->types = mica_gguf_find(load->file, "tokenizer.ggml.token_type");
    load->scores = mica_gguf_find(load->file, "tokenizer.ggml.scores");
    load->merges = mica_gguf_find(load->file, "tokenizer.ggml.merges");
    const gguf_entry *tokens = load->tokens;
    if (!tokens || tokens->type != GGUF_VALUE_ARRAY || tokens->element != GGUF_VALUE_STRING) {
        return fail_format(load, "no vocabulary: tokenizer.ggml.tokens is no array of strings",
                           err);
    }
    const gguf_entry *numbers[] = {load->types, load->scores};
    for (int i = 0; i < 2; i++) {
        const gguf_entry *e = numbers[i];
        if (!e) continue;
        bool is_list = e->type == GGUF_VALUE_ARRAY && e->element != GGUF_VALUE_STRING &&
                       e->element != GGUF_VALUE_ARRAY;
        if (!is_list || e->n != tokens->n) {
            return fail_format(load, "token types or scores are no list as long as the tokens",
                               err);
        }
    }
    const gguf_entry *m = load->merges;
    if (m && (m->type != GGUF_VALUE_ARRAY || m->element != GGUF_VALUE_STRING)) {
        return fail_format(load, "tokenizer.ggml.merges is no array of strings", err);
    }
    return MICA_OK;
}

static mica_status read_tokens(gguf_load *load, mica_error *err) {
    vocab *v = &load->t->vocab;
    /* An entry has at least 8 bytes of length, so n is bounded by the file; so are the texts. */
    uint64_t n_text = load->tokens->n_bytes - 8 * load->tokens->n;
    mica_status st = mica_vocab_reserve(v, load->tokens->n, n_text, err);
    gguf_string s;
    uint64_t pos = 0;
    for (size_t id = 0; !st && mica_gguf_next_string(load->tokens, &pos, &s); id++) {
        uint8_t kind = TOKEN_NORMAL;
        if (load->types) {
            double type = mica_gguf_array_number(load->types, id);
            if (!(type >= 0 && type <= 6)) {
                return mica_fail(err, MICA_E_FORMAT, "%s: token %zu has type %g; known are 0 to 6",
                                 load->t->name, id, type);
            }
            if (type >= 1) kind = (uint8_t)type;
        }
        if (kind == TOKEN_UNKNOWN || kind == TOKEN_CONTROL) kind |= TOKEN_SPECIAL;
        if (kind != TOKEN_NORMAL && kind != TOKEN_UNUSED && kind != TOKEN_BYTE) {
            kind |= TOKEN_LITERAL;
        }
        st = mica_vocab_add(v, id, s.data, s.n, kind, err);
    }
    load->t->n_tokens = v->n_ids;
    return st;
}

static mica_status read_scores(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    if (!load->scores) return fail_format(load, "model \"llama\" needs tokenizer.ggml.scores", err);
    t->spm.ranks = mica_malloc(t->n_tokens * sizeof(*t->spm.ranks));
    if (!t->spm.ranks) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory for scores", t->name);
    for (size_t i = 0; i < t->n_tokens; i++) {
        float score = (float)mica_gguf_array_number(load->scores, i);
        if (score != score) return fail_format(load, "a score is not a number", err);
        t->spm.ranks[i] = mica_spm_rank(score);
        bool is_unused = vocab_kind(&t->vocab, (int32_t)i) == TOKEN_UNUSED;
        t->spm.has_unused = t->spm.has_unused || is_unused;
    }
    return MICA_OK;
}

/* A file without types still means bytes by these texts. */
static void mark_bytes(gguf_load *load) {
    int32_t ids[256];
    if (load->types) return;
    mica_vocab_byte_ids(&load->t->vocab, ids);
    for (int b = 0; b < 256; b++) {
        if (ids[b] >= 0) load->t->vocab.kind[ids[b]] = TOKEN_BYTE;
    }
}

/* ---- merges ---- */

/* The id of a part of a merge; what is no token becomes a hidden entry. */
static mica_status part_id(gguf_load *load, const char *text, size_t n, uint32_t *out,
                           mica_error *err) {
    tokenizer *t = load->t;
    int32_t id = mica_vocab_find(&t->vocab, text, n);
    mica_status st = MICA_OK;
    if (id < 0) {
        id = (int32_t)t->vocab.n_ids;
        t->bpe.has_hidden = true;
        st = mica_vocab_add(&t->vocab, (size_t)id, text, n, TOKEN_HIDDEN, err);
    }
    *out = (uint32_t)id;
    return st;
}

static mica_status read_merge(gguf_load *load, gguf_string s, text_buffer *joined,
                              mica_error *err) {
    const char *space = s.n > 1 ? memchr(s.data + 1, ' ', s.n - 1) : NULL;
    size_t n_left = space ? (size_t)(space - s.data) : 0;
    if (!space || n_left + 1 == s.n) {
        return mica_fail(err, MICA_E_FORMAT, "%s: merge %zu, \"%.*s\", is not two parts",
                         load->t->name, load->t->bpe.n_merges, (int)(s.n < 60 ? s.n : 60), s.data);
    }
    bpe_merge merge;
    size_t n_right = s.n - n_left - 1;
    joined->n = 0;
    mica_status st = mica_text_buffer_reserve(joined, s.n, err);
    if (st) return st;
    text_put_bytes(joined, s.data, n_left);
    text_put_bytes(joined, space + 1, n_right);
    if ((st = part_id(load, s.data, n_left, &merge.left, err))) return st;
    if ((st = part_id(load, space + 1, n_right, &merge.right, err))) return st;
    if ((st = part_id(load, joined->data, joined->n, &merge.id, err))) return st;
    return mica_bpe_add_merge(&load->t->bpe, merge, err);
}

static mica_status read_merges(gguf_load *load, mica_error *err) {
    text_buffer joined = {0};
    gguf_string s;
    uint64_t pos = 0;
    mica_status st = MICA_OK;
    if (!load->merges) return fail_format(load, "a BPE model needs tokenizer.ggml.merges", err);
    while (!st && mica_gguf_next_string(load->merges, &pos, &s)) {
        st = read_merge(load, s, &joined, err);
    }
    mica_text_buffer_deinit(&joined);
    return st;
}

/* ---- pipelines ---- */

static mica_status append_decoder(gguf_load *load, mica_error *err) {
    decoder_step back = {.kind = DECODE_REPLACE, .content = " ", .n_content = 1};
    back.pattern = (text_pattern){.literal = SPACE_MARK, .n_literal = 3};
    return mica_decoder_append(&load->t->decoder, back, &load->steps, err);
}

static mica_status append_space_marks(gguf_load *load, mica_error *err) {
    normalizer replace = {.kind = NORMALIZE_REPLACE, .content = SPACE_MARK, .n_content = 3};
    replace.pattern = (text_pattern){.literal = " ", .n_literal = 1};
    mica_status st = mica_normalizer_append(&load->t->normalizers, replace, &load->steps, err);
    return st ? st : append_decoder(load, err);
}

static void set_defaults(gguf_load *load, int64_t bos, int64_t eos, int64_t unk, bool add_bos,
                         bool add_space_prefix) {
    load->bos = bos;
    load->eos = eos;
    load->unk = unk;
    load->add_bos = add_bos;
    load->add_space_prefix = add_space_prefix;
}

/* The prefix space stands before every stretch of text, also after a special token. */
static mica_status load_llama(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    t->model = TOKENIZER_SPM;
    set_defaults(load, 1, 2, 0, true, true);
    bool prefix = mica_gguf_bool(load->file, "tokenizer.ggml.add_space_prefix", true);
    mica_status st = MICA_OK;
    if (mica_gguf_bool(load->file, "tokenizer.ggml.remove_extra_whitespaces", false)) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: tokenizer.ggml.remove_extra_whitespaces is not supported for model "
                         "\"llama\"",
                         t->name);
    }
    if (prefix) {
        normalizer space = {.kind = NORMALIZE_PREPEND, .content = " ", .n_content = 1};
        st = mica_normalizer_append(&t->normalizers, space, &load->steps, err);
        t->decoder.strip_char = ' ';
        t->decoder.n_strip = 1;
    }
    if (!st) st = append_space_marks(load, err);
    return st ? st : read_scores(load, err);
}

static mica_status load_gpt2(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    set_defaults(load, 11, 11, -1, false, false);
    gguf_string pre = mica_gguf_string(load->file, "tokenizer.ggml.pre");
    gguf_pre flags = {0};
    mica_status st = MICA_OK;
    if (!pre.data) {
        st = mica_tokenizer_warn(t, err,
                                 "%s: no tokenizer.ggml.pre: the default pre-tokenizer is "
                                 "used, which may not be the model's own",
                                 t->name);
    }
    if (!st) st = mica_gguf_pre_apply(t, pre.data, pre.n, &flags, err);
    pre_tokenizer bytes = {.kind = PRE_BYTES};
    if (!st) st = mica_pre_tokenizer_append(&t->pre_tokenizers, bytes, &load->steps, err);
    load->add_bos = flags.add_bos;
    t->bpe.ignore_merges = flags.ignore_merges;
    t->bpe.keeps_gaps = true;
    t->decoder.bytes = BYTES_ALPHABET;
    t->is_byte_level = true;
    return st ? st : read_merges(load, err);
}

static mica_status load_gemma4(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    set_defaults(load, 2, 1, 3, true, false);
    t->bpe.byte_fallback = true;
    t->bpe.newlines_whole = true;
    mica_status st = append_space_marks(load, err);
    if (!st) {
        st = mica_pre_tokenizer_append_regex(&t->pre_tokenizers, "[^\\n]+|\\n+", &load->steps, err);
    }
    return st ? st : read_merges(load, err);
}

/* BERT's own normalizer and pre-tokenizer; its class token stands for bos, the separator ends. */
static mica_status load_bert(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    t->model = TOKENIZER_WORD;
    t->word.head = SPACE_MARK;
    t->word.max_chars = UINT64_MAX;
    set_defaults(load, mica_gguf_integer(load->file, "tokenizer.ggml.cls_token_id", 101), -1, 100,
                 true, false);
    bool is_lower = mica_gguf_bool(load->file, "tokenizer.ggml.normalizer.lowercase", true);
    bool strips = mica_gguf_bool(load->file, "tokenizer.ggml.normalizer.strip_accents", is_lower);
    bert_normalizer bert = {true, true, strips, is_lower};
    mica_status st = mica_normalizer_append_bert(&t->normalizers, bert, &load->steps, err);
    if (!st) st = mica_pre_tokenizer_append_bert(&t->pre_tokenizers, &load->steps, err);
    if (!st) st = append_decoder(load, err);
    t->decoder.strip_char = ' ';
    t->decoder.n_strip = 1;
    int64_t sep = mica_gguf_integer(load->file, "tokenizer.ggml.seperator_token_id", 102);
    bool adds = mica_gguf_bool(load->file, "tokenizer.ggml.add_sep_token", true);
    if (!st && adds && vocab_has_token(&t->vocab, sep)) {
        st = mica_token_list_push(&t->suffix, (int32_t)sep, err);
    }
    return st;
}

static mica_status read_charsmap(gguf_load *load, charsmap *out, mica_error *err) {
    const gguf_entry *e = mica_gguf_find(load->file, "tokenizer.ggml.precompiled_charsmap");
    if (!e) return MICA_OK;
    bool is_bytes =
        e->type == GGUF_VALUE_ARRAY && (e->element == GGUF_VALUE_U8 || e->element == GGUF_VALUE_I8);
    if (!is_bytes) return fail_format(load, "precompiled_charsmap is no array of bytes", err);
    return mica_charsmap_read(out, (const char *)e->data, e->n, &load->steps, err);
}

static mica_status read_unigram_scores(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    mica_status st = MICA_OK;
    if (!load->scores) return fail_format(load, "model \"t5\" needs tokenizer.ggml.scores", err);
    for (size_t i = 0; i < t->n_tokens && !st; i++) {
        double score = mica_gguf_array_number(load->scores, i);
        if (score != score) return fail_format(load, "a score is not a number", err);
        bool is_user = vocab_kind(&t->vocab, (int32_t)i) == TOKEN_USER;
        st = mica_unigram_push_score(&t->unigram, is_user ? 0 : score, err);
    }
    return st;
}

static mica_status load_t5(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    t->model = TOKENIZER_UNIGRAM;
    set_defaults(load, -1, 1, 2, false, false);
    load->add_eos = true;
    bool prefix = mica_gguf_bool(load->file, "tokenizer.ggml.add_space_prefix", false);
    bool collapses = mica_gguf_bool(load->file, "tokenizer.ggml.remove_extra_whitespaces", false);
    spm_spaces *spaces = mica_arena_alloc(&t->arena, sizeof(*spaces));
    if (!spaces) return mica_step_no_memory(&load->steps, err);
    *spaces = (spm_spaces){.add_dummy_prefix = prefix, .remove_extra = collapses, .escape = true};
    normalizer step = {.kind = NORMALIZE_SENTENCEPIECE, .spaces = spaces};
    mica_status st = read_charsmap(load, &step.map, err);
    if (!st) st = mica_normalizer_append(&t->normalizers, step, &load->steps, err);
    if (!st) st = append_decoder(load, err);
    t->decoder.strip_char = ' ';
    t->decoder.n_strip = prefix || collapses;
    return st ? st : read_unigram_scores(load, err);
}

static mica_status load_model(gguf_load *load, mica_error *err) {
    static const struct {
        const char *name;
        mica_status (*load)(gguf_load *, mica_error *);
    } models[] = {{"llama", load_llama},
                  {"gpt2", load_gpt2},
                  {"gemma4", load_gemma4},
                  {"bert", load_bert},
                  {"t5", load_t5}};
    gguf_string name = mica_gguf_string(load->file, "tokenizer.ggml.model");
    if (!name.data) return fail_format(load, "no vocabulary: tokenizer.ggml.model is missing", err);
    const gguf_entry *replacements =
        mica_gguf_find(load->file, "tokenizer.ggml.precompiled_charsmap");
    bool is_t5 = name.n == 2 && memcmp(name.data, "t5", 2) == 0;
    if (replacements && replacements->n && !is_t5) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: tokenizer.ggml.precompiled_charsmap is not supported", load->t->name);
    }
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        bool is_name =
            strlen(models[i].name) == name.n && memcmp(models[i].name, name.data, name.n) == 0;
        if (!is_name) continue;
        mica_status st = find_arrays(load, err);
        if (!st) st = read_tokens(load, err);
        if (!st) mark_bytes(load);
        return st ? st : models[i].load(load, err);
    }
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s: tokenizer.ggml.model \"%.*s\" is not supported; llama, gpt2, gemma4, "
                     "bert and t5 are",
                     load->t->name, (int)(name.n < 60 ? name.n : 60), name.data);
}

/* ---- special tokens ---- */

static bool contains_word(gguf_string s, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.n; i++) {
        size_t k = 0;
        while (k < n && (s.data[i + k] | 0x20) == (word[k] | 0x20)) {
            k++;
        }
        if (k == n) return true;
    }
    return false;
}

static bool has_text(const vocab *v, int32_t id, const char *text) {
    size_t n;
    const char *own = vocab_text(v, id, &n);
    return n == strlen(text) && memcmp(own, text, n) == 0;
}

/* Strip flags are not stored in the file; Phi-3's special tokens take the space behind them, except
 * three. */
static bool is_phi3_rstrip(const gguf_load *load, int32_t id, bool is_special) {
    gguf_string name = mica_gguf_string(load->file, "general.name");
    if (!contains_word(name, "phi-3") && !contains_word(name, "phi3")) return false;
    const vocab *v = &load->t->vocab;
    if (has_text(v, id, "</s>")) return true;
    return is_special && !has_text(v, id, "<unk>") && !has_text(v, id, "<s>") &&
           !has_text(v, id, "<|endoftext|>");
}

static mica_status read_added(gguf_load *load, mica_error *err) {
    tokenizer *t = load->t;
    gguf_string pre = mica_gguf_string(load->file, "tokenizer.ggml.pre");
    bool is_jina = contains_word(pre, "jina-v2-");
    mica_status st = MICA_OK;
    for (size_t i = 0; i < t->n_tokens && !st; i++) {
        added_token token = {.id = (int32_t)i};
        uint8_t kind = vocab_kind(&t->vocab, token.id);
        token.special = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
        if (!token.special && kind != TOKEN_USER) continue;
        token.rstrip = is_phi3_rstrip(load, token.id, token.special);
        token.lstrip = is_jina && has_text(&t->vocab, token.id, "<mask>");
        st = mica_tokenizer_add_token(t, token, err);
    }
    return st;
}

static int32_t read_id(const gguf_load *load, const char *key, int64_t fallback) {
    int64_t id = mica_gguf_integer(load->file, key, fallback);
    return vocab_has_token(&load->t->vocab, id) ? (int32_t)id : -1;
}

static mica_status read_special(gguf_load *load, mica_error *err) {
    static const char *const ends[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.fim_pad_token_id",
                                       "tokenizer.ggml.fim_rep_token_id",
                                       "tokenizer.ggml.fim_sep_token_id"};
    tokenizer *t = load->t;
    t->bos = read_id(load, "tokenizer.ggml.bos_token_id", load->bos);
    t->eos = read_id(load, "tokenizer.ggml.eos_token_id", load->eos);
    t->spm.unk_id = read_id(load, "tokenizer.ggml.unknown_token_id", load->unk);
    bool add_bos = mica_gguf_bool(load->file, "tokenizer.ggml.add_bos_token", load->add_bos);
    bool add_eos = mica_gguf_bool(load->file, "tokenizer.ggml.add_eos_token", load->add_eos);
    mica_status st = MICA_OK;
    if (add_bos && t->bos >= 0) st = mica_token_list_push(&t->prefix, t->bos, err);
    if (!st && add_eos && t->eos >= 0) st = mica_token_list_push(&t->suffix, t->eos, err);
    if (!st) st = mica_tokenizer_add_end(t, t->eos, err);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && !st; i++) {
        st = mica_tokenizer_add_end(t, mica_gguf_integer(load->file, ends[i], -1), err);
    }
    return st ? st : mica_tokenizer_find_ends(t, err);
}

/* The unknown token, once it is known, for the model at hand. */
static void set_unknown(tokenizer *t) {
    t->unigram.unk_id = t->word.unk_id = t->spm.unk_id;
    t->word.unk_text = "tokenizer.ggml.unknown_token_id";
    if (t->model != TOKENIZER_BPE || t->spm.unk_id < 0 || !t->bpe.byte_fallback) return;
    size_t n;
    t->bpe.unk_id = t->spm.unk_id;
    t->bpe.unk_text = vocab_text(&t->vocab, t->spm.unk_id, &n);
    t->bpe.fuse_unk = true;
}

mica_status mica_tokenizer_open_gguf(tokenizer **out, const gguf_file *file, mica_error *err) {
    tokenizer *t = mica_tokenizer_new(mica_gguf_name(file), err);
    if (!t) return MICA_E_NOMEM;
    gguf_load load = {.t = t, .file = file, .steps = mica_tokenizer_loader(t)};
    mica_status st = load_model(&load, err);
    if (!st) st = read_special(&load, err);
    if (!st) st = read_added(&load, err);
    if (!st) set_unknown(t);
    if (!st) st = mica_tokenizer_finish(t, err);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}
