/* bandwidth.c: how fast all threads together can read memory, as a yardstick for decoding.
 *
 * The memory is fresh and larger than the caches; threads take pieces of it as they come, as they
 * take the units of a kernel, several times over; the best pass counts, because whatever else the
 * machine did only made the others slower.
 */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/backend.h"
#include "base/checked.h"
#include "base/clock.h"

enum { N_PASSES = 5, N_SUMS = 8, PIECE_WORDS = 32768 /* 256 KiB */ };

typedef struct reading {
    uint64_t *words;
    int64_t n_pieces;
    bool is_first; /* fill instead of read, so that each page has memory of its own */
    _Atomic int64_t next;
    _Atomic uint64_t sum; /* the result is kept, so that the reads cannot be left out */
} reading;

static uint64_t read_piece(const uint64_t *p) {
    uint64_t sum[N_SUMS] = {0}; /* several chains, so that adding does not limit reading */
    for (int i = 0; i < PIECE_WORDS; i += N_SUMS) {
        for (int j = 0; j < N_SUMS; j++)
            sum[j] += p[i + j];
    }
    uint64_t all = 0;
    for (int j = 0; j < N_SUMS; j++)
        all += sum[j];
    return all;
}

static void read_pieces(void *arg, int thread, int n_threads) {
    reading *r = arg;
    uint64_t sum = 0;
    (void)thread;
    (void)n_threads;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (i >= r->n_pieces) break;
        uint64_t *p = r->words + i * PIECE_WORDS;
        if (r->is_first) memset(p, 1 + (int)(i & 63), PIECE_WORDS * sizeof(*p));
        if (!r->is_first) sum += read_piece(p);
    }
    atomic_fetch_add_explicit(&r->sum, sum, memory_order_relaxed);
}

static double pass_s(cpu_backend *backend, reading *r) {
    double begin = mica_now_s();
    atomic_store(&r->next, 0);
    mica_pool_run(backend->pool, read_pieces, r);
    return mica_now_s() - begin;
}

mica_status mica_cpu_read_bandwidth(cpu_backend *backend, size_t n_bytes, double *out,
                                    mica_error *err) {
    const size_t piece = PIECE_WORDS * sizeof(uint64_t);
    reading r = {.n_pieces = (int64_t)(n_bytes / piece), .is_first = true};
    if (r.n_pieces == 0) {
        return mica_fail(err, MICA_E_INVALID, "bandwidth: %zu bytes; expected at least %zu",
                         n_bytes, piece);
    }
    r.words = mica_aligned_alloc(64, (size_t)r.n_pieces * piece);
    if (!r.words)
        return mica_fail(err, MICA_E_NOMEM, "bandwidth: no memory for %zu bytes", n_bytes);
    pass_s(backend, &r);
    r.is_first = false;
    double best = 0;
    for (int i = 0; i < N_PASSES; i++) {
        double seconds = pass_s(backend, &r);
        double rate = seconds > 0 ? (double)r.n_pieces * (double)piece / seconds : 0;
        if (rate > best) best = rate;
    }
    mica_free(r.words);
    *out = best;
    return MICA_OK;
}
