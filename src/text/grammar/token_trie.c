/* token_trie.c: building a vocabulary's tries from the bytes of its tokens. */
#include "text/grammar/token_trie.h"

#include <string.h>

#include "text/grammar/machine.h"
#include "text/tokenizer/impl.h"

static mica_status fail_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for the tokens of a grammar");
}

/* ---- order ---- */

/* The byte at `depth`, + 1; 0 behind the end. */
static unsigned byte_at(const grammar_vocab *v, int32_t id, size_t depth) {
    size_t n;
    const char *s = vocab_bytes(v, id, &n);
    return depth < n ? (unsigned)(uint8_t)s[depth] + 1 : 0;
}

static int compare_tail(const grammar_vocab *v, int32_t a, int32_t b, size_t depth) {
    size_t n_a, n_b;
    const char *x = vocab_bytes(v, a, &n_a), *y = vocab_bytes(v, b, &n_b);
    size_t n = n_a < n_b ? n_a : n_b;
    int c = n > depth ? memcmp(x + depth, y + depth, n - depth) : 0;
    if (c) return c;
    if (n_a != n_b) return n_a < n_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void sort_few(const grammar_vocab *v, int32_t *ids, size_t n, size_t depth) {
    for (size_t i = 1; i < n; i++) {
        int32_t id = ids[i];
        size_t k = i;
        for (; k > 0 && compare_tail(v, ids[k - 1], id, depth) > 0; k--) {
            ids[k] = ids[k - 1];
        }
        ids[k] = id;
    }
}

/* Radix sort from the first byte on; `depth` is bounded by the length of tokens. */
static void sort_ids(const grammar_vocab *v, int32_t *ids, int32_t *scratch, size_t n,
                     size_t depth) {
    if (n <= 24 || depth >= TRIE_MAX_DEPTH) {
        sort_few(v, ids, n, depth);
        return;
    }
    size_t begin[258] = {0};
    for (size_t i = 0; i < n; i++) {
        begin[byte_at(v, ids[i], depth) + 1]++;
    }
    for (int c = 1; c < 258; c++) {
        begin[c] += begin[c - 1];
    }
    size_t at[257];
    memcpy(at, begin, sizeof(at));
    for (size_t i = 0; i < n; i++) {
        scratch[at[byte_at(v, ids[i], depth)]++] = ids[i];
    }
    memcpy(ids, scratch, n * sizeof(*ids));
    for (int c = 1; c < 257; c++) {
        if (begin[c + 1] - begin[c] > 1)
            sort_ids(v, ids + begin[c], scratch, begin[c + 1] - begin[c], depth + 1);
    }
}

/* ---- tries ---- */

static void trie_deinit(token_trie *t) {
    mica_free(t->nodes);
    mica_free(t->ranges);
    mica_free(t->ids);
}

/* Of each token, where plain text begins that goes to its end: behind it, too, at the beginnings of
 * characters. */
static size_t plain_from(const char *s, size_t n) {
    bool is_plain[TRIE_MAX_DEPTH + 1];
    size_t from = n;
    is_plain[n] = true;
    for (size_t d = n; d-- > 0;) {
        unsigned char c = (unsigned char)s[d];
        bool is_valid;
        size_t width = mica_utf8_step(s + d, n - d, &is_valid);
        is_plain[d] = c >= 0x20 && c != '"' && c != '\\' && is_valid && is_plain[d + width];
        if (is_plain[d]) from = d;
    }
    return from;
}

static mica_status find_plain(grammar_vocab *v, mica_error *err) {
    v->plain_from = mica_calloc(v->n_ids + 1, 1);
    if (!v->plain_from) return fail_memory(err);
    for (size_t id = 0; id < v->n_ids; id++) {
        size_t n;
        const char *bytes = vocab_bytes(v, (int32_t)id, &n);
        v->plain_from[id] = (uint8_t)plain_from(bytes, n);
    }
    return MICA_OK;
}

/* How many bytes two tokens share at their beginning. */
static size_t common_bytes(const grammar_vocab *v, int32_t a, int32_t b) {
    size_t n_a, n_b, i = 0;
    const char *x = vocab_bytes(v, a, &n_a), *y = vocab_bytes(v, b, &n_b);
    while (i < n_a && i < n_b && x[i] == y[i]) {
        i++;
    }
    return i;
}

static size_t count_trie_nodes(const grammar_vocab *v, const int32_t *ids, size_t n) {
    size_t n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        size_t length;
        vocab_bytes(v, ids[i], &length);
        n_nodes += length - (i ? common_bytes(v, ids[i - 1], ids[i]) : 0);
    }
    return n_nodes;
}

