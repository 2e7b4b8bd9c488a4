/* properties.c: random vocabularies and random bytes against slow models.
 *
 * Heap merging against the definition (rescan for the best pair after every merge), for ranks and
 * for scores; one tokenizer in many threads; decode(encode(x)) = x for any bytes; a stream's pieces
 * against the whole decode; what the stream holds back.
 */
#include "cmocka_base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/codepoint.h"
#include "text/tokenizer/impl.h"

static uint64_t seed = 12345;

static uint32_t rnd(uint32_t n) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* ---- random vocabularies ---- */

typedef struct random_vocab {
    char text[600][64];
    size_t n_text[600];
    float score[600];
    int kind[600];
    int n;
    int left[400], right[400]; /* merges, by rank */
    int n_merges;
} random_vocab;

static int find_text(const random_vocab *v, const char *text, size_t n) {
    for (int i = 0; i < v->n; i++) {
        if (v->n_text[i] == n && memcmp(v->text[i], text, n) == 0) return i;
    }
    return -1;
}

static void add_text(random_vocab *v, const char *text, size_t n, int kind) {
    memcpy(v->text[v->n], text, n);
    v->n_text[v->n] = n;
    v->kind[v->n] = kind;
    v->score[v->n] = -(float)rnd(40); /* many ties */
    v->n++;
}

/* Concatenations of two entries from `first` on; few letters are used so that merges meet. */
static void add_merges(random_vocab *v, int first, int n_letters, int n_merges) {
    for (int tries = 0; v->n_merges < n_merges && tries < 5000; tries++) {
        int n_old = v->n - first;
        int a = first + (int)rnd(tries % 3 ? (uint32_t)n_old : (uint32_t)n_letters);
        int b = first + (int)rnd(tries % 2 ? (uint32_t)n_old : (uint32_t)n_letters);
        char text[64];
        size_t n = v->n_text[a] + v->n_text[b];
        if (n > 24) continue;
        memcpy(text, v->text[a], v->n_text[a]);
        memcpy(text + v->n_text[a], v->text[b], v->n_text[b]);
        if (find_text(v, text, n) < 0) add_text(v, text, n, TOKEN_NORMAL);
        v->left[v->n_merges] = a;
        v->right[v->n_merges++] = b;
    }
}

static tokenizer *open_vocab(const random_vocab *v, const char *model) {
    gguf_bytes g;
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", model);
    gguf_add_string(&g, "tokenizer.ggml.pre", "llama3");
    gguf_add_bool(&g, "tokenizer.ggml.add_space_prefix", false);
    gguf_add_bool(&g, "tokenizer.ggml.add_bos_token", false);
    gguf_add_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    gguf_begin_array(&g, "tokenizer.ggml.tokens", GGUF_VALUE_STRING, (uint64_t)v->n);
    for (int i = 0; i < v->n; i++) {
        gguf_put_text(&g, v->text[i], v->n_text[i]);
    }
    gguf_begin_array(&g, "tokenizer.ggml.scores", GGUF_VALUE_F32, (uint64_t)v->n);
    gguf_put(&g, v->score, 4 * (size_t)v->n);
    gguf_begin_array(&g, "tokenizer.ggml.token_type", GGUF_VALUE_I32, (uint64_t)v->n);
    gguf_put(&g, v->kind, 4 * (size_t)v->n);
    gguf_begin_array(&g, "tokenizer.ggml.merges", GGUF_VALUE_STRING, (uint64_t)v->n_merges);
    for (int i = 0; i < v->n_merges; i++) {
        char line[160];
        int n = snprintf(line, sizeof(line), "%.*s %.*s", (int)v->n_text[v->left[i]],
                         v->text[v->left[i]], (int)v->n_text[v->right[i]], v->text[v->right[i]]);
        gguf_put_text(&g, line, (size_t)n);
    }
    gguf_end(&g);
    gguf_file *file;
    tokenizer *t;
    mica_error err = {0};
    if (mica_gguf_parse(&file, g.data, g.n, "random", &err)) fail_msg("%s", err.message);
    if (mica_tokenizer_open_gguf(&t, file, &err)) fail_msg("%s", err.message);
    mica_gguf_close(file);
    free(g.data);
    return t;
}

