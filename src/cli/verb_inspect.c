/* verb_inspect.c: `mica inspect`: what a model file holds, without reading its tensors. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct inspect_args {
    bool tensors, json;
} inspect_args;

/* "[2048, 576]" */
static void shape_text(const file_tensor *t, char *out, size_t n_out) {
    size_t n = (size_t)snprintf(out, n_out, "[");
    for (int i = 0; i < t->n_dims && n < n_out; i++)
        n += (size_t)snprintf(out + n, n_out - n, "%s%llu", i ? ", " : "",
                              (unsigned long long)t->dim[i]);
    if (n < n_out) snprintf(out + n, n_out - n, "]");
}

static const char *type_text(const file_tensor *t) {
    return t->is_gguf ? mica_gguf_block((uint32_t)t->type).name : mica_dtype_name(t->dtype);
}

static int64_t n_sliding(const model_config *c) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_layers; i++)
        n += c->window[i] > 0;
    return n;
}

static int64_t n_chunked(const model_config *c) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_layers; i++)
        n += c->window[i] < 0;
    return n;
}

/* How many tensors, and how many bytes, each stored type has. */
typedef struct type_sum {
    const char *type;
    size_t n_tensors;
    uint64_t n_bytes;
} type_sum;

enum { MAX_TYPES = 32 };

static int sum_types(const weight_store *weights, type_sum sums[MAX_TYPES]) {
    int n = 0;
    for (size_t i = 0; i < mica_weights_count(weights); i++) {
        const char *name;
        const file_tensor *t = mica_weights_at(weights, i, &name);
        int k = 0;
        while (k < n && strcmp(sums[k].type, type_text(t)))
            k++;
        if (k == MAX_TYPES) continue;
        if (k == n) sums[n++] = (type_sum){.type = type_text(t)};
        sums[k].n_tensors++;
        sums[k].n_bytes += t->n_bytes;
    }
    return n;
}

/* 0 where codes are packed and a tensor's shape does not say how many weights it holds. */
static uint64_t n_parameters(const weight_store *weights) {
    uint64_t total = 0;
    for (size_t i = 0; i < mica_weights_count(weights); i++) {
        const char *name;
        const file_tensor *t = mica_weights_at(weights, i, &name);
        uint64_t n = 1;
        if (!t->is_gguf && t->dtype == MICA_U32) return 0;
        for (int d = 0; d < t->n_dims; d++)
            n *= t->dim[d];
        total += n;
    }
    return total;
}

static void print_types(const weight_store *weights) {
    type_sum sums[MAX_TYPES];
    int n = sum_types(weights, sums);
    printf("%-18s", "types");
    for (int i = 0; i < n; i++)
        printf("%s %s %.1f MB in %zu", i ? "," : "", sums[i].type, (double)sums[i].n_bytes / 1e6,
               sums[i].n_tensors);
    printf("\n");
}

static void print_text(const model *m, const inspect_args *a) {
    const model_config *c = mica_model_config(m);
    const weight_store *weights = mica_model_weights(m);
    printf("%-18s %s (%s, %s)\n", "architecture", c->arch, c->model_type,
           mica_cli_tier_text(mica_model_tier(m)));
    printf("%-18s %s\n", "format", mica_model_gguf(m) ? "GGUF" : "safetensors folder");
    printf("%-18s %.1f MB, %zu tensors\n", "files", (double)mica_model_file_bytes(m) / 1e6,
           mica_weights_count(weights));
    print_types(weights);
    uint64_t parameters = n_parameters(weights);
    if (parameters) printf("%-18s %.1f M\n", "parameters", (double)parameters / 1e6);
    bool chunks = n_chunked(c) > 0;
    printf("%-18s %lld (%lld %s)\n", "layers", (long long)c->n_layers,
           (long long)(chunks ? n_chunked(c) : n_sliding(c)), chunks ? "in chunks" : "sliding");
    printf("%-18s hidden %lld, mlp %lld, vocab %lld\n", "sizes", (long long)c->hidden_size,
           (long long)c->intermediate_size, (long long)c->vocab_size);
    printf("%-18s %lld query, %lld key/value, head_dim %lld\n", "heads", (long long)c->n_heads,
           (long long)c->n_kv_heads, (long long)c->head_dim);
    printf("%-18s %lld tokens\n", "context", (long long)c->max_positions);
    for (int i = 0; i < c->n_ropes; i++)
        printf("%-18s %s, theta %g\n", i ? "rope (second)" : "rope", c->rope[i].type,
               c->rope[i].theta);
    printf("%-18s %s, activations %s\n", "head", c->tied ? "tied to the embedding" : "own matrix",
           mica_dtype_name(c->dtype));
    if (!a->tensors) return;
    printf("\n%-52s %-10s %-20s %12s\n", "tensor", "type", "shape", "bytes");
    for (size_t i = 0; i < mica_weights_count(weights); i++) {
        const char *name;
        char shape[96];
        const file_tensor *t = mica_weights_at(weights, i, &name);
        shape_text(t, shape, sizeof(shape));
        printf("%-52s %-10s %-20s %12llu\n", name, type_text(t), shape,
               (unsigned long long)t->n_bytes);
    }
}