/* Appends the children of node i, whose tokens share `depth` bytes. */
static void add_children(token_trie *t, const grammar_vocab *v, uint32_t i, size_t depth) {
    trie_node *parent = &t->nodes[i];
    unsigned last = 0;
    parent->children = t->n_nodes;
    parent->flags = TRIE_IS_PLAIN;
    t->ranges[i].own_end = t->ranges[i].first;
    for (uint32_t k = t->ranges[i].first; k < t->ranges[i].end; k++) {
        size_t n;
        const char *s = vocab_bytes(v, t->ids[k], &n);
        if (n == depth) {
            parent->flags |= TRIE_HAS_IDS;
            t->ranges[i].own_end = k + 1;
            continue;
        }
        unsigned char c = (unsigned char)s[depth];
        if (v->plain_from[t->ids[k]] > depth || (c & 0xC0) == 0x80)
            parent->flags &= (uint8_t)~TRIE_IS_PLAIN;
        if (c + 1u != last) {
            t->nodes[t->n_nodes] = (trie_node){.byte = c};
            t->ranges[t->n_nodes++].first = k;
            parent->n_children++;
        }
        last = c + 1u;
        t->ranges[t->n_nodes - 1].end = k + 1;
    }
}

/* Takes over the sorted ids. */
static mica_status trie_init(token_trie *t, const grammar_vocab *v, int32_t *ids, size_t n,
                             mica_error *err) {
    t->ids = ids;
    t->n_ids = (uint32_t)n;
    size_t n_nodes = count_trie_nodes(v, ids, n);
    t->nodes = mica_calloc(n_nodes, sizeof(*t->nodes));
    t->ranges = mica_calloc(n_nodes, sizeof(*t->ranges));
    if (!t->nodes || !t->ranges) return fail_memory(err);
    t->n_nodes = 1;
    t->ranges[0].end = t->n_ids;
    uint32_t i = 0;
    for (size_t depth = 0; i < t->n_nodes; depth++) {
        for (uint32_t level_end = t->n_nodes; i < level_end; i++) {
            add_children(t, v, i, depth);
        }
    }
    while (i-- > 0) {
        for (uint32_t k = 0; k < t->nodes[i].n_children; k++) {
            uint32_t h = t->ranges[t->nodes[i].children + k].height + 1;
            if (h > t->ranges[i].height) t->ranges[i].height = h;
        }
    }
    return MICA_OK;
}

/* ---- slices ---- */

/* The characters of a token that is plain text of JSON strings; UINT32_MAX if it is not. */
static uint32_t count_plain_chars(const char *s, size_t n) {
    uint32_t n_chars = 0;
    for (size_t i = 0; i < n; n_chars++) {
        bool is_valid;
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == '"' || c == '\\') return UINT32_MAX;
        i += mica_utf8_step(s + i, n - i, &is_valid);
        if (!is_valid) return UINT32_MAX;
    }
    return n_chars;
}

static mica_status alloc_masks(grammar_vocab *v, mica_error *err) {
    for (int i = 0; i < N_SLICES; i++) {
        v->slices[i] = mica_calloc(GRAMMAR_MASK_WORDS(v->n_ids) + 1, sizeof(**v->slices));
        if (!v->slices[i]) return fail_memory(err);
    }
    for (int c = 0x20; c < N_CHARS; c++) {
        v->with[c] = mica_calloc(GRAMMAR_MASK_WORDS(v->n_ids) + 1, sizeof(**v->with));
        if (!v->with[c]) return fail_memory(err);
    }
    return MICA_OK;
}

static void set_bit(uint64_t *mask, int32_t id) { mask[id >> 6] |= UINT64_C(1) << (id & 63); }

int mica_kind_of_char(unsigned char c) {
    if (memchr(" -./:@_", c, 7)) return c;
    if (c >= 0x80) return CHARS_OTHER;
    if (c >= 'a' && c <= 'z') return CHARS_LOWER;
    if (c >= 'A' && c <= 'Z') return CHARS_UPPER;
    return c >= '0' && c <= '9' ? CHARS_DIGIT : CHARS_RARE;
}

static void fill_with(grammar_vocab *v, int32_t id, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c < 0x80) set_bit(v->with[c], id);
        if (c >= 0x20) set_bit(v->with[mica_kind_of_char(c)], id);
    }
}

