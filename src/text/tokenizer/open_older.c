/* open_older.c: folders without tokenizer.json.
 *
 * tokenizer.model is SentencePiece's or, as some models ship it, a list of "base64 rank" lines;
 * such lists also come as *.tiktoken. tekken.json is Mistral's, vocab.txt BERT's, vocab.json and
 * merges.txt are GPT-2's. What these files do not say, as the pattern that cuts the text, follows
 * from the kind that the config names: an unknown kind is an error, not a guess.
 */
#include "text/tokenizer/older.h"

#define MAX_CONFIG_BYTES (64u << 20)

/* clang-format off */
static const older_kind kinds[] = {
    {"GPT2Tokenizer", "gpt-2", RANKS_GPT2, false, false, false},
    {"RobertaTokenizer", "gpt-2", RANKS_OTHER, false, true, true},
    {"BartTokenizer", "gpt-2", RANKS_OTHER, false, true, true},
    {"CodeGenTokenizer", "gpt-2", RANKS_GPT2, false, false, false},
    {"WhisperTokenizer", "gpt-2", RANKS_OTHER, false, false, false},
    {"LongformerTokenizer", "gpt-2", RANKS_OTHER, false, true, true},
    {"Qwen2Tokenizer", "qwen2", RANKS_QWEN, true, false, false},
    {"QWenTokenizer", "qwen2", RANKS_QWEN, true, false, false},
    {"TikTokenTokenizer", "kimi-k2", RANKS_OTHER, false, false, false},
    {"gpt2", "gpt-2", RANKS_GPT2, false, false, false},
    {"roberta", "gpt-2", RANKS_OTHER, false, true, true},
    {"opt", "gpt-2", RANKS_OTHER, false, false, false},
    {"gpt_neox", "gpt-2", RANKS_OTHER, false, false, false},
    {"qwen", "qwen2", RANKS_QWEN, true, false, false},
    {"qwen2", "qwen2", RANKS_QWEN, true, false, false},
    {"qwen3", "qwen2", RANKS_QWEN, true, false, false},
    {"llama", "llama-bpe", RANKS_LLAMA3, false, true, false},
    {"llama4_text", "llama4", RANKS_LLAMA4, false, true, false},
    {"kimi_k2", "kimi-k2", RANKS_OTHER, false, false, false},
};

/* tiktoken's own files. */
static const older_kind files[] = {
    {"r50k_base.tiktoken", "gpt-2", RANKS_GPT2, false, false, false},
    {"p50k_base.tiktoken", "gpt-2", RANKS_GPT2, false, false, false},
    {"gpt2.tiktoken", "gpt-2", RANKS_GPT2, false, false, false},
    {"cl100k_base.tiktoken", "dbrx", RANKS_CL100K, false, false, false},
    {"o200k_base.tiktoken", "gpt-4o", RANKS_O200K, false, false, false},
    {"o200k_harmony.tiktoken", "gpt-4o", RANKS_OTHER, false, false, false},
    {"qwen.tiktoken", "qwen2", RANKS_QWEN, true, false, false},
};
/* clang-format on */

static void load_deinit(older_load *load) {
    mica_free(load->config);
    mica_arena_deinit(&load->arena);
}

static mica_status read_file(const older_load *load, const char *name, size_t max_bytes,
                             char **data, size_t *n, mica_error *err) {
    char *path = mica_path_join(load->folder, name);
    *data = NULL;
    *n = 0;
    if (!path) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", load->folder);
    mica_status st =
        mica_path_exists(path) ? mica_file_read(data, n, path, max_bytes, err) : MICA_OK;
    mica_free(path);
    return st;
}

mica_status mica_older_read_file(const older_load *load, const char *name, char **data, size_t *n,
                                 mica_error *err) {
    return read_file(load, name, OLDER_MAX_VOCAB_BYTES, data, n, err);
}

