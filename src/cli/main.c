/* main.c: the table of verbs. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#ifndef MICA_VERSION
#define MICA_VERSION "0"
#endif

typedef struct verb_entry {
    const char *name;
    const char *alias;
    int (*run)(int argc, char **argv);
    const char *summary;
} verb_entry;

static const verb_entry verbs[] = {
    {"generate", "gen", mica_verb_generate, "continue a prompt, streaming the text"},
    {"logits", NULL, mica_verb_logits, "write next-token logits for given ids to a .npy file"},
    {"embed", NULL, mica_verb_embed, "texts to vectors, with an embedding model"},
    {"tokenize", NULL, mica_verb_tokenize, "text to token ids"},
    {"detokenize", NULL, mica_verb_detokenize, "token ids to text"},
    {"template", NULL, mica_verb_template, "a conversation as the chat template renders it"},
    {"inspect", "show", mica_verb_inspect, "what a model file holds"},
    {"models", NULL, mica_verb_models, "supported model families; which one takes a file"},
    {"plan", NULL, mica_verb_plan, "the compiled tape of a model: steps, shapes, kernels, memory"},
    {"bench", "benchmark", mica_verb_bench, "prefill and decode speed beside memory bandwidth"},
    {"synth", NULL, mica_verb_synth, "write a checkpoint of a known shape with random weights"},
    {"eval", NULL, mica_verb_eval, "how well a model predicts a text"},
    {"pack", NULL, mica_verb_pack, "re-ordered weights on disk: list, verify, remove"},
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static void print_help(FILE *to) {
    fprintf(
        to,
        "usage: mica VERB [arguments]   (mica VERB --help says more)\n\n"
        "mica runs language models on this machine: from MLX folders, Hugging Face folders and\n"
        "GGUF files.\n\nVerbs:\n");
    for (int i = 0; i < N_VERBS; i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "  %-12s %s\n", "version", "the version of this program");
    fprintf(to, "\nExamples:\n"
                "  tools/fetch-model smollm2\n"
                "  mica generate smollm2 -p 'The capital of France is'\n"
                "  mica bench smollm2 -p 512 -n 128\n");
}

static bool is(const char *word, const char *a) { return a && strcmp(word, a) == 0; }

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (is(word, "--help") || is(word, "-h") || is(word, "help")) {
        print_help(stdout);
        return mica_cli_finish_output(EXIT_OK);
    }
    if (is(word, "--version") || is(word, "-v") || is(word, "version")) {
        printf("mica %s\n", MICA_VERSION);
        return mica_cli_finish_output(EXIT_OK);
    }
    for (int i = 0; i < N_VERBS; i++) {
        if (!is(word, verbs[i].name) && !is(word, verbs[i].alias)) continue;
        int rc = verbs[i].run(argc - 2, argv + 2);
        return mica_cli_finish_output(rc == ARGS_DONE ? EXIT_OK : rc);
    }
    fprintf(stderr, "mica: unknown verb '%s' (mica --help lists them)\n", word);
    return EXIT_USAGE;
}