static void fill_masks(grammar_vocab *v) {
    for (uint32_t i = 0; i < v->all.n_ids; i++) {
        int32_t id = v->all.ids[i];
        size_t length;
        const char *bytes = vocab_bytes(v, id, &length);
        uint32_t n_chars = count_plain_chars(bytes, length);
        for (uint32_t k = n_chars; k < SLICE_NO_LIMIT; k++) {
            set_bit(v->slices[k], id);
        }
        if (n_chars != UINT32_MAX) set_bit(v->slices[SLICE_NO_LIMIT], id);
        fill_with(v, id, bytes, length);
    }
    for (int c = 0x20; c < N_CHARS; c++) {
        for (size_t w = 0; w < GRAMMAR_MASK_WORDS(v->n_ids); w++) {
            v->n_with[c] += (uint32_t)__builtin_popcountll(v->with[c][w]);
        }
    }
}

/* The tokens that are not in a slice. */
static mica_status part_init(token_trie *t, const grammar_vocab *v, const uint64_t *slice,
                             mica_error *err) {
    int32_t *ids = mica_calloc(v->all.n_ids + 1, sizeof(*ids));
    size_t n = 0;
    if (!ids) return fail_memory(err);
    for (uint32_t i = 0; i < v->all.n_ids; i++) {
        int32_t id = v->all.ids[i];
        if (!(slice[id >> 6] >> (id & 63) & 1)) ids[n++] = id;
    }
    return trie_init(t, v, ids, n, err);
}

/* Appends to `out` the ids of `from` whose size (by size[id]) is more than `above`, by size. */
static mica_status list_by_size(int32_t **out, uint32_t *n_out, const token_trie *from,
                                const uint8_t *size, uint32_t above, mica_error *err) {
    uint32_t at[TRIE_MAX_DEPTH] = {0}; /* by size: how many, then where they go */
    *out = mica_calloc(from->n_ids + 1, sizeof(**out));
    if (!*out) return fail_memory(err);
    for (uint32_t i = 0; i < from->n_ids; i++) {
        at[size[from->ids[i]]]++;
    }
    for (size_t n = TRIE_MAX_DEPTH - 1; n > above; n--) {
        uint32_t n_of_size = at[n];
        at[n] = *n_out;
        *n_out += n_of_size;
    }
    for (uint32_t i = 0; i < from->n_ids; i++) {
        uint8_t n = size[from->ids[i]];
        if (n > above) (*out)[at[n]++] = from->ids[i];
    }
    return MICA_OK;
}

/* Lists of long tokens. */
static mica_status list_long(grammar_vocab *v, mica_error *err) {
    uint8_t *size = mica_calloc(v->n_ids + 1, 1);
    if (!size) return fail_memory(err);
    for (size_t id = 0; id < v->n_ids; id++) {
        size[id] = (uint8_t)(v->off[id + 1] - v->off[id]);
    }
    mica_status st = list_by_size(&v->far_ids, &v->n_far_ids, &v->all, size, LAZY_NEAR_BYTES, err);
    if (!st)
        st = list_by_size(&v->long_ids, &v->n_long_ids, &v->not_plain, size, LAZY_NEAR_CHARS, err);
    for (size_t id = 0; id < v->n_ids; id++) {
        size_t n;
        const char *bytes = vocab_bytes(v, (int32_t)id, &n);
        uint32_t n_chars = count_plain_chars(bytes, n);
        size[id] = n_chars == UINT32_MAX ? 0 : (uint8_t)n_chars;
    }
    if (!st) st = list_by_size(&v->wordy_ids, &v->n_wordy_ids, &v->all, size, SLICE_MAX_CHARS, err);
    v->wordy_chars = mica_calloc(v->n_wordy_ids + 1, 1);
    if (!st && !v->wordy_chars) st = fail_memory(err);
    for (uint32_t i = 0; i < v->n_wordy_ids && !st; i++) {
        v->wordy_chars[i] = size[v->wordy_ids[i]];
    }
    mica_free(size);
    return st;
}

/* How many bytes of whole plain characters a token begins with. */
static uint8_t count_plain_bytes(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        bool is_valid;
        unsigned char c = (unsigned char)s[i];
        size_t width = mica_utf8_step(s + i, n - i, &is_valid);
        if (c < 0x20 || c == '"' || c == '\\' || !is_valid) break;
        i += width;
    }
    return (uint8_t)i;
}

static mica_status append_tail(grammar_vocab *to, text_buffer *all, const grammar_vocab *v,
                               int32_t id, mica_error *err) {
    size_t n;
    const char *bytes = vocab_bytes(v, id, &n);
    uint8_t n_plain = count_plain_bytes(bytes, n);
    mica_status st = MICA_OK;
    while (to->n_ids <= (size_t)id) {
        to->off[++to->n_ids] = (uint32_t)all->n;
    }
    if (n_plain) st = mica_text_buffer_append(all, TRIE_ANY_TEXT, 1, err);
    if (!st) st = mica_text_buffer_append(all, bytes + n_plain, n - n_plain, err);
    to->off[id + 1] = (uint32_t)all->n;
    return st;
}

