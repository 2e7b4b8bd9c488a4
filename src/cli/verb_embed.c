/* verb_embed.c: `mica embed`: texts to vectors, as lines of numbers, JSON or a NumPy file. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "engine/embed_text.h"

#define MAX_FILE_BYTES ((size_t)1 << 30)

enum { BATCH_TEXTS = 16 };

typedef struct embed_args {
    compute_options compute;
    arg_list texts;
    const char *file, *ids, *pooling, *instruction, *prompt_name, *output;
    int64_t n_dims, chunk;
    bool normalize, no_normalize, truncate, json;
} embed_args;

/* What one run holds; released by run_deinit. */
typedef struct embed_run {
    const embed_args *args;
    char *path, *data, *instruction; /* data: the file's or standard input's bytes */
    engine *engine;
    tokenizer *tokenizer;
    const char *prompt; /* put before each text; NULL: nothing */
    embed_options options;
    const char **texts; /* [n], each of sizes[i] bytes */
    size_t *sizes;
    token_list ids;     /* of all texts, one behind another */
    embed_text *inputs; /* [n] */
    float *vectors;     /* [n, n_dims] */
    size_t n;
    int64_t n_dims;
    cli_progress progress;
} embed_run;

static void run_deinit(embed_run *r) {
    mica_free(r->path);
    mica_free(r->data);
    mica_free(r->instruction);
    mica_tokenizer_free(r->tokenizer);
    mica_engine_close(r->engine);
    mica_free(r->texts);
    mica_free(r->sizes);
    mica_free(r->ids.ids);
    mica_free(r->inputs);
    mica_free(r->vectors);
}

/* ---- texts ---- */

static mica_status no_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for the texts");
}

static mica_status reserve_texts(embed_run *r, size_t n, mica_error *err) {
    r->texts = mica_calloc(n, sizeof(*r->texts));
    r->sizes = mica_calloc(n, sizeof(*r->sizes));
    r->inputs = mica_calloc(n, sizeof(*r->inputs));
    return r->texts && r->sizes && r->inputs ? MICA_OK : no_memory(err);
}

/* A text a line; what follows the last line feed is one unless it is empty. */
static mica_status cut_lines(embed_run *r, size_t n_bytes, mica_error *err) {
    size_t n_lines = n_bytes > 0 && r->data[n_bytes - 1] != '\n';
    for (size_t i = 0; i < n_bytes; i++)
        n_lines += r->data[i] == '\n';
    mica_status st = reserve_texts(r, n_lines + 1, err);
    if (st) return st;
    for (size_t begin = 0; begin < n_bytes;) {
        const char *newline = memchr(r->data + begin, '\n', n_bytes - begin);
        size_t end = newline ? (size_t)(newline - r->data) : n_bytes;
        size_t n = end - begin;
        if (n && r->data[end - 1] == '\r') n--;
        r->texts[r->n] = r->data + begin;
        r->sizes[r->n++] = n;
        begin = end + 1;
    }
    return MICA_OK;
}

static mica_status read_texts(embed_run *r, mica_error *err) {
    const embed_args *a = r->args;
    size_t n_bytes = 0;
    mica_status st = MICA_OK;
    if (a->texts.n) {
        if ((st = reserve_texts(r, (size_t)a->texts.n, err))) return st;
        for (; r->n < (size_t)a->texts.n; r->n++) {
            r->texts[r->n] = a->texts.items[r->n];
            r->sizes[r->n] = strlen(r->texts[r->n]);
        }
        return MICA_OK;
    }
    st = a->file && strcmp(a->file, "-")
             ? mica_file_read(&r->data, &n_bytes, a->file, MAX_FILE_BYTES, err)
             : mica_cli_read_stdin(&r->data, &n_bytes, err);
    if (!st) st = cut_lines(r, n_bytes, err);
    if (!st && !r->n) st = mica_fail(err, MICA_E_INVALID, "there is no text to embed");
    return st;
}

