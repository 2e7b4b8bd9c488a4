/* limits.c: measures the loops of peak.h.
 *
 * Memory is fresh; threads take pieces of it as they come, as they take the units of a kernel.
 */
#include "backend/cpu/limits.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/backend.h"
#include "base/clock.h"

enum { N_PASSES = 5, N_SUMS = 8, PIECE_WORDS = 32768 /* 256 KiB */ };

static const double pass_s = 0.04; /* of a peak: long beside a time slice of the system */

/* ---- reading ---- */

typedef struct reading {
    const cpu_reader *reader;
    uint64_t *words;
    int64_t n_pieces;
    int n_readers;
    bool is_first; /* fill instead of read, so that each page has memory of its own */
    _Atomic int64_t next;
    _Atomic uint64_t sum; /* the result is kept, so that the reads cannot be left out */
} reading;

static uint64_t read_plain(const uint64_t *p, size_t n_words) {
    uint64_t sum[N_SUMS] = {0}; /* several chains, so that adding does not limit reading */
    for (size_t i = 0; i < n_words; i += N_SUMS) {
        for (int j = 0; j < N_SUMS; j++)
            sum[j] += p[i + j];
    }
    uint64_t all = 0;
    for (int j = 0; j < N_SUMS; j++)
        all += sum[j];
    return all;
}

static const cpu_reader plain_reader = {ISA_REF, read_plain};

static const cpu_reader *best_reader(const cpu_backend *backend) {
    const cpu_reader *best = &plain_reader;
    for (int i = 0; i < mica_n_isa_readers; i++)
        if (backend->table.isa_mask >> mica_isa_readers[i]->isa & 1u) best = mica_isa_readers[i];
    return best;
}

static void read_pieces(void *arg, int thread, int n_threads) {
    reading *r = arg;
    uint64_t sum = 0;
    (void)n_threads;
    while (thread < r->n_readers) {
        int64_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (i >= r->n_pieces) break;
        uint64_t *p = r->words + i * PIECE_WORDS;
        if (r->is_first) memset(p, 1 + (int)(i & 63), PIECE_WORDS * sizeof(*p));
        if (!r->is_first) sum += r->reader->read(p, PIECE_WORDS);
    }
    atomic_fetch_add_explicit(&r->sum, sum, memory_order_relaxed);
}

static double read_once(cpu_backend *backend, reading *r) {
    double begin = mica_now_s();
    atomic_store(&r->next, 0);
    mica_pool_run(backend->pool, read_pieces, r);
    return mica_now_s() - begin;
}

static double best_rate(cpu_backend *backend, reading *r, int n_readers) {
    double best = 0, n_bytes = (double)r->n_pieces * PIECE_WORDS * sizeof(uint64_t);
    r->n_readers = n_readers;
    for (int i = 0; i < N_PASSES; i++) {
        double seconds = read_once(backend, r);
        double rate = seconds > 0 ? n_bytes / seconds : 0;
        if (rate > best) best = rate;
    }
    return best;
}

static mica_status measure_reading(cpu_backend *backend, size_t n_bytes, bool only_all,
                                   cpu_limits *out, mica_error *err) {
    const size_t piece = PIECE_WORDS * sizeof(uint64_t);
    int n_threads = mica_pool_threads(backend->pool);
    reading r = {.reader = best_reader(backend),
                 .n_pieces = (int64_t)(n_bytes / piece),
                 .n_readers = n_threads,
                 .is_first = true};
    if (r.n_pieces == 0)
        return mica_fail(err, MICA_E_INVALID, "bandwidth: %zu bytes; expected at least %zu",
                         n_bytes, piece);
    r.words = mica_aligned_alloc(64, (size_t)r.n_pieces * piece);
    if (!r.words)
        return mica_fail(err, MICA_E_NOMEM, "bandwidth: no memory for %zu bytes", n_bytes);
    read_once(backend, &r);
    r.is_first = false;
    out->read_isa = r.reader->isa;
    for (int n = only_all ? n_threads : 1; n <= n_threads; n++)
        out->read_bps[n] = best_rate(backend, &r, n);
    mica_free(r.words);
    return MICA_OK;
}

mica_status mica_cpu_read_bandwidth(cpu_backend *backend, size_t n_bytes, double *out,
                                    mica_error *err) {
    cpu_limits limits = {.n_threads = mica_pool_threads(backend->pool)};
    mica_status st = measure_reading(backend, n_bytes, true, &limits, err);
    if (!st) *out = limits.read_bps[limits.n_threads];
    return st;
}

/* ---- multiplying ---- */

typedef struct multiplying {
    const cpu_peak *peak;
    int64_t n_rounds;
    int n_workers;
} multiplying;

static void multiply(void *arg, int thread, int n_threads) {
    const multiplying *m = arg;
    (void)n_threads;
    if (thread < m->n_workers) m->peak->run(m->n_rounds);
}

static double multiply_once(cpu_backend *backend, multiplying *m) {
    double begin = mica_now_s();
    mica_pool_run(backend->pool, multiply, m);
    return mica_now_s() - begin;
}

static double best_ops(cpu_backend *backend, const cpu_peak *peak, int n_workers) {
    multiplying m = {.peak = peak, .n_rounds = 1000, .n_workers = n_workers};
    double seconds = multiply_once(backend, &m), best = 0;
    while (seconds < pass_s / 2 && m.n_rounds < INT64_MAX / 8) {
        m.n_rounds *= 4;
        seconds = multiply_once(backend, &m);
    }
    for (int i = 0; i < N_PASSES; i++) {
        double rate = (double)m.n_rounds * peak->ops_per_round * n_workers / seconds;
        if (rate > best) best = rate;
        seconds = multiply_once(backend, &m);
    }
    return best;
}

static bool is_allowed(const cpu_backend *backend, const cpu_peak *peak) {
    return (backend->table.isa_mask >> peak->isa & 1u) &&
           (!peak->is_available || peak->is_available());
}

static void measure_peaks(cpu_backend *backend, bool only_all, cpu_limits *out) {
    for (int i = 0; i < mica_n_isa_peaks && out->n_peaks < LIMITS_MAX_PEAKS; i++) {
        const cpu_peak *peak = mica_isa_peaks[i];
        if (!is_allowed(backend, peak)) continue;
        cpu_peak_rate *rate = &out->peaks[out->n_peaks++];
        rate->peak = peak;
        rate->one_ops = only_all && out->n_threads > 1 ? 0 : best_ops(backend, peak, 1);
        rate->all_ops =
            out->n_threads > 1 ? best_ops(backend, peak, out->n_threads) : rate->one_ops;
    }
}

mica_status mica_cpu_measure_limits(cpu_backend *backend, size_t n_bytes, bool only_all,
                                    cpu_limits *out, mica_error *err) {
    *out = (cpu_limits){.n_threads = mica_pool_threads(backend->pool)};
    mica_status st = measure_reading(backend, n_bytes, only_all, out, err);
    if (!st) measure_peaks(backend, only_all, out);
    return st;
}

const cpu_peak_rate *mica_cpu_best_peak(const cpu_limits *limits, peak_kind kind) {
    const cpu_peak_rate *best = NULL;
    for (int i = 0; i < limits->n_peaks; i++) {
        const cpu_peak_rate *r = &limits->peaks[i];
        if (r->peak->kind == kind && (!best || r->all_ops > best->all_ops)) best = r;
    }
    return best;
}

const char *mica_cpu_peak_kind_name(peak_kind kind) {
    static const char *const names[PEAK_N] = {"f32", "int8", "bf16"};
    return (unsigned)kind < PEAK_N ? names[kind] : "unknown";
}
