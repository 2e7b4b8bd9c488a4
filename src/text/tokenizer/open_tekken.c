/* open_tekken.c: tekken.json, Mistral's own file beside its models.
 *
 * Its "vocab" lists the bytes of more tokens than count: special tokens come first in the
 * numbering, and what is left of config.default_vocab_size are ranks. The pattern is in the file;
 * older files do not list their special tokens, which are then those of the first versions. The
 * list is read event by event: the file has 20 MB.
 */
#include <stdio.h>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/older.h"

typedef struct tekken_load {
    tokenizer *t;
    const char *data;
    const json_value *config, *specials;
    size_t vocab_begin; /* 0: none */
    size_t n_specials, n_ranks;
    text_buffer bytes, text;
} tekken_load;

static mica_status fail_format(const tekken_load *load, const char *what, mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT, "%s: tekken.json: %s", load->t->name, what);
}

/* ---- special tokens ---- */

static const char *const old_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
#define N_OLD_SPECIALS (sizeof(old_specials) / sizeof(old_specials[0]))

static mica_status add_special(tekken_load *load, uint64_t id, const char *text, size_t n,
                               bool is_control, mica_error *err) {
    tokenizer *t = load->t;
    if (id >= load->n_specials) return fail_format(load, "a special token's rank is too high", err);
    added_token token = {.id = (int32_t)id, .special = is_control};
    mica_status st = mica_vocab_add(&t->vocab, (size_t)id, text, n, TOKEN_OUTSIDE, err);
    return st ? st : mica_tokenizer_add_token(t, token, err);
}

static mica_status add_listed(tekken_load *load, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < load->specials->n && !st; i++) {
        const json_value *entry = load->specials->items[i];
        const json_value *text = mica_json_find(entry, "token_str");
        int64_t rank = mica_json_i64(mica_json_find(entry, "rank"), -1);
        bool is_control = mica_json_bool(mica_json_find(entry, "is_control"), true);
        if (!text || text->kind != JSON_KIND_STRING || rank < 0) {
            return fail_format(load, "a special token lacks its text or rank", err);
        }
        st = add_special(load, (uint64_t)rank, text->string, text->n, is_control, err);
    }
    return st;
}

static mica_status add_specials(tekken_load *load, mica_error *err) {
    mica_status st = MICA_OK;
    bool is_listed = load->specials && load->specials->kind == JSON_KIND_ARRAY;
    if (is_listed) st = add_listed(load, err);
    for (size_t i = 0; i < N_OLD_SPECIALS && !is_listed && !st; i++) {
        st = add_special(load, i, old_specials[i], strlen(old_specials[i]), true, err);
    }
    for (size_t i = 0; i < load->n_specials && !st; i++) {
        char text[40];
        if (vocab_has(&load->t->vocab, (int64_t)i)) continue;
        int n = snprintf(text, sizeof(text), "<SPECIAL_%zu>", i);
        st = add_special(load, i, text, (size_t)n, true, err);
    }
    return st;
}

/* ---- ranks ---- */

static bool is_key(const json_reader *r, const char *key) {
    return r->n_text == strlen(key) && memcmp(r->text, key, r->n_text) == 0;
}

static mica_status add_rank(tekken_load *load, int64_t rank, mica_error *err) {
    if (rank < 0) return fail_format(load, "a token of \"vocab\" lacks its rank", err);
    if ((uint64_t)rank >= load->n_ranks) return MICA_OK;
    step_loader l = mica_tokenizer_loader(load->t);
    load->bytes.n = 0;
    mica_status st = mica_base64_decode(&load->bytes, load->text.data, load->text.n, &l, err);
    load->text.n = 0;
    if (!st) st = mica_byte_alphabet_map(&load->text, load->bytes.data, load->bytes.n, err);
    if (st) return st;
    return mica_vocab_add(&load->t->vocab, load->n_specials + (size_t)rank, load->text.data,
                          load->text.n, TOKEN_NORMAL, err);
}

/* {"rank": 0, "token_bytes": "AA==", ...}, behind its brace; load->text takes the base64. */
static mica_status read_rank(tekken_load *load, json_reader *r, mica_error *err) {
    json_event event;
    mica_status st;
    int64_t rank = -1;
    load->text.n = 0;
    while (!(st = mica_json_next(r, &event, err)) && event == JSON_KEY) {
        bool is_rank = is_key(r, "rank"), is_bytes = is_key(r, "token_bytes");
        st = is_rank || is_bytes ? mica_json_next(r, &event, err) : mica_json_skip(r, err);
        if (st) return st;
        if (is_rank && (event != JSON_NUMBER || !mica_json_text_i64(r, &rank))) rank = -1;
        if (is_bytes && event == JSON_STRING) {
            st = mica_text_buffer_append(&load->text, r->text, r->n_text, err);
        }
        if (st) return st;
    }
    return st ? st : add_rank(load, rank, err);
}

