/* verb_tokenize.c: `mica tokenize` and `mica detokenize`. Both also take a folder that holds only
 * tokenizer files, and both work on lines of JSON for bulk use. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* ---- shared ---- */

static void write_ids(json_writer *w, const token_list *ids) {
    mica_json_begin_array(w);
    for (size_t i = 0; i < ids->n; i++)
        mica_json_put_i64(w, ids->ids[i]);
    mica_json_end_array(w);
}

/* Prints what the writer holds as one line and empties it. */
static mica_status print_line(json_writer *w, mica_error *err) {
    if (w->failed) return mica_fail(err, MICA_E_NOMEM, "out of memory for the JSON output");
    fwrite(w->data, 1, w->n, stdout);
    putchar('\n');
    return MICA_OK;
}

/* The token as its vocabulary stores it; null for an id that it does not have. */
static void put_piece(json_writer *w, const tokenizer *t, int32_t id) {
    size_t n = 0;
    const char *piece = mica_tokenizer_token(t, id, &n);
    if (piece) {
        mica_json_put_string(w, piece, n);
    } else {
        mica_json_put_null(w);
    }
}

/* {"ids": [...], "pieces": [...]} */
static void write_tokens(json_writer *w, const tokenizer *t, const token_list *ids,
                         bool has_pieces) {
    mica_json_begin_object(w);
    mica_json_key(w, "ids");
    write_ids(w, ids);
    if (has_pieces) {
        mica_json_key(w, "pieces");
        mica_json_begin_array(w);
        for (size_t i = 0; i < ids->n; i++)
            put_piece(w, t, ids->ids[i]);
        mica_json_end_array(w);
    }
    mica_json_end_object(w);
}

/* `where` names the line in messages. */
typedef mica_status (*line_fn)(void *user, const char *where, const json_value *line,
                               mica_error *err);

/* Calls fn with each line of standard input, parsed as JSON. Empty lines are skipped. */
static mica_status each_json_line(line_fn fn, void *user, mica_error *err) {
    char *data = NULL;
    size_t n = 0, line = 0;
    mica_status st = mica_cli_read_stdin(&data, &n, err);
    for (size_t begin = 0; !st && begin < n; line++) {
        const char *newline = memchr(data + begin, '\n', n - begin);
        size_t end = newline ? (size_t)(newline - data) : n;
        if (end > begin) {
            char name[48];
            snprintf(name, sizeof(name), "standard input, line %zu", line + 1);
            mica_arena arena;
            json_value *value;
            mica_arena_init(&arena, 0);
            st = mica_json_parse(&value, data + begin, end - begin, name, false, &arena, err);
            if (!st) st = fn(user, name, value, err);
            mica_arena_deinit(&arena);
        }
        begin = end + 1;
    }
    mica_free(data);
    return st;
}

static mica_status open_tokenizer(tokenizer **out, const char *model_name, mica_error *err) {
    char *path = NULL;
    mica_status st = mica_cli_find_model(&path, model_name, err);
    if (!st) st = mica_tokenizer_open(out, path, err);
    mica_free(path);
    return st;
}

/* ---- tokenize ---- */

typedef struct tokenize_args {
    bool no_special, plain, json, jsonl, pieces;
    tokenizer *tokenizer;
} tokenize_args;

static mica_status encode(const tokenize_args *a, const char *text, size_t n, token_list *ids,
                          mica_error *err) {
    const encode_options options = {.add_special = !a->no_special, .parse_special = !a->plain};
    return mica_tokenizer_encode(a->tokenizer, text, n, options, ids, err);
}

/* A line is a string, or a list of bytes: text of any bytes. *bytes is the caller's to free. */
static mica_status line_text(const char *where, const json_value *line, char **bytes,
                             const char **text, mica_error *err) {
    *bytes = NULL;
    *text = line->kind == JSON_KIND_STRING ? line->string : NULL;
    if (*text) return MICA_OK;
    if (line->kind != JSON_KIND_ARRAY) {
        return mica_fail(err, MICA_E_INVALID,
                         "%s: each line must be a JSON string or an array of byte values", where);
    }
    *text = *bytes = mica_malloc(line->n + 1);
    if (!*bytes) return mica_fail(err, MICA_E_NOMEM, "out of memory for a line of bytes");
    for (size_t i = 0; i < line->n; i++) {
        int64_t byte = mica_json_i64(line->items[i], -1);
        if (byte < 0 || byte > 255)
            return mica_fail(err, MICA_E_INVALID, "%s: item %zu is no byte value", where, i);
        (*bytes)[i] = (char)byte;
    }
    return MICA_OK;
}

