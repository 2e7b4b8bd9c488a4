/* embed_text.c: from a text to the ids whose embedding is wanted.
 *
 * What surrounds a text is the tokenizer's own doing: a post-processor that adds [CLS] and [SEP],
 * or an end token. Files of some decoders come without one although the model was trained with it;
 * the family's row names it.
 */
#include "engine/embed_text.h"

#include <string.h>

char *mica_embed_instruction(const char *instruction) {
    return mica_asprintf("Instruct: %s\nQuery:", instruction);
}

/* How many of `all` stand before and after the ids of the text alone. */
typedef struct surroundings {
    size_t before, after;
} surroundings;

static surroundings find_text(const int32_t *all, size_t n_all, const token_list *plain) {
    size_t extra = n_all > plain->n ? n_all - plain->n : 0;
    for (size_t before = 0; before <= extra; before++)
        if (!plain->n || !memcmp(all + before, plain->ids, plain->n * sizeof(*all)))
            return (surroundings){before, extra - before};
    return (surroundings){0, 0};
}

static mica_status encode(const tokenizer *t, const char *text, size_t n, bool special,
                          token_list *out, mica_error *err) {
    const encode_options options = {.add_special = special};
    return mica_tokenizer_encode(t, text, n, options, out, err);
}

static mica_status add_end(const embedding_config *c, const tokenizer *t, token_list *ids,
                           surroundings *around, mica_error *err) {
    if (!c->end_token || around->after) return MICA_OK;
    int32_t id = mica_tokenizer_find(t, c->end_token, strlen(c->end_token));
    if (id < 0)
        return mica_fail(err, MICA_E_NOT_FOUND,
                         "the vocabulary lacks \"%s\", which ends a text whose embedding is wanted",
                         c->end_token);
    around->after = 1;
    return mica_token_list_push(ids, id, err);
}

/* Cuts ids [first, n) to `most`, keeping what stands after the text. */
static void cut_text(token_list *ids, size_t first, size_t most, surroundings around) {
    size_t n = ids->n - first;
    if (!most || n <= most || around.after > most) return;
    int32_t *at = ids->ids + first;
    memmove(at + most - around.after, at + n - around.after, around.after * sizeof(*at));
    ids->n = first + most;
}

/* The ids of the prompt, with what stands before a text, that the whole begins with. */
static mica_status count_prompt(const tokenizer *t, const embed_words *w, size_t n_all,
                                size_t n_after, int64_t *out, mica_error *err) {
    token_list prompt = {0};
    mica_status st = encode(t, w->prompt, w->n_prompt, true, &prompt, err);
    if (!st) {
        size_t n = prompt.n > n_after ? prompt.n - n_after : 0;
        *out = (int64_t)(n < n_all ? n : n_all - 1);
    }
    mica_free(prompt.ids);
    return st;
}

static mica_status add_ids(const embedding_config *c, const tokenizer *t, const embed_words *w,
                           const char *text, int64_t cut, token_list *ids, int64_t *n_prompt,
                           mica_error *err) {
    size_t first = ids->n, n = w->n_prompt + w->n_text;
    token_list plain = {0};
    mica_status st = encode(t, text, n, true, ids, err);
    if (!st) st = encode(t, text, n, false, &plain, err);
    if (!st) {
        surroundings around = find_text(ids->ids + first, ids->n - first, &plain);
        size_t n_after = around.after;
        st = add_end(c, t, ids, &around, err);
        cut_text(ids, first, (size_t)cut, around);
        if (!st && c->excludes_prompt && w->n_prompt)
            st = count_prompt(t, w, ids->n - first, n_after, n_prompt, err);
    }
    mica_free(plain.ids);
    return st;
}

mica_status mica_embed_encode(const embedding_config *c, const tokenizer *t,
                              const embed_words *words, int64_t cut, token_list *ids,
                              int64_t *n_prompt, mica_error *err) {
    *n_prompt = 0;
    if (!words->n_prompt) return add_ids(c, t, words, words->text, cut, ids, n_prompt, err);
    char *joined = mica_malloc(words->n_prompt + words->n_text + 1);
    if (!joined) return mica_fail(err, MICA_E_NOMEM, "out of memory for a text");
    memcpy(joined, words->prompt, words->n_prompt);
    memcpy(joined + words->n_prompt, words->text, words->n_text);
    mica_status st = add_ids(c, t, words, joined, cut, ids, n_prompt, err);
    mica_free(joined);
    return st;
}