static tokenizer *open_byte_level(random_vocab *v, int n_merges) {
    memset(v, 0, sizeof(*v));
    for (unsigned b = 0; b < 256; b++) {
        char text[4];
        add_text(v, text, mica_utf8_put(text, mica_byte_char((uint8_t)b)), TOKEN_NORMAL);
    }
    /* The letters a to e are entries 'a' on; merges of those meet in short random texts. */
    add_merges(v, 'a', 5, n_merges / 2);
    add_merges(v, 0, 256, n_merges);
    return open_vocab(v, "gpt2");
}

/* ---- the definitions ---- */

typedef struct slow_symbols {
    size_t begin[4096], n[4096];
    int id[4096];
    size_t n_symbols;
} slow_symbols;

static void slow_join(slow_symbols *s, size_t at, int id) {
    s->n[at] += s->n[at + 1];
    s->id[at] = id;
    s->n_symbols--;
    for (size_t i = at + 1; i < s->n_symbols; i++) {
        s->begin[i] = s->begin[i + 1];
        s->n[i] = s->n[i + 1];
        s->id[i] = s->id[i + 1];
    }
}

static bool slow_rank_step(const random_vocab *v, slow_symbols *s) {
    for (int rank = 0; rank < v->n_merges; rank++) {
        for (size_t i = 0; i + 1 < s->n_symbols; i++) {
            if (s->id[i] != v->left[rank] || s->id[i + 1] != v->right[rank]) continue;
            char text[64];
            size_t n = v->n_text[s->id[i]], m = v->n_text[s->id[i + 1]];
            memcpy(text, v->text[s->id[i]], n);
            memcpy(text + n, v->text[s->id[i + 1]], m);
            slow_join(s, i, find_text(v, text, n + m));
            return true;
        }
    }
    return false;
}

static bool slow_score_step(const random_vocab *v, slow_symbols *s, const char *text) {
    int best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < s->n_symbols; i++) {
        int id = find_text(v, text + s->begin[i], s->n[i] + s->n[i + 1]);
        if (id < 0 || v->kind[id] != TOKEN_NORMAL) continue;
        if (best >= 0 && v->score[id] <= v->score[best]) continue;
        best = id;
        at = i;
    }
    if (best >= 0) slow_join(s, at, best);
    return best >= 0;
}

