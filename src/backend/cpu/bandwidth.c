/* bandwidth.c: how fast all threads together can read memory, as a yardstick for decoding.
 *
 * The memory is fresh and larger than the caches; each thread reads its own part in order, several
 * times; the best pass counts, because whatever else the machine did only made the others slower.
 */
#include <string.h>

#include "backend/cpu/backend.h"
#include "base/checked.h"
#include "base/clock.h"

enum { N_PASSES = 5, N_SUMS = 8 };

typedef struct reading {
    uint64_t *words;
    size_t n_words;
    bool is_first; /* fill instead of read, so that each page has memory of its own */
    _Alignas(64) uint64_t sums[256][N_SUMS];
} reading;

static void read_part(void *arg, int thread, int n_threads) {
    reading *r = arg;
    size_t per_thread = r->n_words / (size_t)n_threads / N_SUMS * N_SUMS;
    uint64_t *p = r->words + (size_t)thread * per_thread;
    if (r->is_first) {
        memset(p, thread + 1, per_thread * sizeof(*p));
        return;
    }
    uint64_t sum[N_SUMS] = {0}; /* several chains, so that adding does not limit reading */
    for (size_t i = 0; i < per_thread; i += N_SUMS) {
        for (int j = 0; j < N_SUMS; j++)
            sum[j] += p[i + (size_t)j];
    }
    /* The result is stored, so that the reads cannot be left out. */
    for (int j = 0; j < N_SUMS; j++)
        r->sums[thread][j] += sum[j];
}

mica_status mica_cpu_read_bandwidth(cpu_backend *backend, size_t n_bytes, double *out,
                                    mica_error *err) {
    int n_threads = mica_pool_threads(backend->pool);
    reading *r = mica_aligned_alloc(64, mica_align_up(sizeof(*r), 64));
    uint64_t *words = mica_aligned_alloc(64, mica_align_up(n_bytes, 64));
    if (!r || !words) {
        mica_free(r);
        mica_free(words);
        return mica_fail(err, MICA_E_NOMEM, "bandwidth: no memory for %zu bytes", n_bytes);
    }
    memset(r, 0, sizeof(*r));
    r->words = words;
    r->n_words = n_bytes / sizeof(*words);
    r->is_first = true;
    mica_pool_run(backend->pool, read_part, r);
    r->is_first = false;
    size_t read = r->n_words / (size_t)n_threads / N_SUMS * N_SUMS * (size_t)n_threads;
    double best = 0;
    for (int i = 0; i < N_PASSES; i++) {
        double begin = mica_now_s();
        mica_pool_run(backend->pool, read_part, r);
        double seconds = mica_now_s() - begin;
        double rate = seconds > 0 ? (double)(read * sizeof(*words)) / seconds : 0;
        if (rate > best) best = rate;
    }
    mica_free(words);
    mica_free(r);
    *out = best;
    return MICA_OK;
}
