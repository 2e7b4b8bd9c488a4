/* gate.h: how far a profile's logits are from the exact ones. */
#ifndef MICA_TESTS_ENGINE_GATE_H
#define MICA_TESTS_ENGINE_GATE_H

#include "engine/engine.h"
#include "plan/levers.h"

typedef struct gate {
    double kl;     /* mean over rows of KL(exact || other), nats */
    double agreed; /* share of rows with the same best token */
} gate;

gate gate_measure(const float *exact, const float *other, int64_t n_rows, int64_t n_vocab);
/* KL below 2e-3 and the best token the same in at least 56 of 64 rows. Prints what it finds. */
bool gate_holds(const char *what, const char *how, gate g);

/* An assignment for every lever: those with their bit in `on` are on, the others off. */
typedef struct gate_levers {
    char text[LEVER_N][32];
    const char *list[LEVER_N];
} gate_levers;
void gate_levers_init(gate_levers *levers, uint32_t on);

#endif
