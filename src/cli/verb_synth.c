/* verb_synth.c: `mica synth`: a checkpoint of a well-known shape with random weights. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "quant/synth.h"

typedef struct synth_args {
    const char *arch, *params, *gguf;
    int64_t bits, group, n_layers;
    uint64_t seed;
    bool list;
} synth_args;

static int parse(int argc, char **argv, synth_args *a, const char **words, int *n_words) {
    const arg_spec specs[] = {
        {"arch", 0, ARG_STRING, &a->arch, "NAME", "llama, qwen3, qwen3_moe or gemma3_text", 0, 0},
        {"params", 0, ARG_STRING, &a->params, "SIZE", "1b, 3b, 8b ... (--list shows all)", 0, 0},
        {"bits", 0, ARG_INT, &a->bits, "N", "2, 3, 4, 5, 6 or 8 (4)", 2, 8},
        {"group-size", 0, ARG_INT, &a->group, "N", "weights that share a scale: 32, 64 or 128 (64)",
         32, 128},
        {"gguf", 0, ARG_STRING, &a->gguf, "FORM", "a GGUF file in q4_0, q8_0 or q4_k instead", 0,
         0},
        {"layers", 0, ARG_INT, &a->n_layers, "N", "that many layers instead of the model's", 1,
         256},
        {"seed", 0, ARG_U64, &a->seed, "S", "of the random numbers (0)", 0, 0},
        {"list", 0, ARG_FLAG, &a->list, NULL, "the shapes that there are", 0, 0},
    };
    const arg_verb verb = {
        .name = "synth",
        .usage = "mica synth --arch NAME --params SIZE [options] PATH",
        .about =
            "Writes a checkpoint with the shape of a well-known model and random weights, for\n"
            "measurements: an MLX folder, or with --gguf a GGUF file. Files of one seed hold "
            "the\n"
            "same weights: 4 bits, q4_0 and q4_k, and 8 bits and q8_0.",
        .examples = "  mica synth --arch llama --params 1b --bits 4 llama-1b\n"
                    "  mica synth --arch llama --params 1b --gguf q4_0 llama-1b.gguf\n"
                    "  mica synth --arch qwen3_moe --params 30b --layers 4 moe\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 0,
        .max_words = 1,
    };
    return mica_args_parse(&verb, argc, argv, words, n_words);
}

static void print_shapes(void) {
    printf("%-12s %-6s %-20s %7s %7s %8s %8s\n", "arch", "params", "like", "layers", "hidden",
           "mlp", "vocab");
    for (size_t i = 0; i < mica_synth_n_shapes(); i++) {
        const synth_shape *s = mica_synth_shape(i);
        printf("%-12s %-6s %-20s %7lld %7lld %8lld %8lld\n", s->arch, s->params, s->like,
               (long long)s->n_layers, (long long)s->hidden_size, (long long)s->intermediate_size,
               (long long)s->vocab_size);
    }
}

static int usage_error(const char *what, const char *which) {
    fprintf(stderr, "mica synth: %s%s (mica synth --help shows what there is)\n", what, which);
    return EXIT_USAGE;
}

/* --gguf FORM to form and bits. */
static int choose_form(const synth_args *a, synth_options *o) {
    static const struct {
        const char *name;
        synth_form form;
        int bits;
    } forms[] = {{"q4_0", SYNTH_Q4_0, 4}, {"q8_0", SYNTH_Q8_0, 8}, {"q4_k", SYNTH_Q4_K, 4}};
    o->bits = a->bits ? (int)a->bits : 4;
    if (o->bits == 7) return usage_error("--bits 7: use 2, 3, 4, 5, 6 or 8", "");
    if (!a->gguf) return EXIT_OK;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(a->gguf, forms[i].name)) continue;
        if (a->bits && a->bits != forms[i].bits)
            return usage_error("--bits does not go with --gguf ", a->gguf);
        o->form = forms[i].form;
        o->bits = forms[i].bits;
        return EXIT_OK;
    }
    return usage_error("--gguf must be q4_0, q8_0 or q4_k, not ", a->gguf);
}

static int to_options(const synth_args *a, synth_options *o) {
    *o = (synth_options){.group = (int)a->group, .n_layers = a->n_layers, .seed = a->seed};
    if (!a->arch || !a->params)
        return usage_error("usage: mica synth --arch NAME --params SIZE PATH; missing: ",
                           a->arch ? "--params" : "--arch");
    if (a->group != 32 && a->group != 64 && a->group != 128)
        return usage_error("--group-size must be 32, 64 or 128", "");
    o->shape = mica_synth_find(a->arch, a->params);
    if (!o->shape) {
        fprintf(stderr, "mica synth: no shape '%s' of '%s' (mica synth --list shows all)\n",
                a->params, a->arch);
        return EXIT_USAGE;
    }
    return choose_form(a, o);
}

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    mica_progress_step(user, done, total);
    return !mica_cli_interrupted();
}

int mica_verb_synth(int argc, char **argv) {
    synth_args args = {.group = 64};
    synth_options options;
    const char *path = NULL;
    int n_words = 0;
    int rc = parse(argc, argv, &args, &path, &n_words);
    if (rc) return rc;
    if (args.list) {
        print_shapes();
        return EXIT_OK;
    }
    if ((rc = to_options(&args, &options))) return rc;
    if (!n_words || !*path) return usage_error("PATH, where to write, is missing", "");
    mica_error err;
    cli_progress progress;
    mica_cli_catch_interrupt();
    mica_progress_begin(&progress, "writing");
    options.progress = on_progress;
    options.user = &progress;
    mica_status st = mica_synth_write(&options, path, &err);
    mica_progress_end(&progress);
    if (mica_cli_interrupted()) return EXIT_INTERRUPTED;
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