static mica_status read_configs(older_load *load, mica_error *err) {
    char *data;
    size_t n;
    json_value *config = NULL;
    mica_status st = read_file(load, "tokenizer_config.json", MAX_CONFIG_BYTES, &load->config,
                               &load->n_config, err);
    if (!st && load->config) {
        st = mica_json_parse(&load->settings, load->config, load->n_config, "tokenizer_config.json",
                             true, &load->arena, err);
    }
    if (!st) st = read_file(load, "config.json", MAX_CONFIG_BYTES, &data, &n, err);
    if (st || !data) return st;
    st = mica_json_parse(&config, data, n, "config.json", true, &load->arena, err);
    const char *type = st ? "" : mica_json_string(mica_json_find(config, "model_type"), "");
    if (strlen(type) < sizeof(load->model_type)) strcpy(load->model_type, type);
    mica_free(data);
    return st;
}

/* ---- byte-level vocabularies ---- */

static const older_kind *find_in(const older_kind *list, size_t n_list, const char *name,
                                 size_t n) {
    for (size_t i = 0; i < n_list; i++) {
        if (strlen(list[i].name) == n && memcmp(list[i].name, name, n) == 0) return &list[i];
    }
    return NULL;
}

#define FIND(list, name, n) find_in(list, sizeof(list) / sizeof((list)[0]), name, n)

const older_kind *mica_older_find_kind(const older_load *load, const char *file) {
    const char *class = mica_json_string(mica_json_find(load->settings, "tokenizer_class"), "");
    size_t n = strlen(class);
    if (n > 4 && strcmp(class + n - 4, "Fast") == 0) n -= 4;
    const older_kind *kind = FIND(files, file, strlen(file));
    if (!kind) kind = FIND(kinds, class, n);
    return kind ? kind : FIND(kinds, load->model_type, strlen(load->model_type));
}

mica_status mica_older_refuse(const older_load *load, const char *file, mica_error *err) {
    const char *class = mica_json_string(mica_json_find(load->settings, "tokenizer_class"), "");
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s: %s does not say how text is cut, and neither tokenizer_class \"%s\" nor "
                     "model_type \"%s\" is a known kind; a tokenizer.json would say it",
                     load->folder, file, class, load->model_type);
}

mica_status mica_older_finish_bytes(tokenizer *t, const older_load *load, const older_kind *kind,
                                    mica_error *err) {
    step_loader l = mica_tokenizer_loader(t);
    gguf_pre flags;
    pre_tokenizer space = {.kind = PRE_PREFIX_SPACE}, bytes = {.kind = PRE_BYTES};
    bool has_space = mica_json_bool(mica_json_find_set(load->settings, "add_prefix_space"), false);
    bool bos = mica_json_bool(mica_json_find_set(load->settings, "add_bos_token"), kind->adds_bos);
    bool eos = mica_json_bool(mica_json_find_set(load->settings, "add_eos_token"), kind->adds_eos);
    mica_status st = MICA_OK;
    if (has_space) st = mica_pre_tokenizer_append(&t->pre_tokenizers, space, &l, err);
    if (!st) st = mica_gguf_pre_apply(t, kind->pre, strlen(kind->pre), &flags, err);
    if (!st) st = mica_pre_tokenizer_append(&t->pre_tokenizers, bytes, &l, err);
    t->is_byte_level = true;
    if (!st && bos && t->bos >= 0) st = mica_token_list_push(&t->prefix, t->bos, err);
    if (!st && eos && t->eos >= 0) st = mica_token_list_push(&t->suffix, t->eos, err);
    return st;
}

/* ---- vocab.json and merges.txt ---- */

/* The lines as a JSON array. */
static void write_merges(json_writer *w, const char *merges, size_t n) {
    mica_json_begin_array(w);
    for (size_t begin = 0; begin < n;) {
        const char *newline = memchr(merges + begin, '\n', n - begin);
        size_t end = newline ? (size_t)(newline - merges) : n, next = end + 1;
        if (end > begin && merges[end - 1] == '\r') end--;
        if (end > begin) mica_json_put_string(w, merges + begin, end - begin);
        begin = next;
    }
    mica_json_end_array(w);
}