/* Tails are the tokens of a vocabulary of their own. */
static mica_status make_tails(grammar_vocab *v, mica_error *err) {
    uint32_t n = v->not_plain.n_ids;
    int32_t *ids = mica_calloc(n + 1, sizeof(*ids)), *scratch = mica_calloc(n + 1, sizeof(*ids));
    int32_t *by_id = mica_calloc(v->n_ids + 1, sizeof(*by_id));
    grammar_vocab tails = {.off = mica_calloc(v->n_ids + 1, sizeof(*tails.off))};
    text_buffer all = {0};
    mica_status st = ids && scratch && by_id && tails.off ? MICA_OK : fail_memory(err);
    for (uint32_t i = 0; i < n && !st; i++) {
        ids[i] = v->not_plain.ids[i];
        by_id[ids[i]] = 1;
    }
    for (size_t id = 0; id < v->n_ids && !st; id++) {
        if (by_id[id]) st = append_tail(&tails, &all, v, (int32_t)id, err);
    }
    tails.blob = all.data;
    if (!st) st = find_plain(&tails, err);
    if (!st) {
        sort_ids(&tails, ids, scratch, n, 0);
        st = trie_init(&v->tails, &tails, ids, n, err);
        ids = NULL;
    }
    mica_free(ids);
    mica_free(scratch);
    mica_free(by_id);
    mica_free(tails.off);
    mica_free(tails.blob);
    mica_free(tails.plain_from);
    return st;
}

/* ---- vocabularies ---- */

void mica_grammar_vocab_free(grammar_vocab *v) {
    if (!v) return;
    trie_deinit(&v->all);
    trie_deinit(&v->not_plain);
    trie_deinit(&v->not_short);
    trie_deinit(&v->tails);
    for (int i = 0; i < N_SLICES; i++) {
        mica_free(v->slices[i]);
    }
    for (int c = 0; c < N_CHARS; c++) {
        mica_free(v->with[c]);
    }
    mica_holders_deinit(&v->holders);
    mica_free(v->far_ids);
    mica_free(v->long_ids);
    mica_free(v->wordy_ids);
    mica_free(v->wordy_chars);
    mica_token_mask_deinit(&v->text);
    mica_token_mask_deinit(&v->space);
    mica_free(v->plain_from);
    mica_free(v->blob);
    mica_free(v->off);
    mica_free(v);
}

size_t mica_grammar_vocab_size(const grammar_vocab *v) { return v->n_ids; }

static mica_status build_tries(grammar_vocab *v, mica_error *err) {
    int32_t *ids = mica_calloc(v->n_ids + 1, sizeof(*ids));
    int32_t *scratch = mica_calloc(v->n_ids + 1, sizeof(*scratch));
    size_t n = 0;
    for (size_t id = 0; ids && id < v->n_ids; id++) {
        if (v->off[id + 1] > v->off[id]) ids[n++] = (int32_t)id;
    }
    if (ids && scratch) sort_ids(v, ids, scratch, n, 0);
    mica_free(scratch);
    if (!ids || !scratch) {
        mica_free(ids);
        return fail_memory(err);
    }
    v->all.ids = ids; /* freed with the trie */
    mica_status st = find_plain(v, err);
    if (!st) st = trie_init(&v->all, v, ids, n, err);
    if (!st) st = alloc_masks(v, err);
    if (st) return st;
    fill_masks(v);
    st = mica_holders_init(&v->holders, v, err);
    if (!st) st = part_init(&v->not_plain, v, v->slices[SLICE_NO_LIMIT], err);
    if (!st) st = part_init(&v->not_short, v, v->slices[SLICE_MAX_CHARS], err);
    if (!st) st = list_long(v, err);
    if (!st) st = make_tails(v, err);
    mica_free(v->plain_from);
    v->plain_from = NULL;
    return st ? st : mica_vocab_make_known(v, err);
}

bool mica_vocab_has(const grammar_vocab *v, const char *bytes, size_t n) {
    const token_trie *t = &v->all;
    uint32_t at = 0;
    for (size_t k = 0; k < n; k++) {
        const trie_node *node = &t->nodes[at];
        at = 0;
        for (uint32_t i = node->children; i < node->children + node->n_children && !at; i++) {
            if (t->nodes[i].byte == (uint8_t)bytes[k]) at = i;
        }
        if (!at) return false;
    }
    return t->nodes[at].flags & TRIE_HAS_IDS;
}

