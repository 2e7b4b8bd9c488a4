/* replay.c: runs a fuzz target over the files of its corpus, without a fuzzer. Each file is given
 * in a block of exactly its size, so that a sanitizer sees any read beyond.
 *
 * Usage: replay FOLDER; exit code 1 if the folder has no file or one cannot be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool replay(const char *folder, const char *name) {
    char *path = mica_path_join(folder, name), *text = NULL;
    size_t n = 0;
    mica_error err;
    bool is_read = path && !mica_file_read(&text, &n, path, 1 << 26, &err);
    uint8_t *exact = is_read ? malloc(n ? n : 1) : NULL;
    if (exact) {
        printf("%s\n", name);
        fflush(stdout); /* the last name before a crash is the one to look at */
        memcpy(exact, text, n);
        LLVMFuzzerTestOneInput(exact, n);
    }
    free(exact);
    mica_free(text);
    mica_free(path);
    return exact != NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    char **names = NULL;
    size_t n = 0;
    mica_error err;
    if (mica_folder_list(&names, &n, argv[1], "", "", &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    bool is_good = n > 0;
    for (size_t i = 0; i < n; i++) {
        is_good = replay(argv[1], names[i]) && is_good;
    }
    mica_names_free(names, n);
    return is_good ? 0 : 1;
}