/* Both files as one tokenizer.json. */
static mica_status join_files(text_buffer *out, const older_kind *kind, const char *vocab_json,
                              size_t n_vocab, const char *merges, size_t n_merges,
                              mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    write_merges(&w, merges, n_merges);
    const char *form = kind->is_nfc ? "{\"type\":\"NFC\"}" : "null";
    static const char head[] = "{\"version\":\"1.0\",\"normalizer\":";
    static const char model[] =
        ",\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":";
    static const char middle[] = ",\"merges\":";
    const struct {
        const char *text;
        size_t n;
    } parts[] = {{head, sizeof(head) - 1},
                 {form, strlen(form)},
                 {model, sizeof(model) - 1},
                 {vocab_json, n_vocab},
                 {middle, sizeof(middle) - 1},
                 {w.data, w.n},
                 {"}}", 2}};
    mica_status st = MICA_OK;
    if (w.failed) st = mica_fail(err, MICA_E_NOMEM, "out of memory for merges.txt");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !st; i++) {
        st = mica_text_buffer_append(out, parts[i].text, parts[i].n, err);
    }
    mica_json_writer_deinit(&w);
    return st;
}

static mica_status open_merges(tokenizer **out, const older_load *load, const char *vocab_json,
                               size_t n_vocab, mica_error *err) {
    char *merges = NULL;
    size_t n_merges = 0;
    const older_kind *kind = mica_older_find_kind(load, "vocab.json");
    text_buffer json = {0};
    tokenizer *t = NULL;
    mica_status st = kind ? MICA_OK : mica_older_refuse(load, "vocab.json", err);
    if (!st) st = mica_older_read_file(load, "merges.txt", &merges, &n_merges, err);
    if (!st && !merges) {
        st = mica_fail(err, MICA_E_NOT_FOUND, "%s: vocab.json without merges.txt", load->folder);
    }
    if (!st) st = join_files(&json, kind, vocab_json, n_vocab, merges, n_merges, err);
    mica_free(merges);
    if (!st) {
        st = mica_tokenizer_parse(&t, json.data, json.n, load->config, load->n_config, load->folder,
                                  err);
    }
    if (!st) st = mica_older_finish_bytes(t, load, kind, err);
    mica_text_buffer_deinit(&json);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}

/* ---- which file ---- */

static mica_status open_file(tokenizer **out, const older_load *load, const char *file,
                             const char *data, size_t n, mica_error *err) {
    if (strcmp(file, "vocab.json") == 0) return open_merges(out, load, data, n, err);
    if (strcmp(file, "vocab.txt") == 0) return mica_older_open_words(out, load, data, n, err);
    if (strcmp(file, "tekken.json") == 0) return mica_older_open_tekken(out, load, data, n, err);
    if (mica_older_looks_like_ranks(data, n)) {
        return mica_older_open_ranks(out, load, file, data, n, err);
    }
    char *path = mica_path_join(load->folder, file);
    if (!path) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", load->folder);
    mica_status st =
        mica_tokenizer_parse_spm(out, (const uint8_t *)data, n, load->settings, path, err);
    mica_free(path);
    return st;
}

static mica_status try_file(tokenizer **out, older_load *load, const char *file, mica_error *err) {
    char *data;
    size_t n;
    mica_status st = mica_older_read_file(load, file, &data, &n, err);
    if (st || !data) return st;
    st = read_configs(load, err);
    if (!st) st = open_file(out, load, file, data, n, err);
    mica_free(data);
    return st;
}

mica_status mica_tokenizer_open_older(tokenizer **out, const char *folder, mica_error *err) {
    static const char *const names[] = {"tokenizer.model", "tiktoken.model", "tekken.json",
                                        "vocab.json", "vocab.txt"};
    older_load load = {.folder = folder};
    char **lists = NULL;
    size_t n_lists = 0;
    mica_status st = MICA_OK;
    mica_arena_init(&load.arena, 0);
    *out = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !st && !*out; i++) {
        st = try_file(out, &load, names[i], err);
    }
    if (!st && !*out) {
        st = mica_folder_list(&lists, &n_lists, folder, "", ".tiktoken", err);
        if (!st && n_lists == 1) st = try_file(out, &load, lists[0], err);
        mica_names_free(lists, n_lists);
    }
    load_deinit(&load);
    return st;
}