static void compare_ids(const tokenizer *t, const char *text, size_t n, const int *ids,
                        size_t n_ids) {
    token_list got = {0};
    mica_error err = {0};
    if (mica_tokenizer_encode(t, text, n, (encode_options){0}, &got, &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(got.n, n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        assert_int_equal(got.ids[i], ids[i]);
    }
    mica_free(got.ids);
}

static void test_rank_merges(void **state) {
    (void)state;
    static random_vocab v;
    static slow_symbols s;
    for (int round = 0; round < 12; round++) {
        tokenizer *t = open_byte_level(&v, 120);
        for (int k = 0; k < 40; k++) {
            char text[400];
            size_t n = 1 + rnd(k < 30 ? 30 : 400);
            s.n_symbols = n;
            for (size_t i = 0; i < n; i++) {
                text[i] = (char)('a' + rnd(5)); /* letters only: one pre-token */
                s.begin[i] = i;
                s.n[i] = 1;
                s.id[i] = (uint8_t)text[i];
            }
            char whole[64];
            memcpy(whole, text, n < 64 ? n : 64);
            int id = n <= 24 ? find_text(&v, whole, n) : -1;
            if (id >= 0) { /* pre "llama3" takes a piece that is a token as it is */
                s.n_symbols = 1;
                s.id[0] = id;
            }
            while (id < 0 && slow_rank_step(&v, &s)) {
            }
            compare_ids(t, text, n, s.id, s.n_symbols);
        }
        mica_tokenizer_free(t);
    }
}

/* With the mark of a space as a letter in every other round: words are then cut where no piece can
 * reach across, and words that are pieces are remembered. */
static void test_score_merges(void **state) {
    (void)state;
    static random_vocab v;
    static slow_symbols s;
    for (int round = 0; round < 40; round++) {
        const char *const letters[] = {"a", "b", "c", "d", round % 2 ? "\xE2\x96\x81" : "e"};
        memset(&v, 0, sizeof(v));
        add_text(&v, "<unk>", 5, TOKEN_UNKNOWN);
        for (int c = 0; c < 5; c++) {
            add_text(&v, letters[c], strlen(letters[c]), TOKEN_NORMAL);
        }
        add_merges(&v, 1, 5, round % 4 < 2 ? 8 : 80);
        tokenizer *t = open_vocab(&v, "llama");
        for (int k = 0; k < 40; k++) {
            char text[900];
            size_t n_text = 0;
            s.n_symbols = 1 + rnd(k < 30 ? 30 : 300);
            for (size_t i = 0; i < s.n_symbols; i++) {
                uint32_t letter = rnd(5);
                s.begin[i] = n_text;
                s.n[i] = strlen(letters[letter]);
                s.id[i] = 1 + (int)letter;
                memcpy(text + n_text, letters[letter], s.n[i]);
                n_text += s.n[i];
            }
            while (slow_score_step(&v, &s, text)) {
            }
            compare_ids(t, text, n_text, s.id, s.n_symbols);
        }
        mica_tokenizer_free(t);
    }
}

/* ---- threads ---- */

#define N_SHARED 400

typedef struct shared_texts {
    const tokenizer *t;
    char text[N_SHARED][200];
    size_t n_text[N_SHARED];
    token_list expected[N_SHARED];
} shared_texts;

/* The number of texts that come out otherwise. */
static void *encode_shared(void *user) {
    const shared_texts *s = user;
    size_t n_wrong = 0;
    for (size_t i = 0; i < N_SHARED; i++) {
        token_list ids = {0};
        mica_status st =
            mica_tokenizer_encode(s->t, s->text[i], s->n_text[i], (encode_options){0}, &ids, NULL);
        const token_list *e = &s->expected[i];
        bool is_same = !st && ids.n == e->n && memcmp(ids.ids, e->ids, ids.n * 4) == 0;
        n_wrong += !is_same;
        mica_free(ids.ids);
    }
    return (void *)n_wrong;
}

/* What one thread learns about words is what the others would. */
static void test_threads(void **state) {
    (void)state;
    static random_vocab v;
    static shared_texts s;
    static const char *const letters[] = {"a", "b", "c", "\xE2\x96\x81"};
    add_text(&v, "<unk>", 5, TOKEN_UNKNOWN);
    for (int c = 0; c < 4; c++) {
        add_text(&v, letters[c], strlen(letters[c]), TOKEN_NORMAL);
    }
    add_merges(&v, 1, 4, 60);
    tokenizer *alone = open_vocab(&v, "llama"), *shared = open_vocab(&v, "llama");
    s.t = shared;
    for (size_t i = 0; i < N_SHARED; i++) {
        for (size_t k = 1 + rnd(60); k > 0; k--) {
            const char *letter = letters[rnd(4)];
            memcpy(s.text[i] + s.n_text[i], letter, strlen(letter));
            s.n_text[i] += strlen(letter);
        }
        assert_int_equal(mica_tokenizer_encode(alone, s.text[i], s.n_text[i], (encode_options){0},
                                               &s.expected[i], NULL),
                         MICA_OK);
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, encode_shared, &s), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *n_wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &n_wrong), 0);
        assert_null(n_wrong);
    }
    for (size_t i = 0; i < N_SHARED; i++) {
        mica_free(s.expected[i].ids);
    }
    mica_tokenizer_free(alone);
    mica_tokenizer_free(shared);
}

/* ---- round trips and streams ---- */

static size_t random_bytes(char *out, size_t max) {
    static const char *const bits[] = {"\xF0\x9F\x91\xA9\xE2\x80\x8D",
                                       "\xC3\xA9",
                                       "\xE2\x96\x81",
                                       "\xED\xA0\xBD",
                                       "\xF0\x9F",
                                       "\xC0\xAF",
                                       "  ",
                                       "\r\n",
                                       "abc",
                                       "e\xCC\x81",
                                       "\xEF\xBF\xBD",
                                       "\xFF",
                                       "12345",
                                       "don't"};
    size_t n = 0, n_parts = 1 + rnd(20);
    for (size_t i = 0; i < n_parts && n + 16 < max; i++) {
        if (rnd(3) == 0) {
            out[n++] = (char)rnd(256);
        } else {
            const char *s = bits[rnd(sizeof(bits) / sizeof(bits[0]))];
            memcpy(out + n, s, strlen(s));
            n += strlen(s);
        }
    }
    return n;
}