/* The prompt that a flag asks for, else the model's default. */
static mica_status choose_prompt(embed_run *r, mica_error *err) {
    const embedding_config *c = mica_engine_embedding(r->engine);
    const char *name = r->args->prompt_name ? r->args->prompt_name : c->default_prompt;
    if (r->args->instruction) {
        r->prompt = r->instruction = mica_embed_instruction(r->args->instruction);
        return r->prompt ? MICA_OK : no_memory(err);
    }
    if (!name || !*name) return MICA_OK;
    r->prompt = mica_embedding_prompt(c, name);
    if (r->prompt) return MICA_OK;
    char names[256] = "none";
    for (size_t i = 0, at = 0; i < (size_t)c->n_prompts && at < sizeof(names); i++) {
        int n = snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "", c->prompts[i].name);
        at += n > 0 ? (size_t)n : 0;
    }
    return mica_fail(err, MICA_E_INVALID, "%s: no prompt is called '%.60s'; there are: %s", r->path,
                     name, names);
}

/* ids of all texts; pointers into the list are set once it has its length. */
static mica_status encode_texts(embed_run *r, mica_error *err) {
    const embedding_config *c = mica_engine_embedding(r->engine);
    int64_t cut = r->args->truncate ? mica_engine_max_embedded(r->engine) : 0;
    size_t begin = 0;
    for (size_t i = 0; i < r->n; i++) {
        const embed_words words = {r->prompt, r->prompt ? strlen(r->prompt) : 0, r->texts[i],
                                   r->sizes[i]};
        mica_status st =
            mica_embed_encode(c, r->tokenizer, &words, cut, &r->ids, &r->inputs[i].n_prompt, err);
        if (st) return st;
        r->inputs[i].n_ids = (int64_t)(r->ids.n - begin);
        begin = r->ids.n;
    }
    begin = 0;
    for (size_t i = 0; i < r->n; i++) {
        r->inputs[i].ids = r->ids.ids + begin;
        begin += (size_t)r->inputs[i].n_ids;
    }
    return MICA_OK;
}

static mica_status get_inputs(embed_run *r, mica_error *err) {
    mica_status st;
    if (r->args->ids) { /* parsed already */
        if ((st = reserve_texts(r, 1, err))) return st;
        r->inputs[0] = (embed_text){.ids = r->ids.ids, .n_ids = (int64_t)r->ids.n};
        r->n = 1;
        return MICA_OK;
    }
    if ((st = read_texts(r, err))) return st;
    if ((st = choose_prompt(r, err))) return st;
    if ((st = mica_tokenizer_open(&r->tokenizer, r->path, err))) return st;
    return encode_texts(r, err);
}

/* ---- vectors ---- */

static bool on_progress(void *user, int64_t done, int64_t total) {
    embed_run *r = user;
    mica_progress_step(&r->progress, (uint64_t)done, (uint64_t)total);
    return !mica_cli_interrupted();
}

/* What the flags say, else the model's own files. */
static mica_status choose_options(embed_run *r, mica_error *err) {
    const embed_args *a = r->args;
    const embedding_config *c = mica_engine_embedding(r->engine);
    if (!c->is_declared && !a->pooling)
        return mica_fail(
            err, MICA_E_UNSUPPORTED,
            "%s: a %s without modules.json is no embedding model; --pooling last makes "
            "vectors of its hidden states all the same",
            r->path, mica_model_config(mica_engine_model(r->engine))->model_type);
    mica_embed_defaults(r->engine, &r->options);
    if (a->pooling) mica_pooling_find(a->pooling, &r->options.pooling);
    if (a->normalize || a->no_normalize) r->options.normalize = a->normalize;
    r->options.n_dims = a->n_dims;
    r->options.on_progress = on_progress;
    r->options.user = r;
    int64_t size = mica_engine_embedding_size(r->engine);
    r->n_dims = a->n_dims ? a->n_dims : size;
    return MICA_OK;
}

