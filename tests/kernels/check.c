/* check.c: the kernel check: every variant of every op against the reference, bit for bit, and the
 * reference against double.
 *
 * usage: kernel_check [--seed N] [--filter OP] [--bench] [--digest HEX] [--every N]
 *            [--isa ref|avx2|avx512|avx512vnni|amx|neon|dotprod|i8mm]
 * Each case runs twice on a variant, with outputs that start as different garbage, scratch full of
 * NaN and the units cut at other places; NaN equals NaN. Exit code 77: the machine lacks the ISA.
 * Ops of which an ISA has no variant run when a digest is asked for. --every N leaves out cases.
 * The digest of the reference's results is the same on every architecture: inputs come from
 * correctly rounded operations only.
 */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_REPORTS 10

typedef struct options {
    uint64_t seed, digest; /* digest 0: not compared */
    const char *filter, *isa;
    int every; /* of so many cases one runs */
    bool bench;
} options;

static int n_failed, n_runs;
static uint64_t digest = 0xCBF29CE484222325u; /* FNV-1a of what the reference gave, without NaN */

/* What runs now, for the handler of faults. */
static char running[128];

static void on_fault(int signal_number) {
    (void)signal_number;
    static const char text[] = "FAILED: memory outside an operand was touched by ";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
    written += write(STDERR_FILENO, running, strlen(running));
    _exit(written < 0 ? 3 : 1);
}

static void report(const check_op *op, const char *kernel, const check_case *c, const char *what) {
    if (++n_failed > MAX_REPORTS) return;
    char form[64] = "";
    if (c->call.n_src > 1 && c->call.src[1].matrix)
        mica_weight_form_text(&c->call.src[1].matrix->form, form, sizeof(form));
    printf("FAILED %s: case %d of %s (%s, x %s, out %s): %s\n", kernel, c->index, op->name, form,
           mica_dtype_name(c->call.src[0].dtype), mica_dtype_name(c->call.out.dtype), what);
}

static void make_case(check_case *c, const check_op *op, uint64_t seed, int index) {
    memset(c, 0, sizeof(*c));
    c->rng.state = seed * 0x100000001B3u + (uint64_t)op->op * 0x10001u + (uint64_t)index;
    c->index = index;
    c->call.op = op->op;
    c->call.n_threads = 1 + (int)(c->index % 3);
    c->call.attr = &c->attr;
    op->make(c);
}

/* Runs all units, cut at random places, each part with its own scratch. */
static void run_kernel(const cpu_kernel *k, check_case *c, check_rng *rng, uint8_t fill) {
    if (c->out.data) memset(c->out.data, fill, c->out.n_bytes);
    int64_t n = k->n_units(&c->call);
    size_t n_scratch = k->scratch_bytes ? k->scratch_bytes(&c->call) : 0;
    void *scratch = k->scratch_bytes ? aligned_alloc(64, (n_scratch + 64) & ~(size_t)63) : NULL;
    snprintf(running, sizeof(running), "%s, case %d\n", k->name, c->index);
    int64_t most = check_below(rng, 3) ? 1 + check_below(rng, 5) : n;
    for (int64_t begin = 0; begin < n;) {
        int64_t end = begin + (most > 0 ? most : 1);
        if (end > n) end = n;
        if (scratch) memset(scratch, 0xFF, n_scratch);
        k->run(&c->call, begin, end, scratch);
        begin = end;
    }
    free(scratch);
    n_runs++;
}

void check_run_reference(const kernel_call *call) {
    cpu_table table;
    const char *why;
    if (mica_cpu_table_init(&table, "ref", NULL) != MICA_OK) abort();
    const cpu_kernel *k = mica_cpu_find_kernel(&table, call, &why);
    void *scratch = k->scratch_bytes ? malloc(k->scratch_bytes(call) + 1) : NULL;
    k->run(call, 0, k->n_units(call), scratch);
    free(scratch);
}

static bool same_element(const kernel_operand *o, const uint8_t *a, const uint8_t *b) {
    size_t size = mica_dtype_bytes(o->dtype);
    if (memcmp(a, b, size) == 0) return true;
    if (!mica_dtype_is_float(o->dtype)) return false;
    return isnan(mica_load_f(a, o->dtype, 0)) && isnan(mica_load_f(b, o->dtype, 0));
}

