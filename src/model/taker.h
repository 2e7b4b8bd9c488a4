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
    bool is_raw; /* NORM_RMS_RAW_PLUS_1: norms lack their 1 */
} model_taker;

void mica_taker_no_memory(model_taker *t);
/* scope + name + "." + suffix; n < 0: any length. */
const weight_vector *mica_taker_vector(model_taker *t, const char *name, const char *suffix,
                                       int64_t n);
norm_weight mica_taker_norm(model_taker *t, const char *name, int64_t n);
linear mica_taker_linear(model_taker *t, const char *name, int64_t n_out, int64_t n_in,
                         bias_rule rule);
/* ln(-x) of the vector scope + name, the rates of a scan as GGUF files hold them. */
const weight_vector *mica_taker_log_rates(model_taker *t, const char *name, int64_t n);
/* mla_take.c: latent attention of one layer. */
const mla_layer *mica_taker_mla(model_taker *t);
/* moe_take.c: the experts of one layer. */
const moe_layer *mica_taker_moe(model_taker *t);
/* delta_take.c: a gated-delta layer, and whether its tensors lie as on the hub (then norms lack
 * their 1). */
const delta_layer *mica_taker_delta(model_taker *t);
bool mica_taker_is_raw(const model_taker *t);
/* gemma_take.c: a layer of a Gemma 3n or 4, and what they have beside layers. */
void mica_taker_gemma_layer(model_taker *t, int64_t index, dense_layer *l);
const gemma_weights *mica_taker_gemma(model_taker *t);
/* encoder.c: the norm of the embeddings and the token type; drops what only heads read. */
void mica_taker_encoder(model_taker *t);
/* ssm_take.c */
const ssm_layer *mica_taker_ssm(model_taker *t, mixer_kind kind);

#endif
