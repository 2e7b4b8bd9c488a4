/* bench.c: times kernels on shapes of real models and prints the bytes of weights or cache that
 * they get through a second of one thread's own time: median and spread of 7 runs over data that
 * does not fit the second-level cache.
 */
#include <stdlib.h>
#include <time.h>

#include "check.h"

#define N_RUNS 7

/* Time that this thread ran: other work on the machine does not count. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_kernel(const cpu_kernel *k, const kernel_call *call, const char *what,
                        double n_bytes, double n_ops) {
    void *scratch =
        k->scratch_bytes ? aligned_alloc(64, (k->scratch_bytes(call) + 64) & ~63ull) : NULL;
    double t[N_RUNS];
    int64_t n = k->n_units(call);
    for (int i = 0; i < N_RUNS; i++) {
        double start = thread_seconds();
        k->run(call, 0, n, scratch);
        t[i] = thread_seconds() - start;
    }
    free(scratch);
    qsort(t, N_RUNS, sizeof(t[0]), by_value);
    double mid = t[N_RUNS / 2];
    printf("%-18s %-44s %9.3f ms (%.3f..%.3f) %7.2f GB/s %7.2f Gop/s\n", k->name, what, mid * 1e3,
           t[0] * 1e3, t[N_RUNS - 1] * 1e3, n_bytes / mid * 1e-9, n_ops / mid * 1e-9);
}

static void bench_matmul(const cpu_table *table, const char *isa, int form, int64_t rows,
                         int64_t n_out, int64_t n_in) {
    check_case c = {.index = form, .rng = {1}, .plain = true};
    c.call.op = OP_MATMUL;
    c.call.attr = &c.attr;
    int64_t x[2] = {rows, n_in}, out[2] = {rows, n_out};
    c.matrix[0].n_in = 0;
    check_weight(&c, 1, 0, 0, n_out, &n_in);
    if (!c.call.src[1].matrix) {
        check_free(&c);
        return;
    }
    check_operand(&c, 0, MICA_F32, 2, x);
    check_output(&c, MICA_F32, 2, out);
    char text[64], what[128];
    mica_weight_form_text(&c.matrix[0].form, text, sizeof(text));
    snprintf(what, sizeof(what), "%s [%lld x %lld] %lld rows", text, (long long)n_out,
             (long long)n_in, (long long)rows);
    for (int i = 0; i < table->n_kernels; i++) {
        const cpu_kernel *k = table->kernels[i];
        if (k->op != OP_MATMUL || k->declines(&c.call)) continue;
        if (isa && strcmp(isa, mica_cpu_isa_name(k->isa)) != 0) continue;
        time_kernel(k, &c.call, what, (double)mica_weight_bytes(&c.matrix[0]),
                    2.0 * (double)(rows * n_out * n_in));
    }
    check_free(&c);
}

int check_bench(const cpu_table *table, const char *filter, const char *isa) {
    (void)filter;
    for (int form = 0; form < check_form_count(); form++) {
        weight_form f;
        check_form_at(form, &f);
        bool is_plain = f.kind == WEIGHT_AFFINE && f.scale != SCALE_TWO_LEVEL;
        bool first_seen = form < 3 * 13 || (f.group == 64 && f.scale == SCALE_BF16);
        if (is_plain && !(f.group == 64 && f.scale == SCALE_BF16 && f.bias == BIAS_GROUP)) continue;
        if (!first_seen) continue;
        bench_matmul(table, isa, form, 1, 12288, 3072);
        bench_matmul(table, isa, form, 64, 1536, 3072);
    }
    return 0;
}
