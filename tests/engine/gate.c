/* gate.c: KL divergence and agreement of the best token under teacher forcing. */
#include "gate.h"

#include <math.h>
#include <stdio.h>

#include "cmocka_base.h"

static double log_sum(const float *row, int64_t n) {
    double max = (double)row[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if ((double)row[i] > max) max = (double)row[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum);
}

static int64_t best_of(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

gate gate_measure(const float *exact, const float *other, int64_t n_rows, int64_t n_vocab) {
    gate g = {0, 0};
    for (int64_t r = 0; r < n_rows; r++) {
        const float *p = exact + r * n_vocab, *q = other + r * n_vocab;
        double lp = log_sum(p, n_vocab), lq = log_sum(q, n_vocab), kl = 0;
        for (int64_t i = 0; i < n_vocab; i++) {
            double a = (double)p[i] - lp, b = (double)q[i] - lq;
            kl += exp(a) * (a - b);
        }
        g.kl += kl / (double)n_rows;
        if (best_of(p, n_vocab) == best_of(q, n_vocab)) g.agreed += 1.0 / (double)n_rows;
    }
    return g;
}

bool gate_holds(const char *what, const char *how, gate g) {
    bool good = g.kl < 2e-3 && g.agreed >= 56.0 / 64;
    print_message("%-24s %-28s KL %.2e, same best token in %.1f %%%s\n", what, how, g.kl,
                  100 * g.agreed, good ? "" : "  WRONG");
    return good;
}

void gate_levers_init(gate_levers *levers, uint32_t on) {
    for (int i = 0; i < LEVER_N; i++) {
        snprintf(levers->text[i], sizeof(levers->text[i]), "%s=%s", mica_levers[i].name,
                 on >> i & 1u ? "on" : "off");
        levers->list[i] = levers->text[i];
    }
}
