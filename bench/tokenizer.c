/* tokenizer.c: how fast a tokenizer loads, and how fast it encodes a text on one thread.
 *
 * Usage: bench_tokenizer FOLDER TEXT_FILE ROUNDS
 *
 * Prints one line of JSON: seconds of each load (from the parsed file, then with the compiled copy
 * in the cache folder), seconds of each encoding of the whole text and of each encoding of its
 * paragraphs one by one, and the ids' count and hash. tokenizer.py runs it beside the tokenizers
 * library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "text/tokenizer.h"

/* Processor time of this thread: other programs on the machine do not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const mica_error *err) {
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static void print_list(const char *name, const double *seconds, int n) {
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++) {
        printf("%s%.6f", i ? ", " : "", seconds[i]);
    }
    printf("], ");
}

static tokenizer *open_timed(const char *path, bool is_cached, double *seconds) {
    tokenizer *t;
    mica_error err = {0};
    double begin = now();
    mica_status st =
        is_cached ? mica_tokenizer_open(&t, path, &err) : mica_tokenizer_open_source(&t, path, &err);
    *seconds = now() - begin;
    if (st) stop(&err);
    return t;
}

static double encode(const tokenizer *t, const char *text, size_t n, token_list *ids) {
    mica_error err = {0};
    const encode_options options = {.parse_special = true};
    double begin = now();
    if (mica_tokenizer_encode(t, text, n, options, ids, &err)) stop(&err);
    return now() - begin;
}

/* Paragraphs end at empty lines; the line ends between them are not encoded. */
static double encode_parts(const tokenizer *t, const char *text, size_t n, token_list *ids) {
    double seconds = 0;
    for (size_t begin = 0; begin < n;) {
        const char *gap = memmem(text + begin, n - begin, "\n\n", 2);
        size_t end = gap ? (size_t)(gap - text) : n;
        seconds += encode(t, text + begin, end - begin, ids);
        begin = end + 2;
    }
    return seconds;
}

static uint64_t hash_ids(const token_list *ids) {
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < ids->n; i++) {
        h = (h ^ (uint32_t)ids->ids[i]) * UINT64_C(0x100000001B3);
    }
    return h;
}

int main(int argc, char **argv) {
    double load[32], cached[32], whole[32], parts[32];
    char *text;
    size_t n_text;
    mica_error err = {0};
    int n = argc == 4 ? atoi(argv[3]) : 0;
    if (n < 1 || n > 32) return 2;
    if (mica_file_read(&text, &n_text, argv[2], 1u << 30, &err)) stop(&err);
    token_list ids = {0}, part_ids = {0};
    mica_tokenizer_free(open_timed(argv[1], true, &cached[0])); /* makes the copy */
    for (int i = 0; i < n; i++) {
        mica_tokenizer_free(open_timed(argv[1], false, &load[i]));
        tokenizer *t = open_timed(argv[1], true, &cached[i]);
        ids.n = part_ids.n = 0;
        whole[i] = encode(t, text, n_text, &ids);
        parts[i] = encode_parts(t, text, n_text, &part_ids);
        mica_tokenizer_free(t);
    }
    printf("{");
    print_list("load", load, n);
    print_list("cached", cached, n);
    print_list("whole", whole, n);
    print_list("parts", parts, n);
    printf("\"bytes\": %zu, \"ids\": %zu, \"hash\": \"%016llx\", \"part_hash\": \"%016llx\"}\n",
           n_text, ids.n, (unsigned long long)hash_ids(&ids),
           (unsigned long long)hash_ids(&part_ids));
    mica_free(ids.ids);
    mica_free(part_ids.ids);
    mica_free(text);
    return 0;
}
