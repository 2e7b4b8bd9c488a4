/* fuzz_gguf.c: any bytes as a GGUF file. What is accepted is walked: every array, every tensor, and
 * every matrix re-ordered and its last row decoded.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void walk_entries(const gguf_file *f) {
    for (size_t i = 0; i < mica_gguf_n_entries(f); i++) {
        const gguf_entry *e = mica_gguf_entry(f, i);
        gguf_string s;
        uint64_t pos = 0, n = 0;
        volatile char last = 0;
        while (mica_gguf_next_string(e, &pos, &s)) {
            n++;
            if (s.n) last = s.data[s.n - 1];
        }
        (void)last;
        if (e->type != GGUF_VALUE_ARRAY) continue;
        if (e->element == GGUF_VALUE_STRING && n != e->n) abort();
        if (e->element != GGUF_VALUE_STRING && e->n) mica_gguf_array_number(e, e->n - 1);
    }
    mica_gguf_integer(f, "llama.block_count", 0);
}

static void decode_last_row(weight_store *store, const char *name) {
    char path[256];
    const weight_matrix *m = NULL;
    size_t n = strlen(name);
    if (n < 7 || n >= sizeof(path) || strcmp(name + n - 7, ".weight") != 0) return;
    memcpy(path, name, n - 7);
    path[n - 7] = 0;
    if (mica_weights_matrix(store, path, 0, -1, -1, &m, NULL)) return;
    float *row = mica_calloc((size_t)m->n_in, sizeof(*row));
    if (row) mica_weight_row(m, m->n_out - 1, row);
    mica_free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    gguf_file *f = NULL;
    weight_store *store = NULL;
    mica_error err;
    if (mica_gguf_parse(&f, data, n, "fuzz", &err)) return 0;
    walk_entries(f);
    if (!mica_weights_open_gguf(&store, f, NULL, &err)) {
        for (size_t i = 0; i < mica_weights_count(store); i++) {
            const char *name = NULL;
            mica_weights_at(store, i, &name);
            decode_last_row(store, name);
        }
        mica_weights_audit(store, &err);
        mica_weights_close(store);
    }
    mica_gguf_close(f);
    return 0;
}