static mica_status tokenize_line(void *user, const char *where, const json_value *line,
                                 mica_error *err) {
    const tokenize_args *a = user;
    char *bytes;
    const char *text;
    token_list ids = {0};
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_status st = line_text(where, line, &bytes, &text, err);
    if (!st) st = encode(a, text, line->n, &ids, err);
    if (!st) {
        if (a->pieces) write_tokens(&w, a->tokenizer, &ids, true);
        if (!a->pieces) write_ids(&w, &ids);
        st = print_line(&w, err);
    }
    mica_json_writer_deinit(&w);
    mica_free(ids.ids);
    mica_free(bytes);
    return st;
}

/* A line for each token: its id, a tab, and the piece as a JSON string. */
static mica_status print_pieces(const tokenizer *t, const token_list *ids, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < ids->n && !st; i++) {
        json_writer w;
        mica_json_writer_init(&w, false);
        put_piece(&w, t, ids->ids[i]);
        printf("%d\t", ids->ids[i]);
        st = print_line(&w, err);
        mica_json_writer_deinit(&w);
    }
    return st;
}

static mica_status print_ids(const tokenize_args *a, const token_list *ids, mica_error *err) {
    if (a->pieces && !a->json) return print_pieces(a->tokenizer, ids, err);
    if (!a->json) {
        for (size_t i = 0; i < ids->n; i++)
            printf("%s%d", i ? "," : "", ids->ids[i]);
        putchar('\n');
        return MICA_OK;
    }
    json_writer w;
    mica_json_writer_init(&w, false);
    write_tokens(&w, a->tokenizer, ids, a->pieces);
    mica_status st = print_line(&w, err);
    mica_json_writer_deinit(&w);
    return st;
}

/* `text` NULL: standard input, byte for byte. */
static mica_status tokenize_text(const tokenize_args *a, const char *text, mica_error *err) {
    char *data = NULL;
    size_t n = text ? strlen(text) : 0;
    mica_status st = text ? MICA_OK : mica_cli_read_stdin(&data, &n, err);
    token_list ids = {0};
    if (!st) st = encode(a, text ? text : data, n, &ids, err);
    if (!st) st = print_ids(a, &ids, err);
    mica_free(ids.ids);
    mica_free(data);
    return st;
}

int mica_verb_tokenize(int argc, char **argv) {
    tokenize_args a = {0};
    const arg_spec specs[] = {
        {"no-special", 0, ARG_FLAG, &a.no_special, NULL, "add no BOS, EOS or the like", 0, 0},
        {"plain", 0, ARG_FLAG, &a.plain, NULL, "spellings of special tokens are plain text", 0, 0},
        {"json", 0, ARG_FLAG, &a.json, NULL, "print {\"ids\": [...]}", 0, 0},
        {"jsonl", 0, ARG_FLAG, &a.jsonl, NULL,
         "a JSON string, or an array of bytes, a line in; an array a line out", 0, 0},
        {"pieces", 0, ARG_FLAG, &a.pieces, NULL,
         "a line for each token: the id, a tab, the piece as a JSON string", 0, 0},
    };
    const arg_verb verb = {
        .name = "tokenize",
        .usage = "mica tokenize MODEL [TEXT] [options]",
        .about = "Prints the token ids of TEXT, or of all of standard input, byte for byte.",
        .examples = "  mica tokenize smollm2 'Hello, world!'\n"
                    "  mica tokenize smollm2 --pieces 'Hello, world!'\n"
                    "  mica tokenize gemma3-270m --json < book.txt\n"
                    "  printf '\"one\"\\n\"two\"\\n' | mica tokenize smollm2 --jsonl\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 1,
        .max_words = 2,
    };
    const char *words[2];
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    if (a.jsonl && (a.json || n_words == 2)) {
        fprintf(stderr, "mica tokenize: --jsonl goes with neither --json nor TEXT\n");
        return EXIT_USAGE;
    }
    mica_error err;
    mica_status st = open_tokenizer(&a.tokenizer, words[0], &err);
    if (!st && a.jsonl)
        st = each_json_line(tokenize_line, &a, &err);
    else if (!st)
        st = tokenize_text(&a, n_words == 2 ? words[1] : NULL, &err);
    mica_tokenizer_free(a.tokenizer);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}

/* ---- detokenize ---- */

typedef struct detokenize_args {
    bool skip_special, jsonl, json, pieces;
    const char *ids;
    tokenizer *tokenizer;
} detokenize_args;

/* What a token is, and the text that came out with it; the last entry, of no id, has what came out
 * at the end, if anything. */
static mica_status print_step(const detokenize_args *a, const int32_t *id, const detokenizer *d,
                              json_writer *all, mica_error *err) {
    json_writer line, *w = a->json || a->jsonl ? all : &line;
    mica_json_writer_init(&line, false);
    mica_json_begin_object(w);
    if (id) {
        mica_json_member_i64(w, "id", *id);
        mica_json_key(w, "piece");
        put_piece(w, a->tokenizer, *id);
    }
    mica_json_key(w, "text");
    mica_json_put_string(w, d->n_text ? d->text : "", d->n_text);
    mica_json_end_object(w);
    mica_status st = w == &line ? print_line(w, err) : MICA_OK;
    mica_json_writer_deinit(&line);
    return st;
}

