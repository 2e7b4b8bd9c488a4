/* verb_models.c: `mica models`: the model families that are supported, or the rung of the dispatch
 * ladder that takes a file and why. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

const char *mica_cli_tier_text(model_tier tier) {
    switch (tier) {
    case TIER_DEDICATED:
        return "dedicated";
    case TIER_SPECIALIZED:
        return "specialized";
    case TIER_GENERIC:
        return "generic";
    }
    return "?";
}

static void print_row(size_t i, bool json) {
    const char *type = mica_model_arch(i), *tier = mica_cli_tier_text(mica_model_arch_tier(i));
    const char *gguf = mica_model_arch_gguf(i), *other = mica_model_arch_gguf_moe(i);
    const char *quote = gguf ? "\"" : "";
    if (!json) {
        printf("%-20s %-12s %s%s%s\n", type, tier, gguf ? gguf : "-", other ? ", " : "",
               other ? other : "");
        return;
    }
    printf("%s\n {\"model_type\": \"%s\", \"tier\": \"%s\", \"gguf\": %s%s%s", i ? "," : "", type,
           tier, quote, gguf ? gguf : "null", quote);
    if (other) printf(", \"gguf_with_experts\": \"%s\"", other);
    if (mica_model_arch_is_encoder(i)) printf(", \"encoder\": true");
    printf("}");
}

static void print_synonyms(void) {
    const char *type, *target;
    printf("\nOther names:");
    for (size_t i = 0; mica_model_synonym(i, &type, &target); i++)
        printf("%s %s (%s)", i ? "," : "", type, target);
    printf(
        ".\nA mistral3 or llava file is what its text_config says. MiniCPM5, a llama by its sizes,"
        " is\ndedicated.\nEncoders, for embeddings alone (mica embed):");
    for (size_t i = 0, n = 0; i < mica_model_n_archs(); i++)
        if (mica_model_arch_is_encoder(i)) printf("%s %s", n++ ? "," : "", mica_model_arch(i));
    printf(".\n");
}

static int list(bool json) {
    if (json)
        printf("[");
    else
        printf("%-20s %-12s %s\n", "model_type", "tier", "GGUF architecture");
    for (size_t i = 0; i < mica_model_n_archs(); i++)
        print_row(i, json);
    if (json)
        printf("\n]\n");
    else
        print_synonyms();
    return mica_cli_finish_output(EXIT_OK);
}

/* True: there was no memory. */
static bool print_rung(const model_rung *rung, const char *tier) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_cstring(&w, "arch", rung->arch);
    mica_json_member_cstring(&w, "type", rung->type);
    mica_json_member_cstring(&w, "tier", tier);
    mica_json_member_cstring(&w, "why", rung->why);
    mica_json_member_u64(&w, "files", rung->n_files);
    mica_json_member_u64(&w, "tensors", rung->n_tensors);
    mica_json_member_u64(&w, "bytes", rung->file_bytes);
    mica_json_end_object(&w);
    bool failed = w.failed;
    if (!failed) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
    return failed;
}

static int explain(const char *word, bool json) {
    mica_error err;
    model_rung rung;
    char *path = NULL;
    mica_status st = mica_cli_find_model(&path, word, &err);
    if (!st) st = mica_model_rung(&rung, path, &err);
    mica_free(path);
    if (st) return mica_cli_fail(&err);
    const char *tier = mica_cli_tier_text(rung.tier);
    if (json) {
        if (!print_rung(&rung, tier)) return mica_cli_finish_output(EXIT_OK);
        fprintf(stderr, "mica: out of memory for the JSON output\n");
        return EXIT_FAILED;
    }
    printf("%s, %s: %s.\n", rung.arch, tier, rung.why);
    printf("%zu %s, %zu tensors, %.1f MB; every header is in order.\n", rung.n_files,
           rung.n_files == 1 ? "file" : "files", rung.n_tensors, (double)rung.file_bytes / 1e6);
    return mica_cli_finish_output(EXIT_OK);
}

int mica_verb_models(int argc, char **argv) {
    bool json = false;
    const arg_spec specs[] = {
        {"json", 0, ARG_FLAG, &json, NULL, "JSON instead of text", 0, 0},
    };
    const arg_verb verb = {
        .name = "models",
        .usage = "mica models [MODEL] [--json]",
        .about =
            "Lists the model families that are supported, with their tier and their GGUF\n"
            "name; of a model, says which rung of the ladder takes it and why, and checks the\n"
            "headers of all its files.",
        .examples = "  mica models\n"
                    "  mica models path/to/folder\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 0,
        .max_words = 1,
    };
    const char *word = NULL;
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, &word, &n_words);
    if (rc) return rc;
    return n_words ? explain(word, json) : list(json);
}
