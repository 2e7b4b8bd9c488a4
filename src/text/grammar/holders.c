/* holders.c: sorting a vocabulary's tokens by the characters that they hold. */
#include "text/grammar/holders.h"

#include <string.h>

#include "base/alloc.h"
#include "text/grammar/token_trie.h"

/* Where the next token of each character goes, and the latest one. */
typedef struct holders_end {
    uint32_t n, n_text;
    int32_t last; /* -1: none yet */
} holders_end;

static uint8_t count_shared(const grammar_vocab *v, int32_t last, const char *s, size_t n) {
    size_t n_last = 0, i = 0;
    const char *before = last < 0 ? "" : vocab_bytes(v, last, &n_last);
    while (i < n && i < n_last && s[i] == before[i]) {
        i++;
    }
    return (uint8_t)i;
}

/* Counts token `id` for each of its characters and stores it where `h` has room (NULL: nowhere). */
static void add_token(const grammar_vocab *v, int32_t id, holders_end *ends, token_holders *h) {
    size_t n;
    const char *s = vocab_bytes(v, id, &n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= HOLDERS_N_CHARS || v->n_with[c] > holders_max(v->n_ids) || ends[c].last == id)
            continue;
        uint8_t n_shared = count_shared(v, ends[c].last, s, n);
        if (h) {
            h->items[ends[c].n] = (holder){id, n_shared, (uint8_t)n};
            memcpy(h->text + ends[c].n_text, s + n_shared, n - n_shared);
        }
        ends[c].n++;
        ends[c].n_text += (uint32_t)(n - n_shared);
        ends[c].last = id;
    }
}

/* ends [HOLDERS_N_CHARS]: where each character's tokens begin. */
static void add_tokens(const grammar_vocab *v, holders_end *ends, token_holders *h) {
    const uint64_t *plain = v->slices[SLICE_NO_LIMIT];
    for (uint32_t i = 0; i < v->all.n_ids; i++) {
        int32_t id = v->all.ids[i];
        if (plain[id >> 6] >> (id & 63) & 1) add_token(v, id, ends, h);
    }
}

mica_status mica_holders_init(token_holders *h, const grammar_vocab *v, mica_error *err) {
    holders_end ends[HOLDERS_N_CHARS];
    for (int c = 0; c < HOLDERS_N_CHARS; c++) {
        ends[c] = (holders_end){.last = -1};
    }
    add_tokens(v, ends, NULL);
    for (int c = 0; c < HOLDERS_N_CHARS; c++) {
        h->first[c + 1] = h->first[c] + ends[c].n;
        h->text_first[c + 1] = h->text_first[c] + ends[c].n_text;
        ends[c] = (holders_end){h->first[c], h->text_first[c], -1};
    }
    h->items = mica_calloc(h->first[HOLDERS_N_CHARS] + 1, sizeof(*h->items));
    h->text = mica_malloc(h->text_first[HOLDERS_N_CHARS] + 1);
    if (!h->items || !h->text)
        return mica_fail(err, MICA_E_NOMEM, "out of memory for the tokens of a grammar");
    add_tokens(v, ends, h);
    return MICA_OK;
}

void mica_holders_deinit(token_holders *h) {
    mica_free(h->items);
    mica_free(h->text);
}
