/* golden.h: files under tests/golden, whose place the build passes as GOLDEN.
 */
#ifndef MICA_TESTS_WEIGHTS_GOLDEN_H
#define MICA_TESTS_WEIGHTS_GOLDEN_H

#include "../format/build_gguf.h"

static inline void read_golden(bytes *out, const char *name) {
    char path[512];
    uint8_t block[4096];
    snprintf(path, sizeof(path), "%s/%s", GOLDEN, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    for (size_t n; (n = fread(block, 1, sizeof(block), file)) > 0;)
        put_raw(out, block, n);
    fclose(file);
}

#endif
