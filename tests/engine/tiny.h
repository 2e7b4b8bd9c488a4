/* tiny.h: the tiny checkpoints of tests/golden/tiny with what another implementation made of them.
 */
#ifndef MICA_TESTS_ENGINE_TINY_H
#define MICA_TESTS_ENGINE_TINY_H

#include "engine/engine.h"

typedef struct tiny {
    char name[256];
    char path[1024];
    int32_t *ids, *greedy;
    double *gap; /* of the reference's two best logits before each greedy id */
    int64_t n_ids, n_greedy;
    float *logits; /* [n_ids, n_vocab] */
    int64_t n_vocab;
    double std; /* of all logits */
} tiny;

/* All of them, sorted by name; a failure of the running test if there are none. `root` is the
 * folder; only names that contain `filter` (NULL: all). */
tiny *tiny_load_all(const char *root, const char *filter, int *n);
void tiny_free_all(tiny *list, int n);

engine_options tiny_exact(bool f32);
/* Opens an engine or fails the test. */
engine *tiny_open(const char *path, const engine_options *options);
/* Where tiny_keep_row, a callback for logits, puts rows that come in order. */
typedef struct tiny_rows {
    float *rows; /* [as many as come, n_vocab] */
    int64_t n_vocab, next;
} tiny_rows;
mica_status tiny_keep_row(void *user, int64_t i, const float *logits, mica_error *err);
/* Runs ids through a new session; out [n, vocab]. */
void tiny_logits(engine *e, const int32_t *ids, int64_t n, row_role role, float *out);

#endif