static bool is_set(const check_case *c, int64_t row, int64_t i) {
    return !c->is_set || c->is_set(c, row, i);
}

/* Elements equal those of `want`, everything between and around them is still `fill`. */
static bool same_output(const check_case *c, const uint8_t *want, uint8_t fill) {
    const kernel_operand *o = &c->call.out;
    if (!c->out.data) return true;
    size_t size = mica_dtype_bytes(o->dtype), n = c->out.n_bytes / size;
    bool *is_element = calloc(n + 1, 1), *is_free = calloc(n + 1, 1);
    int64_t front = ((uint8_t *)o->data - c->out.data) / (int64_t)size;
    for (int64_t r = 0; r < operand_rows(o); r++)
        for (int64_t i = 0; i < operand_width(o); i++) {
            int64_t e = front + operand_row(o, r) + i * operand_step(o);
            is_element[e] = is_set(c, r, i);
            is_free[e] = !is_element[e];
        }
    bool same = true;
    for (size_t e = 0; e < n && same; e++) {
        const uint8_t *p = c->out.data + e * size;
        for (size_t b = 0; b < size && !is_element[e] && !is_free[e]; b++)
            same = same && p[b] == fill;
        if (is_element[e]) same = same_element(o, p, want + e * size);
    }
    free(is_element);
    free(is_free);
    return same;
}

static void add_to_digest(const check_case *c) {
    const kernel_operand *o = &c->call.out;
    size_t size = mica_dtype_bytes(o->dtype);
    for (int64_t r = 0; r < operand_rows(o); r++)
        for (int64_t i = 0; i < operand_width(o); i++) {
            const uint8_t *p = operand_ptr(o, operand_row(o, r) + i * operand_step(o));
            if (!is_set(c, r, i)) continue;
            if (mica_dtype_is_float(o->dtype) && isnan(mica_load_f(p, o->dtype, 0))) continue;
            for (size_t b = 0; b < size; b++)
                digest = (digest ^ p[b]) * 0x100000001B3u;
        }
}

static uint8_t *copy_of(const void *p, size_t n) {
    uint8_t *copy = malloc(n + 1);
    if (!copy) exit(2);
    if (n) memcpy(copy, p, n);
    return copy;
}

/* Integers are bytes of quantized rows. */
static double element_at(const kernel_operand *o, int64_t row, int64_t i) {
    if (mica_dtype_is_float(o->dtype)) return check_at(o, row, i);
    return ((const uint8_t *)o->data)[operand_row(o, row) + i * operand_step(o)];
}

static void compare_with_truth(const check_op *op, const check_case *c) {
    const kernel_operand *o = &c->call.out;
    int64_t n = operand_rows(o) * operand_width(o), width = operand_width(o);
    if (!op->truth || c->specials) return;
    double *want = calloc((size_t)n + 1, sizeof(double)), *bound = calloc((size_t)n + 1, 8);
    op->truth(c, want, bound);
    for (int64_t e = 0; e < n; e++) {
        if (!is_set(c, e / width, e % width)) continue;
        double got = element_at(o, e / width, e % width), off = fabs(got - want[e]);
        double largest = o->dtype == MICA_F16 ? 65504 : 3.38e38;
        if (off <= bound[e] || isinf(bound[e]) || fabs(want[e]) + bound[e] > largest) continue;
        char text[160];
        snprintf(text, sizeof(text), "element %lld is %.9g; expected %.9g within %.3g",
                 (long long)e, got, want[e], bound[e]);
        report(op, "ref", c, text);
        break;
    }
    free(want);
    free(bound);
}