static mica_status print_steps(const detokenize_args *a, const token_list *ids, mica_error *err) {
    detokenizer d;
    json_writer all;
    mica_status st = MICA_OK;
    mica_detokenizer_init(&d, a->tokenizer, a->skip_special);
    mica_json_writer_init(&all, false);
    mica_json_begin_array(&all);
    for (size_t i = 0; i < ids->n && !st; i++) {
        st = mica_detokenizer_push(&d, ids->ids[i], err);
        if (!st) st = print_step(a, &ids->ids[i], &d, &all, err);
    }
    if (!st) st = mica_detokenizer_finish(&d, err);
    if (!st && d.n_text) st = print_step(a, NULL, &d, &all, err);
    mica_json_end_array(&all);
    if (!st && (a->json || a->jsonl)) st = print_line(&all, err);
    mica_json_writer_deinit(&all);
    mica_detokenizer_deinit(&d);
    return st;
}

static mica_status print_text(const detokenize_args *a, const token_list *ids, mica_error *err) {
    char *text = NULL;
    size_t n = 0;
    if (a->pieces) return print_steps(a, ids, err);
    mica_status st =
        mica_tokenizer_decode(a->tokenizer, ids->ids, ids->n, a->skip_special, &text, &n, err);
    if (!st && (a->jsonl || a->json)) {
        json_writer w;
        mica_json_writer_init(&w, false);
        mica_json_put_string(&w, text, n);
        st = print_line(&w, err);
        mica_json_writer_deinit(&w);
    } else if (!st) {
        fwrite(text, 1, n, stdout);
        putchar('\n');
    }
    mica_free(text);
    return st;
}

static mica_status detokenize_line(void *user, const char *where, const json_value *line,
                                   mica_error *err) {
    const detokenize_args *a = user;
    token_list ids = {0};
    mica_status st = MICA_OK;
    if (line->kind != JSON_KIND_ARRAY)
        return mica_fail(err, MICA_E_INVALID, "%s: each line must be an array of token ids", where);
    for (size_t i = 0; !st && i < line->n; i++) {
        int64_t id = mica_json_i64(line->items[i], -1);
        st = id < 0 || id > INT32_MAX
                 ? mica_fail(err, MICA_E_INVALID, "%s: item %zu is no token id", where, i)
                 : mica_token_list_push(&ids, (int32_t)id, err);
    }
    if (!st) st = print_text(a, &ids, err);
    mica_free(ids.ids);
    return st;
}

int mica_verb_detokenize(int argc, char **argv) {
    detokenize_args a = {0};
    const arg_spec specs[] = {
        {"ids", 0, ARG_STRING, &a.ids, "1,2,3", "the token ids", 0, 0},
        {"skip-special", 0, ARG_FLAG, &a.skip_special, NULL, "leave special tokens out", 0, 0},
        {"json", 0, ARG_FLAG, &a.json, NULL, "print a JSON string", 0, 0},
        {"jsonl", 0, ARG_FLAG, &a.jsonl, NULL,
         "an array of ids a line in, a JSON string a line out", 0, 0},
        {"pieces", 0, ARG_FLAG, &a.pieces, NULL,
         "a line for each token: {\"id\": ..., \"piece\": ..., \"text\": ...}", 0, 0},
    };
    const arg_verb verb = {
        .name = "detokenize",
        .usage = "mica detokenize MODEL --ids 1,2,3 | --jsonl [options]",
        .about = "Prints the text of token ids.",
        .examples = "  mica detokenize smollm2 --ids 19556,28,905\n"
                    "  mica detokenize smollm2 --ids 19556,28,905 --pieces\n"
                    "  echo '[19556,28]' | mica detokenize smollm2 --jsonl\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 1,
        .max_words = 1,
    };
    const char *model_name;
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, &model_name, &n_words);
    if (rc) return rc;
    if (!a.ids == !a.jsonl) {
        fprintf(stderr, "mica detokenize: give the ids with either --ids 1,2,3 or --jsonl\n");
        return EXIT_USAGE;
    }
    token_list ids = {0};
    mica_error err;
    if (a.ids && (rc = mica_cli_parse_ids("detokenize", "ids", a.ids, &ids))) {
        mica_free(ids.ids);
        return rc;
    }
    mica_status st = open_tokenizer(&a.tokenizer, model_name, &err);
    if (!st) st = a.jsonl ? each_json_line(detokenize_line, &a, &err) : print_text(&a, &ids, &err);
    mica_tokenizer_free(a.tokenizer);
    mica_free(ids.ids);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