static mica_status read_ranks(tekken_load *load, size_t n, mica_error *err) {
    json_reader r;
    json_event event;
    mica_json_reader_init(&r, load->data + load->vocab_begin, n - load->vocab_begin, load->t->name);
    mica_status st = mica_json_next(&r, &event, err);
    if (!st && event != JSON_ARRAY_BEGIN) st = fail_format(load, "\"vocab\" is no list", err);
    while (!st && !(st = mica_json_next(&r, &event, err)) && event == JSON_OBJECT_BEGIN) {
        st = read_rank(load, &r, err);
    }
    if (!st && event != JSON_ARRAY_END) st = fail_format(load, "\"vocab\" holds no objects", err);
    mica_json_reader_deinit(&r);
    return st;
}

/* ---- the file ---- */

static mica_status parse_part(tekken_load *load, json_reader *r, const json_value **out,
                              mica_error *err) {
    json_value *value = NULL;
    size_t begin = r->pos;
    mica_status st = mica_json_skip(r, err);
    while (!st && begin < r->pos && strchr(" \t\r\n:", load->data[begin])) {
        begin++;
    }
    if (!st) {
        st = mica_json_parse(&value, load->data + begin, r->pos - begin, load->t->name, false,
                             &load->t->arena, err);
    }
    *out = value;
    return st;
}

static mica_status read_outline(tekken_load *load, size_t n, mica_error *err) {
    json_reader r;
    json_event event;
    mica_json_reader_init(&r, load->data, n, load->t->name);
    mica_status st = mica_json_next(&r, &event, err);
    if (!st && event != JSON_OBJECT_BEGIN) st = fail_format(load, "is no object", err);
    while (!st && !(st = mica_json_next(&r, &event, err)) && event == JSON_KEY) {
        if (is_key(&r, "config")) {
            st = parse_part(load, &r, &load->config, err);
        } else if (is_key(&r, "special_tokens")) {
            st = parse_part(load, &r, &load->specials, err);
        } else {
            if (is_key(&r, "vocab")) load->vocab_begin = r.pos;
            st = mica_json_skip(&r, err);
        }
    }
    mica_json_reader_deinit(&r);
    return st;
}

static mica_status read_sizes(tekken_load *load, mica_error *err) {
    int64_t n = mica_json_i64(mica_json_find(load->config, "default_vocab_size"), -1);
    int64_t m = mica_json_i64(mica_json_find(load->config, "default_num_special_tokens"), -1);
    bool has_old = load->specials || m >= (int64_t)N_OLD_SPECIALS;
    if (!load->vocab_begin || m < 0 || n <= m || n > VOCAB_MAX_IDS || !has_old) {
        return fail_format(load,
                           "needs \"vocab\" and, in \"config\", sensible default_vocab_size "
                           "and default_num_special_tokens",
                           err);
    }
    load->n_specials = (size_t)m;
    load->n_ranks = (size_t)(n - m);
    return MICA_OK;
}

/* Mistral puts the bos token before a text and nothing behind it. */
static mica_status finish(tekken_load *load, mica_error *err) {
    tokenizer *t = load->t;
    const char *pattern = mica_json_string(mica_json_find(load->config, "pattern"), NULL);
    if (!pattern) return fail_format(load, "\"config\" lacks the \"pattern\"", err);
    step_loader l = mica_tokenizer_loader(t);
    pre_tokenizer bytes = {.kind = PRE_BYTES};
    mica_status st = mica_pre_tokenizer_append_regex(&t->pre_tokenizers, pattern, &l, err);
    if (!st) st = mica_pre_tokenizer_append(&t->pre_tokenizers, bytes, &l, err);
    if (!st) st = mica_older_set_ranks(t, t->vocab.n_ids, err);
    t->bos = mica_vocab_find(&t->vocab, "<s>", 3);
    t->eos = mica_vocab_find(&t->vocab, "</s>", 4);
    if (!st && t->bos >= 0) st = mica_token_list_push(&t->prefix, t->bos, err);
    return st ? st : mica_older_finish_ranks(t, err);
}

mica_status mica_older_open_tekken(tokenizer **out, const older_load *load, const char *data,
                                   size_t n, mica_error *err) {
    tekken_load tekken = {.t = mica_tokenizer_new(load->folder, err), .data = data};
    if (!tekken.t) return MICA_E_NOMEM;
    mica_status st = read_outline(&tekken, n, err);
    if (!st) st = read_sizes(&tekken, err);
    if (!st) st = read_ranks(&tekken, n, err);
    if (!st) st = add_specials(&tekken, err);
    if (!st) st = finish(&tekken, err);
    mica_text_buffer_deinit(&tekken.bytes);
    mica_text_buffer_deinit(&tekken.text);
    if (st) {
        mica_tokenizer_free(tekken.t);
        return st;
    }
    *out = tekken.t;
    return MICA_OK;
}
