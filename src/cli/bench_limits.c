/* bench_limits.c: what the machine can do at most, as a table or JSON. */
#include "cli/bench_limits.h"

#include <stdio.h>

#include "cli/cli.h"

static void put_peak(json_writer *w, const cpu_peak_rate *rate) {
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "name", rate->peak->name);
    mica_json_member_cstring(w, "kind", mica_cpu_peak_kind_name(rate->peak->kind));
    if (rate->one_ops > 0) mica_json_member_double(w, "one_thread_gops", rate->one_ops / 1e9);
    mica_json_member_double(w, "gops", rate->all_ops / 1e9);
    mica_json_end_object(w);
}

void mica_bench_put_limits(json_writer *w, const cpu_limits *limits) {
    mica_json_begin_object(w);
    mica_json_member_i64(w, "threads", limits->n_threads);
    mica_json_member_cstring(w, "read_isa", mica_cpu_isa_name(limits->read_isa));
    mica_json_key(w, "read_gbps"); /* [0]: one thread; null: not measured */
    mica_json_begin_array(w);
    for (int n = 1; n <= limits->n_threads; n++) {
        if (limits->read_bps[n] > 0)
            mica_json_put_double(w, limits->read_bps[n] / 1e9);
        else
            mica_json_put_null(w);
    }
    mica_json_end_array(w);
    mica_json_key(w, "peaks");
    mica_json_begin_array(w);
    for (int i = 0; i < limits->n_peaks; i++)
        put_peak(w, &limits->peaks[i]);
    mica_json_end_array(w);
    mica_json_end_object(w);
}

static void print_table(const cpu_limits *limits) {
    printf("reading %.1f GB of memory (%s)\n", (double)BENCH_READ_BYTES / 1e9,
           mica_cpu_isa_name(limits->read_isa));
    for (int n = 1; n <= limits->n_threads; n++)
        printf("  %d thread%s %*s %10.2f GB/s\n", n, n == 1 ? "" : "s", n == 1 ? 8 : 7, "",
               limits->read_bps[n] / 1e9);
    printf("multiply-adds, Gop/s %11s %12s\n", "1 thread", "all");
    for (int i = 0; i < limits->n_peaks; i++)
        printf("  %-18s %11.1f %12.1f\n", limits->peaks[i].peak->name,
               limits->peaks[i].one_ops / 1e9, limits->peaks[i].all_ops / 1e9);
    if (!limits->n_peaks) printf("  none: this build has no loops for this processor\n");
}

static void print_json(const cpu_limits *limits) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_bench_put_limits(&w, limits);
    if (!w.failed) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
}

int mica_bench_limits(int n_threads, bool json) {
    cpu_backend *backend = NULL;
    cpu_limits limits;
    mica_error err;
    mica_status st = mica_cpu_new(&backend, n_threads, NULL, &err);
    if (!st) st = mica_cpu_measure_limits(backend, BENCH_READ_BYTES, false, &limits, &err);
    if (!st) (json ? print_json : print_table)(&limits);
    mica_cpu_free(backend);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