static void test_round_trip(void **state) {
    (void)state;
    static random_vocab v;
    tokenizer *t = open_byte_level(&v, 200);
    mica_error err = {0};
    for (int k = 0; k < 20000; k++) {
        char text[512];
        size_t n = k < 256 ? 1 : random_bytes(text, sizeof(text));
        if (k < 256) text[0] = (char)k;
        token_list ids = {0};
        if (mica_tokenizer_encode(t, text, n, (encode_options){0}, &ids, &err)) {
            fail_msg("%s", err.message);
        }
        /* The ids spell the bytes; as text, ill-formed ones are replaced. */
        size_t n_spelt = 0;
        for (size_t i = 0; i < ids.n; i++) {
            size_t n_token;
            const char *token = mica_tokenizer_token(t, ids.ids[i], &n_token);
            char space[64];
            text_buffer bytes = {.data = space, .capacity = sizeof(space)};
            assert_true(mica_byte_alphabet_unmap(&bytes, token, n_token));
            assert_true(n_spelt + bytes.n <= n);
            assert_memory_equal(space, text + n_spelt, bytes.n);
            n_spelt += bytes.n;
        }
        assert_int_equal(n_spelt, n);
        char *back;
        size_t n_back;
        if (mica_tokenizer_decode(t, ids.ids, ids.n, false, &back, &n_back, &err)) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(utf8_valid_prefix(back, n_back), n_back);
        if (utf8_valid_prefix(text, n) == n) {
            assert_int_equal(n_back, n);
            assert_memory_equal(back, text, n);
        }
        mica_free(back);
        mica_free(ids.ids);
    }
    mica_tokenizer_free(t);
}

/* One U+FFFD for each maximal ill-formed part: the definition, on the whole text. */
static size_t replace_all(const char *text, size_t n, char *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < n;) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid);
        memcpy(out + n_out, is_valid ? text + i : "\xEF\xBF\xBD", is_valid ? width : 3);
        n_out += is_valid ? width : 3;
        i += width;
    }
    return n_out;
}

static void test_stream(void **state) {
    (void)state;
    static random_vocab v;
    tokenizer *t = open_byte_level(&v, 200);
    mica_error err = {0};
    for (int k = 0; k < 20000; k++) {
        int32_t ids[40];
        size_t n_ids = rnd(40), n_text = 0, n_spelt = 0;
        char text[8192], spelt[4096], expected[8192];
        detokenizer d;
        mica_detokenizer_init(&d, t, false);
        for (size_t i = 0; i < n_ids; i++) {
            ids[i] = rnd(9) ? (int32_t)(rnd(2) ? 0x80 + rnd(128) : rnd((uint32_t)v.n))
                            : (int32_t)rnd(2000) - 500; /* some do not exist */
            if (mica_detokenizer_push(&d, ids[i], &err)) fail_msg("%s", err.message);
            assert_true(d.n_held >= 0 && d.n_held <= 3);
            assert_int_equal(utf8_valid_prefix(d.text, d.n_text), d.n_text);
            if (d.n_text) memcpy(text + n_text, d.text, d.n_text);
            n_text += d.n_text;
            if (ids[i] < 0 || ids[i] >= v.n) continue;
            text_buffer bytes = {.data = spelt + n_spelt, .capacity = 64};
            assert_true(mica_byte_alphabet_unmap(&bytes, v.text[ids[i]], v.n_text[ids[i]]));
            n_spelt += bytes.n;
        }
        if (mica_detokenizer_finish(&d, &err)) fail_msg("%s", err.message);
        if (d.n_text) memcpy(text + n_text, d.text, d.n_text);
        n_text += d.n_text;
        mica_detokenizer_deinit(&d);
        size_t n_expected = replace_all(spelt, n_spelt, expected), n_whole;
        char *whole;
        if (mica_tokenizer_decode(t, ids, n_ids, false, &whole, &n_whole, &err)) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(n_text, n_expected);
        assert_memory_equal(text, expected, n_text);
        assert_int_equal(n_whole, n_text);
        assert_memory_equal(whole, text, n_text);
        mica_free(whole);
    }
    mica_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_merges), cmocka_unit_test(test_score_merges),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