static mica_status embed(embed_run *r, mica_error *err) {
    mica_status st = choose_options(r, err);
    if (!st) st = get_inputs(r, err);
    if (st) return st;
    r->vectors = mica_calloc(r->n * (size_t)r->n_dims, sizeof(*r->vectors));
    if (!r->vectors) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu vectors", r->n);
    mica_progress_begin(&r->progress, "embedding");
    st = mica_embed(r->engine, r->inputs, (int64_t)r->n, &r->options, r->vectors, err);
    mica_progress_end(&r->progress);
    return st;
}

/* ---- output ---- */

static void put_vector(json_writer *w, const float *vector, int64_t n) {
    mica_json_begin_array(w);
    for (int64_t k = 0; k < n; k++)
        mica_json_put_float(w, vector[k]);
    mica_json_end_array(w);
}

static mica_status print_json(const embed_run *r, mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_i64(&w, "dimensions", r->n_dims);
    mica_json_member_cstring(&w, "pooling", mica_pooling_name(r->options.pooling));
    mica_json_member_bool(&w, "normalized", r->options.normalize);
    mica_json_member_cstring(&w, "prompt", r->prompt);
    mica_json_member_u64(&w, "tokens", r->ids.n);
    mica_json_key(&w, "data");
    mica_json_begin_array(&w);
    for (size_t i = 0; i < r->n; i++) {
        mica_json_begin_object(&w);
        mica_json_member_u64(&w, "index", i);
        mica_json_member_i64(&w, "tokens", r->inputs[i].n_ids);
        mica_json_key(&w, "embedding");
        put_vector(&w, r->vectors + i * (size_t)r->n_dims, r->n_dims);
        mica_json_end_object(&w);
    }
    mica_json_end_array(&w);
    mica_json_end_object(&w);
    mica_status st =
        w.failed ? mica_fail(err, MICA_E_NOMEM, "out of memory for the JSON output") : MICA_OK;
    if (!st) {
        fwrite(w.data, 1, w.n, stdout);
        putchar('\n');
    }
    mica_json_writer_deinit(&w);
    return st;
}

static mica_status write_npy(const embed_run *r, mica_error *err) {
    mica_writer file;
    size_t n_bytes = r->n * (size_t)r->n_dims * sizeof(float);
    mica_status st = mica_cli_open_npy(&file, r->args->output, (int64_t)r->n, r->n_dims, err);
    if (!st) st = mica_writer_put(&file, r->vectors, n_bytes, err);
    return mica_writer_close(&file, st, err);
}

static mica_status write_out(const embed_run *r, mica_error *err) {
    mica_status st = r->args->output ? write_npy(r, err) : MICA_OK;
    if (!st && r->args->json) st = print_json(r, err);
    if (st || r->args->json || r->args->output) return st;
    for (size_t i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->n_dims; k++)
            printf("%.9g%c", (double)r->vectors[i * (size_t)r->n_dims + (size_t)k],
                   k + 1 < r->n_dims ? ' ' : '\n');
    return MICA_OK;
}

/* ---- arguments ---- */

static int check(const embed_args *a) {
    pooling_kind unused;
    const char *wrong = NULL;
    int n_sources = (a->texts.n > 0) + (a->file != NULL) + (a->ids != NULL);
    if (n_sources > 1) wrong = "give the texts with one of -p, --file and --ids";
    if (a->normalize && a->no_normalize) wrong = "either --normalize or --no-normalize";
    if (a->instruction && a->prompt_name) wrong = "either --instruction or --prompt-name";
    if (a->ids && (a->instruction || a->prompt_name || a->truncate))
        wrong = "--ids are taken as they are: no --instruction, --prompt-name or --truncate";
    if (a->output && !strcmp(a->output, "-") && a->json)
        wrong = "--json and -o - both want standard output";
    if (a->output && !*a->output) wrong = "-o needs the name of a file";
    if (a->pooling && !mica_pooling_find(a->pooling, &unused))
        wrong = "--pooling must be last, mean, cls, max, sqrt-mean or weighted";
    if (!wrong) return EXIT_OK;
    fprintf(stderr, "mica embed: %s\n", wrong);
    return EXIT_USAGE;
}

