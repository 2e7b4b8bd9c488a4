/* open_words.c: vocab.txt, a token a line: the WordPiece vocabularies of BERT and its kin.
 *
 * The file becomes the tokenizer.json that Transformers makes of it: BERT's normalizer with what
 * the config says of case, accents and Chinese characters, BERT's pre-tokenizer, and a text between
 * the cls and the sep token.
 */
#include "text/tokenizer/older.h"

/* By class without "Fast", or by model_type. */
static const char *const kinds[] = {
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MobileBertTokenizer",
    "ConvBertTokenizer",
    "LayoutLMTokenizer",
    "SqueezeBertTokenizer",
    "bert",
    "distilbert",
    "electra",
    "mobilebert",
    "convbert",
    "layoutlm",
    "squeezebert",
    "nomic_bert",
};

static bool is_known(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i]) == n && memcmp(kinds[i], name, n) == 0) return true;
    }
    return false;
}

/* The class counts; without one, the type of the model. */
static bool is_bert(const older_load *load) {
    const char *class = mica_json_string(mica_json_find_set(load->settings, "tokenizer_class"), "");
    size_t n = strlen(class);
    if (n > 4 && strcmp(class + n - 4, "Fast") == 0) n -= 4;
    return n ? is_known(class, n) : is_known(load->model_type, strlen(load->model_type));
}

/* The text of a special token as the config names it. */
static const char *special_text(const older_load *load, const char *key, const char *usual) {
    const json_value *v = mica_json_find_set(load->settings, key);
    if (v && v->kind == JSON_KIND_OBJECT) v = mica_json_find_set(v, "content");
    return mica_json_string(v, usual);
}

/* ---- writing ---- */

static void put_steps(json_writer *w, const older_load *load) {
    const json_value *accents = mica_json_find_set(load->settings, "strip_accents");
    mica_json_key(w, "normalizer");
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "type", "BertNormalizer");
    mica_json_member_bool(w, "clean_text", true);
    mica_json_member_bool(w, "handle_chinese_chars",
             mica_json_bool(mica_json_find_set(load->settings, "tokenize_chinese_chars"), true));
    mica_json_key(w, "strip_accents");
    if (accents) mica_json_put_bool(w, mica_json_bool(accents, false));
    if (!accents) mica_json_put_null(w);
    mica_json_member_bool(w, "lowercase",
             mica_json_bool(mica_json_find_set(load->settings, "do_lower_case"), true));
    mica_json_end_object(w);
    mica_json_key(w, "pre_tokenizer");
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "type", "BertPreTokenizer");
    mica_json_end_object(w);
    mica_json_key(w, "decoder");
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "type", "WordPiece");
    mica_json_member_cstring(w, "prefix", "##");
    mica_json_member_bool(w, "cleanup", true);
    mica_json_end_object(w);
}

/* The line's text, without white space at its ends, as Transformers reads it. */
static size_t read_line(const char *data, size_t n, size_t begin, size_t *next) {
    const char *newline = memchr(data + begin, '\n', n - begin);
    size_t end = newline ? (size_t)(newline - data) : n;
    *next = end + 1;
    while (end > begin && strchr(" \t\r", data[end - 1])) {
        end--;
    }
    return end - begin;
}

static void put_model(json_writer *w, const older_load *load, const char *data, size_t n) {
    int64_t id = 0;
    mica_json_key(w, "model");
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "type", "WordPiece");
    mica_json_member_cstring(w, "unk_token", special_text(load, "unk_token", "[UNK]"));
    mica_json_member_cstring(w, "continuing_subword_prefix", "##");
    mica_json_key(w, "vocab");
    mica_json_begin_object(w);
    for (size_t begin = 0, next; begin < n; begin = next, id++) {
        size_t n_line = read_line(data, n, begin, &next);
        char *key = mica_strndup(data + begin, n_line);
        if (!key) w->failed = true;
        if (key) mica_json_member_i64(w, key, id);
        mica_free(key);
    }
    mica_json_end_object(w);
    mica_json_end_object(w);
}

/* ---- around a text ---- */

/* The number of the line with this text; -1: there is none. */
static int64_t line_of(const char *data, size_t n, const char *text) {
    int64_t id = 0;
    for (size_t begin = 0, next; begin < n; begin = next, id++) {
        size_t n_line = read_line(data, n, begin, &next);
        if (n_line == strlen(text) && memcmp(data + begin, text, n_line) == 0) return id;
    }
    return -1;
}

static void put_pair(json_writer *w, const char *key, const char *text, int64_t id) {
    mica_json_key(w, key);
    mica_json_begin_array(w);
    mica_json_put_cstring(w, text);
    mica_json_put_i64(w, id);
    mica_json_end_array(w);
}

/* The special tokens, and what stands around a text. */
static void put_ends(json_writer *w, const older_load *load, const char *data, size_t n) {
    static const char *const usual[][2] = {{"cls_token", "[CLS]"},
                                           {"sep_token", "[SEP]"},
                                           {"pad_token", "[PAD]"},
                                           {"unk_token", "[UNK]"},
                                           {"mask_token", "[MASK]"}};
    const char *texts[5];
    int64_t ids[5];
    mica_json_key(w, "added_tokens");
    mica_json_begin_array(w);
    for (size_t i = 0; i < 5; i++) {
        texts[i] = special_text(load, usual[i][0], usual[i][1]);
        ids[i] = line_of(data, n, texts[i]);
        if (ids[i] < 0) continue;
        mica_json_begin_object(w);
        mica_json_member_i64(w, "id", ids[i]);
        mica_json_member_cstring(w, "content", texts[i]);
        mica_json_member_bool(w, "special", true);
        mica_json_end_object(w);
    }
    mica_json_end_array(w);
    if (ids[0] < 0 || ids[1] < 0) return;
    mica_json_key(w, "post_processor");
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "type", "BertProcessing");
    put_pair(w, "cls", texts[0], ids[0]);
    put_pair(w, "sep", texts[1], ids[1]);
    mica_json_end_object(w);
}

mica_status mica_older_open_words(tokenizer **out, const older_load *load, const char *data,
                                  size_t n, mica_error *err) {
    if (!is_bert(load)) return mica_older_refuse(load, "vocab.txt", err);
    tokenizer *t = NULL;
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_cstring(&w, "version", "1.0");
    put_steps(&w, load);
    put_ends(&w, load, data, n);
    put_model(&w, load, data, n);
    mica_json_end_object(&w);
    mica_status st = MICA_OK;
    if (w.failed) st = mica_fail(err, MICA_E_NOMEM, "%s: out of memory", load->folder);
    if (!st) {
        st = mica_tokenizer_parse(&t, w.data, w.n, load->config, load->n_config, load->folder, err);
    }
    mica_json_writer_deinit(&w);
    if (!st) *out = t;
    return st;
}
