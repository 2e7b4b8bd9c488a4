/* taker.h: taking the tensors of a model by their canonical names, with one sticky error.
 */
#ifndef MICA_MODEL_TAKER_H
#define MICA_MODEL_TAKER_H

#include "model/loaded.h"

typedef struct model_taker {
    model *m;
    char scope[64]; /* "model.layers.3." */
    mica_error *err;
    mica_status st;
} model_taker;

void mica_taker_no_memory(model_taker *t);
/* scope + name + "." + suffix; n < 0: any length. */
const weight_vector *mica_taker_vector(model_taker *t, const char *name, const char *suffix,
                                       int64_t n);
norm_weight mica_taker_norm(model_taker *t, const char *name, int64_t n);
linear mica_taker_linear(model_taker *t, const char *name, int64_t n_out, int64_t n_in,
                         bias_rule rule);
/* moe_take.c: the experts of one layer. */
const moe_layer *mica_taker_moe(model_taker *t);

#endif