/* All variants of one case; results of the reference are the measure. */
static void check_one(const cpu_table *table, const check_op *op, const options *opt, int index) {
    check_case c;
    make_case(&c, op, opt->seed, index);
    check_rng rng = c.rng;
    uint8_t *before = copy_of(c.effect, c.effect_bytes), *want = NULL, *effect = NULL;
    for (int i = 0; i < table->n_kernels; i++) {
        const cpu_kernel *k = table->kernels[i];
        if (k->op != op->op || k->declines(&c.call)) continue;
        if (want && strcmp(opt->isa, mica_cpu_isa_name(k->isa)) != 0) continue;
        for (int round = 0; round < 2; round++) {
            uint8_t fill = round ? 0x3C : 0xA5;
            if (c.effect) memcpy(c.effect, before, c.effect_bytes);
            run_kernel(k, &c, &rng, fill);
            if (!want) {
                want = copy_of(c.out.data, c.out.n_bytes);
                effect = copy_of(c.effect, c.effect_bytes);
                compare_with_truth(op, &c);
                add_to_digest(&c);
            }
            if (!same_output(&c, want, fill)) report(op, k->name, &c, "other bits than ref");
            if (c.effect && memcmp(c.effect, effect, c.effect_bytes) != 0)
                report(op, k->name, &c, "other bytes written than ref");
        }
    }
    if (!want) report(op, "none", &c, "no kernel takes this case");
    free(want);
    free(effect);
    free(before);
    check_free(&c);
}

static bool has_variant(const cpu_table *table, graph_op op, const char *isa) {
    for (int i = 0; i < table->n_kernels; i++)
        if (table->kernels[i]->op == op && !strcmp(isa, mica_cpu_isa_name(table->kernels[i]->isa)))
            return true;
    return false;
}

static void check_ops(const cpu_table *table, const check_op *ops, int n, const options *opt) {
    for (int i = 0; i < n; i++) {
        if (opt->filter && !strstr(ops[i].name, opt->filter)) continue;
        if (!opt->digest && !has_variant(table, ops[i].op, opt->isa)) continue;
        int runs = n_runs, failed = n_failed;
        for (int j = 0; j < ops[i].n_cases; j += opt->every)
            check_one(table, &ops[i], opt, j);
        printf("%-20s %5d runs, %d failed\n", ops[i].name, n_runs - runs, n_failed - failed);
    }
}

static bool parse(options *opt, int argc, char **argv) {
    *opt = (options){.seed = 1, .isa = "ref", .every = 1};
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (!strcmp(argv[i], "--seed") && has_value)
            opt->seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--digest") && has_value)
            opt->digest = strtoull(argv[++i], NULL, 16);
        else if (!strcmp(argv[i], "--every") && has_value)
            opt->every = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--filter") && has_value)
            opt->filter = argv[++i];
        else if (!strcmp(argv[i], "--isa") && has_value)
            opt->isa = argv[++i];
        else if (!strcmp(argv[i], "--bench"))
            opt->bench = true;
        else
            return false;
    }
    return opt->every > 0;
}

int main(int argc, char **argv) {
    options opt;
    cpu_table table;
    mica_error err;
    if (!parse(&opt, argc, argv)) {
        fprintf(stderr, "usage: kernel_check [--seed N] [--filter OP] [--isa NAME] [--bench] "
                        "[--digest HEX] [--every N]\n");
        return 2;
    }
    if (mica_cpu_table_init(&table, opt.isa, &err) != MICA_OK) {
        fprintf(stderr, "kernel_check: %s\n", err.message);
        return 2;
    }
    bool available = false;
    for (int i = 0; i < ISA_N; i++)
        if (!strcmp(opt.isa, mica_cpu_isa_name((cpu_isa)i)))
            available = mica_cpu_isa_available((cpu_isa)i);
    if (!available) {
        printf("this machine has no %s\n", opt.isa);
        return 77;
    }
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    if (opt.bench) return check_bench(&table, opt.filter, opt.isa);
    printf("seed %llu, isa %s\n", (unsigned long long)opt.seed, opt.isa);
    if (!opt.filter && !strcmp(opt.isa, "ref")) n_failed += check_math() + check_vectors();
    check_ops(&table, check_ops_dense, check_n_ops_dense, &opt);
    check_ops(&table, check_ops_attention, check_n_ops_attention, &opt);
    check_ops(&table, check_ops_layers, check_n_ops_layers, &opt);
    check_ops(&table, check_ops_recurrent, check_n_ops_recurrent, &opt);
    check_ops(&table, check_ops_i8, check_n_ops_i8, &opt);
    printf("%d runs, %d failed; digest of the reference %016llx\n", n_runs, n_failed,
           (unsigned long long)digest);
    if (opt.digest && opt.digest != digest) {
        printf(
            "FAILED: the digest should be %016llx: the reference computes otherwise here, or the "
            "cases changed\n",
            (unsigned long long)opt.digest);
        n_failed++;
    }
    return n_failed ? 1 : 0;
}