static int parse(int argc, char **argv, embed_args *a, const char **words) {
    const arg_spec specs[] = {
        {"text", 'p', ARG_LIST, &a->texts, "TEXT", "a text; may be given many times", 0, 0},
        {"file", 'f', ARG_STRING, &a->file, "FILE", "a text a line; - is standard input (default)",
         0, 0},
        {"ids", 0, ARG_STRING, &a->ids, "1,2,3", "one text as token ids, taken as they are", 0, 0},
        {"prompt-name", 0, ARG_STRING, &a->prompt_name, "NAME",
         "what the model's files call a prompt goes before each text; '' is none", 0, 0},
        {"instruction", 0, ARG_STRING, &a->instruction, "TEXT",
         "'Instruct: TEXT\\nQuery:' goes before each text", 0, 0},
        {"pooling", 0, ARG_STRING, &a->pooling, "KIND",
         "last, mean, cls, max, sqrt-mean or weighted (default: the model's)", 0, 0},
        {"normalize", 0, ARG_FLAG, &a->normalize, NULL,
         "vectors of length 1, whatever the model says", 0, 0},
        {"no-normalize", 0, ARG_FLAG, &a->no_normalize, NULL, "vectors as pooled", 0, 0},
        {"dimensions", 'd', ARG_INT, &a->n_dims, "N", "the first N numbers only", 1, 1e6},
        {"truncate", 0, ARG_FLAG, &a->truncate, NULL,
         "cut texts that are too long; else they are an error", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "one JSON object instead of lines of numbers", 0, 0},
        {"output", 'o', ARG_STRING, &a->output, "FILE",
         "write float32 [texts, dimensions] to a .npy file; - is standard output", 0, 0},
        {"chunk", 0, ARG_INT, &a->chunk, "N", "rows a step (default 512); results do not change", 1,
         65536},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "embed",
        .usage = "mica embed MODEL [-p TEXT]... [options]",
        .about = "Makes a vector of each text: of -p, or of each line of a file or of standard "
                 "input.\nPooling, unit length and prompts are what the model's own files say "
                 "(docs/models.md 10).",
        .examples = "  mica embed minilm -p 'A cat sits outside.' -p 'A dog plays.' --json\n"
                    "  mica embed qwen3-embedding/ --prompt-name query -p 'What is a heron?'\n"
                    "  mica embed minilm --file lines.txt -o vectors.npy\n"
                    "  sort words | mica embed minilm --dimensions 64 > vectors.txt\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .more = more,
        .n_more = N_COMPUTE_SPECS,
        .min_words = 1,
        .max_words = 1,
    };
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    return rc ? rc : check(a);
}

int mica_verb_embed(int argc, char **argv) {
    embed_args args = {0};
    engine_options options;
    const char *model_name;
    embed_run run = {.args = &args};
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (!rc && args.ids) rc = mica_cli_parse_ids("embed", "ids", args.ids, &run.ids);
    if (rc) {
        mica_free(run.ids.ids);
        return rc;
    }
    options.use = ENGINE_EMBEDS;
    options.chunk = (int32_t)args.chunk;
    options.max_seqs = BATCH_TEXTS;
    mica_error err;
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&run.engine, &run.path, model_name, &options, &err);
    if (!st) st = embed(&run, &err);
    if (!st) st = write_out(&run, &err);
    if (mica_cli_interrupted())
        rc = EXIT_INTERRUPTED;
    else if (st)
        rc = mica_cli_fail(&err);
    run_deinit(&run);
    return rc;
}