static mica_status new_vocab(grammar_vocab **out, size_t n_ids, mica_error *err) {
    grammar_vocab *v = mica_calloc(1, sizeof(*v));
    if (!v) return fail_memory(err);
    v->n_ids = n_ids;
    v->off = mica_calloc(n_ids + 1, sizeof(*v->off));
    if (!v->off) {
        mica_free(v);
        return fail_memory(err);
    }
    *out = v;
    return MICA_OK;
}

/* Whether the bytes can be a token of text: the byte that marks special tokens is not one. */
static bool is_usable(const char *bytes, size_t n) {
    return n && n < TRIE_MAX_DEPTH && !memchr(bytes, GRAMMAR_SPECIAL_BYTE, n);
}

mica_status mica_grammar_vocab_from_bytes(grammar_vocab **out, const char *const *tokens,
                                          const size_t *lengths, size_t n_tokens, mica_error *err) {
    grammar_vocab *v = NULL;
    mica_status st = new_vocab(&v, n_tokens, err);
    if (st) return st;
    text_buffer all = {0};
    for (size_t i = 0; i < n_tokens && !st; i++) {
        if (is_usable(tokens[i], lengths[i]))
            st = mica_text_buffer_append(&all, tokens[i], lengths[i], err);
        v->off[i + 1] = (uint32_t)all.n;
    }
    v->blob = all.data;
    if (!st) st = build_tries(v, err);
    if (st) {
        mica_grammar_vocab_free(v);
        return st;
    }
    *out = v;
    return MICA_OK;
}

/* Appends the bytes of a token of `t`, the mark and the text if it is a special one. */
static mica_status append_token(text_buffer *out, const tokenizer *t, decoder_scratch *scratch,
                                int32_t id, mica_error *err) {
    static const char mark = (char)GRAMMAR_SPECIAL_BYTE;
    if (!vocab_has_token(&t->vocab, id)) return MICA_OK;
    size_t n;
    const char *text = vocab_text(&t->vocab, id, &n);
    uint8_t flags = t->vocab.kind[id], kind = flags & TOKEN_KIND_MASK;
    if (flags & TOKEN_SPECIAL || kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN) {
        if (n + 1 >= TRIE_MAX_DEPTH) return MICA_OK;
        mica_status st = mica_text_buffer_append(out, &mark, 1, err);
        return st ? st : mica_text_buffer_append(out, text, n, err);
    }
    int byte = kind == TOKEN_BYTE ? mica_fallback_byte(text, n) : -1;
    char as_byte = (char)byte;
    if (byte >= 0) {
        text = &as_byte;
        n = 1;
    } else if (!(flags & TOKEN_LITERAL)) {
        mica_status st = mica_decoder_run(&t->decoder, scratch, text, n, false, &text, &n, err);
        if (st) return st;
    }
    return is_usable(text, n) ? mica_text_buffer_append(out, text, n, err) : MICA_OK;
}

/* Why the text of a token may depend on its neighbours; NULL: it does not. What is only done to the
 * first token of a text does not matter, since an answer follows a prompt. */
static const char *find_decoder_fault(const decoder *d) {
    if (d->joins_with_space) return "they are words that are joined with spaces";
    for (const decoder_step *s = d->steps; s; s = s->next) {
        if (s->kind == DECODE_WORDPIECE) return "a space stands before each that does not continue";
        if (s->kind == DECODE_SUFFIX) return "the last one of a text is decoded in another way";
        if (s->kind == DECODE_CTC) return "repeated ones count once";
    }
    return d->needs_last ? "the last one of a text is decoded in another way" : NULL;
}

mica_status mica_grammar_vocab_new(grammar_vocab **out, const tokenizer *t, mica_error *err) {
    const char *fault = find_decoder_fault(&t->decoder);
    if (fault) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: constrained output needs a tokenizer whose tokens are pieces of "
                         "text as they are; here %s",
                         t->name, fault);
    }
    grammar_vocab *v = NULL;
    mica_status st = new_vocab(&v, t->n_tokens, err);
    if (st) return st;
    text_buffer all = {0};
    decoder_scratch scratch = {0};
    for (size_t i = 0; i < v->n_ids && !st; i++) {
        st = append_token(&all, t, &scratch, (int32_t)i, err);
        v->off[i + 1] = (uint32_t)all.n;
    }
    mica_decoder_scratch_deinit(&scratch);
    v->blob = all.data;
    if (!st) st = build_tries(v, err);
    if (st) {
        mica_grammar_vocab_free(v);
        return st;
    }
    *out = v;
    return MICA_OK;
}