static void put_tensor(json_writer *w, const file_tensor *t, const char *name) {
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "name", name);
    mica_json_member_cstring(w, "file_name", t->name);
    mica_json_member_cstring(w, "type", type_text(t));
    mica_json_key(w, "shape");
    mica_json_begin_array(w);
    for (int d = 0; d < t->n_dims; d++)
        mica_json_put_u64(w, t->dim[d]);
    mica_json_end_array(w);
    mica_json_member_u64(w, "bytes", t->n_bytes);
    mica_json_end_object(w);
}

static void put_config(json_writer *w, const model *m) {
    const model_config *c = mica_model_config(m);
    mica_json_member_cstring(w, "arch", c->arch);
    mica_json_member_cstring(w, "model_type", c->model_type);
    mica_json_member_cstring(w, "tier", mica_cli_tier_text(mica_model_tier(m)));
    mica_json_member_cstring(w, "format", mica_model_gguf(m) ? "gguf" : "safetensors");
    mica_json_member_i64(w, "file_bytes", (int64_t)mica_model_file_bytes(m));
    mica_json_member_i64(w, "n_layers", c->n_layers);
    mica_json_member_i64(w, "n_sliding_layers", n_sliding(c));
    mica_json_member_i64(w, "n_chunked_layers", n_chunked(c));
    mica_json_member_i64(w, "hidden_size", c->hidden_size);
    mica_json_member_i64(w, "intermediate_size", c->intermediate_size);
    mica_json_member_i64(w, "vocab_size", c->vocab_size);
    mica_json_member_i64(w, "n_heads", c->n_heads);
    mica_json_member_i64(w, "n_kv_heads", c->n_kv_heads);
    mica_json_member_i64(w, "head_dim", c->head_dim);
    mica_json_member_i64(w, "max_positions", c->max_positions);
    mica_json_member_bool(w, "tied", c->tied);
    mica_json_member_cstring(w, "dtype", mica_dtype_name(c->dtype));
    mica_json_key(w, "ropes");
    mica_json_begin_array(w);
    for (int i = 0; i < c->n_ropes; i++) {
        mica_json_begin_object(w);
        mica_json_member_cstring(w, "type", c->rope[i].type);
        mica_json_member_double(w, "theta", c->rope[i].theta);
        mica_json_end_object(w);
    }
    mica_json_end_array(w);
}

static void put_types(json_writer *w, const weight_store *weights) {
    type_sum sums[MAX_TYPES];
    int n = sum_types(weights, sums);
    uint64_t parameters = n_parameters(weights);
    mica_json_key(w, "parameters");
    if (parameters)
        mica_json_put_u64(w, parameters);
    else
        mica_json_put_null(w);
    mica_json_key(w, "types");
    mica_json_begin_object(w);
    for (int i = 0; i < n; i++) {
        mica_json_key(w, sums[i].type);
        mica_json_begin_object(w);
        mica_json_member_i64(w, "tensors", (int64_t)sums[i].n_tensors);
        mica_json_member_i64(w, "bytes", (int64_t)sums[i].n_bytes);
        mica_json_end_object(w);
    }
    mica_json_end_object(w);
}

static mica_status print_json(const model *m, const inspect_args *a, mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    put_config(&w, m);
    put_types(&w, mica_model_weights(m));
    if (a->tensors) {
        const weight_store *weights = mica_model_weights(m);
        mica_json_key(&w, "tensors");
        mica_json_begin_array(&w);
        for (size_t i = 0; i < mica_weights_count(weights); i++) {
            const char *name;
            const file_tensor *t = mica_weights_at(weights, i, &name);
            put_tensor(&w, t, name);
        }
        mica_json_end_array(&w);
    }
    mica_json_end_object(&w);
    mica_status st =
        w.failed ? mica_fail(err, MICA_E_NOMEM, "out of memory for the JSON output") : MICA_OK;
    if (!st) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
    return st;
}

static void warn(void *user, const char *message) {
    (void)user;
    fprintf(stderr, "mica: warning: %s\n", message);
}

int mica_verb_inspect(int argc, char **argv) {
    inspect_args args = {0};
    const arg_spec specs[] = {
        {"tensors", 0, ARG_FLAG, &args.tensors, NULL, "list every tensor", 0, 0},
        {"json", 0, ARG_FLAG, &args.json, NULL, "one JSON object", 0, 0},
    };
    const arg_verb verb = {
        .name = "inspect",
        .usage = "mica inspect MODEL [--tensors] [--json]",
        .about = "Says what a model file holds and which rung of the ladder takes it.",
        .examples = "  mica inspect smollm2 --tensors\n"
                    "  mica inspect path/to/folder --json\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 1,
        .max_words = 1,
    };
    const char *word;
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, &word, &n_words);
    if (rc) return rc;
    mica_error err;
    char *path = NULL;
    model *m = NULL;
    const model_options options = {.warn = warn, .defer = true};
    mica_status st = mica_cli_find_model(&path, word, &err);
    if (!st) st = mica_model_load(&m, path, &options, &err);
    if (!st && args.json) st = print_json(m, &args, &err);
    if (!st && !args.json) print_text(m, &args);
    mica_model_close(m);
    mica_free(path);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
