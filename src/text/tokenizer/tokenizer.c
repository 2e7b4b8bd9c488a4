/* tokenizer.c: life and properties of a tokenizer, whatever file it came from.
 */
#include "text/tokenizer/impl.h"

#include <stdarg.h>
#include <stdio.h>

tokenizer *mica_tokenizer_new(const char *name, mica_error *err) {
    tokenizer *t = mica_calloc(1, sizeof(*t));
    if (t) t->name = mica_strdup(name);
    if (!t || !t->name) {
        mica_free(t);
        mica_fail(err, MICA_E_NOMEM, "%s: out of memory for the tokenizer", name);
        return NULL;
    }
    t->vocab.name = t->name;
    mica_arena_init(&t->arena, 4096);
    t->bpe.prefix = t->bpe.suffix = "";
    t->word.head = t->word.prefix = "";
    t->bpe.unk_id = t->spm.unk_id = t->unigram.unk_id = t->word.unk_id = -1;
    t->bos = t->eos = -1;
    return t;
}

void mica_tokenizer_free(tokenizer *t) {
    if (!t) return;
    while (t->regexes) {
        regex *next = t->regexes->next;
        mica_regex_free(t->regexes);
        t->regexes = next;
    }
    mica_vocab_deinit(&t->vocab);
    mica_piece_trie_deinit(&t->user_pieces);
    mica_added_tokens_deinit(&t->added);
    mica_bpe_deinit(&t->bpe);
    mica_spm_deinit(&t->spm);
    mica_unigram_deinit(&t->unigram);
    mica_free(t->prefix.ids);
    mica_free(t->suffix.ids);
    mica_free(t->end_ids.ids);
    mica_text_buffer_deinit(&t->warnings);
    mica_arena_deinit(&t->arena);
    mica_free(t->name);
    mica_free(t);
}

step_loader mica_tokenizer_loader(tokenizer *t) {
    return (step_loader){.name = t->name, .arena = &t->arena, .regexes = &t->regexes};
}

mica_status mica_tokenizer_warn(tokenizer *t, mica_error *err, const char *format, ...) {
    char line[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    size_t n_line = n < 0 ? 0 : (size_t)n < sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
    line[n_line++] = '\n';
    if (t->warnings.n > 4096) return MICA_OK; /* enough is said */
    mica_status st = mica_text_buffer_reserve(&t->warnings, n_line + 1, err);
    if (st) return st;
    text_put_bytes(&t->warnings, line, n_line);
    t->warnings.data[t->warnings.n] = '\0';
    return MICA_OK;
}

mica_status mica_tokenizer_add_token(tokenizer *t, added_token token, mica_error *err) {
    uint8_t *kind = &t->vocab.kind[token.id];
    if (*kind & TOKEN_ADDED) return MICA_OK;
    mica_status st = mica_added_tokens_push(&t->added, token, err);
    if (st) return st;
    *kind |= TOKEN_ADDED;
    if (token.special) *kind |= TOKEN_SPECIAL;
    return MICA_OK;
}

mica_status mica_tokenizer_add_end(tokenizer *t, int64_t id, mica_error *err) {
    if (!vocab_has_token(&t->vocab, id)) return MICA_OK;
    for (size_t i = 0; i < t->end_ids.n; i++) {
        if (t->end_ids.ids[i] == id) return MICA_OK;
    }
    return mica_token_list_push(&t->end_ids, (int32_t)id, err);
}

static mica_status finish_model(tokenizer *t, mica_error *err) {
    if (t->model == TOKENIZER_BPE) return mica_bpe_finish(&t->bpe, &t->vocab, err);
    if (t->model == TOKENIZER_UNIGRAM) return mica_unigram_finish(&t->unigram, &t->vocab, err);
    if (t->model == TOKENIZER_SPM) return mica_spm_finish(&t->spm, &t->vocab, err);
    return MICA_OK;
}

mica_status mica_tokenizer_finish(tokenizer *t, mica_error *err) {
    if (!t->n_tokens) {
        return mica_fail(err, MICA_E_FORMAT, "%s: the vocabulary is empty", t->name);
    }
    mica_status st = finish_model(t, err);
    if (!st) st = mica_added_tokens_finish(&t->added, &t->vocab, t->normalizers, err);
    return st ? st : mica_tokenizer_add_end(t, t->eos, err);
}

mica_status mica_token_list_push(token_list *list, int32_t id, mica_error *err) {
    void *grown = mica_text_grow(list->ids, &list->capacity, list->n + 1, sizeof(*list->ids));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu token ids", list->n + 1);
    list->ids = grown;
    list->ids[list->n++] = id;
    return MICA_OK;
}

/* ---- properties ---- */

size_t mica_tokenizer_vocab_size(const tokenizer *t) { return t->n_tokens; }

int32_t mica_tokenizer_find(const tokenizer *t, const char *text, size_t n_text) {
    int32_t id = mica_vocab_find(&t->vocab, text, n_text);
    return vocab_has_token(&t->vocab, id) ? id : -1;
}

const char *mica_tokenizer_token(const tokenizer *t, int32_t id, size_t *n_text) {
    if (!vocab_has_token(&t->vocab, id)) return NULL;
    return vocab_text(&t->vocab, id, n_text);
}

bool mica_tokenizer_is_special(const tokenizer *t, int32_t id) {
    return vocab_has_token(&t->vocab, id) && (t->vocab.kind[id] & TOKEN_SPECIAL);
}

int32_t mica_tokenizer_bos(const tokenizer *t) { return t->bos; }
int32_t mica_tokenizer_eos(const tokenizer *t) { return t->eos; }

bool mica_tokenizer_adds_bos(const tokenizer *t) {
    for (size_t i = 0; i < t->prefix.n; i++) {
        if (t->prefix.ids[i] == t->bos) return true;
    }
    return false;
}

const int32_t *mica_tokenizer_end_ids(const tokenizer *t, size_t *n) {
    *n = t->end_ids.n;
    return t->end_ids.ids;
}

const char *mica_tokenizer_warnings(const tokenizer *t) {
    return t->warnings.n ? t->warnings.data : "";
}
