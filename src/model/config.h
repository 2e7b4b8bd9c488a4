/* config.h: reading a configuration into model_config, in two steps.
 *
 * First the keys of config.json or the metadata of a GGUF file are normalized; nothing of a tensor
 * is known then. Then the tensors decide what they know better (docs/models.md 2.2).
 * What the second step and the builder still need of the keys is a config_facts.
 */
#ifndef MICA_MODEL_CONFIG_H
#define MICA_MODEL_CONFIG_H

#include "model/arch.h"

#define CONFIG_MAX_WIDTH ((int64_t)1 << 24) /* of a layer's dimensions: no known model is near */
#define CONFIG_MAX_COUNT ((int64_t)INT32_MAX)

typedef struct config_facts {
    const arch *arch;
    const char *where; /* the file or folder, for messages; borrowed */
    bool is_gguf;
    int64_t head_dim; /* as stated; 0: not stated */
    bool has_vocab_size;
    bool has_rope_theta;
    bool has_tie, tie; /* tie_word_embeddings as stated */
    block_kind block;
    qk_norm_kind qk_norm;
    mlp_act act;
    bool bias[BIAS_RULE_N];           /* of the rules that are keys */
    double query_scalar;              /* the attention scale is its -1/2 power; 0: head_dim's */
    double attention_multiplier;      /* the attention scale itself; 0: none */
    double embed_multiplier;          /* of a key; 0: none */
    double dim_model_base;            /* 0: none */
    const float *xielu;               /* GGUF: alpha_p, alpha_n, beta, eps of each layer */
    int64_t per_layer_size, n_shared; /* as stated; -1: not stated */
} config_facts;

typedef struct config_source {
    const json_value *config;            /* config.json */
    const json_value *generation_config; /* NULL: none */
    const char *where;
} config_source;

/* Reads keys with one sticky error: after the first failure every read gives its fallback. */
typedef struct config_reader {
    const json_value *raw;  /* the document */
    const json_value *text; /* text_config, or the document */
    const char *where;
    const arch *arch;
    const arch_defaults *defaults; /* all zero: everything is required */
    const arch_keys *keys;         /* NULL: the usual names */
    const char *text_type;
    mica_arena *arena;
    mica_error *err;
    mica_status st;
} config_reader;

/* A set key of `object` as an integer in [least, most] or a finite number; absent: the fallback. A
 * value of another kind or size is the reader's error. */
int64_t mica_config_integer(config_reader *r, const json_value *object, const char *key,
                            int64_t fallback, int64_t least, int64_t most);
double mica_config_number(config_reader *r, const json_value *object, const char *key,
                          double fallback);
bool mica_config_flag(config_reader *r, const json_value *object, const char *key, bool fallback);
const char *mica_config_string(config_reader *r, const json_value *object, const char *key,
                               const char *fallback);

/* The parts of mica_config_read, each in a file of its own. */
void mica_config_read_ropes(config_reader *r, model_config *c, config_facts *facts);
void mica_config_read_windows(config_reader *r, model_config *c);
void mica_config_refuse_unknown(config_reader *r);
/* The error that this value of a key is not supported for the family. */
void mica_config_refuse(config_reader *r, const char *key, const json_value *v);
void mica_config_read_moe(config_reader *r, model_config *c);    /* config_moe.c */
void mica_config_read_mixers(config_reader *r, model_config *c); /* config_recurrent.c */
void mica_config_read_mla(config_reader *r, model_config *c);    /* mla_take.c */
float mica_mla_scale(const model_config *c);
/* config_ssm.c */
void mica_config_read_ssm(config_reader *r, model_config *c);
int64_t mica_config_n_layers(config_reader *r, int64_t fallback);
/* config_scales.c: the multipliers of falcon_h1, and what is left of them when the weights hold the
 * others. */
void mica_config_read_branches(config_reader *r, model_config *c, config_facts *facts);
mica_status mica_config_settle_branches(model_config *c, config_facts *facts,
                                        const weight_store *weights, mica_error *err);
void mica_config_read_encoder(config_reader *r, model_config *c); /* encoder.c */

/* config_diffusion.c; `generation` is generation_config.json, NULL: none. */
void mica_config_read_diffusion(config_reader *r, const json_value *generation, model_config *c);
void mica_config_read_gemma(config_reader *r, model_config *c, config_facts *facts);
/* A size that may be a list with an entry for each layer: its first. */
int64_t mica_config_first_width(config_reader *r, const char *key, int64_t fallback);
/* What the tensors of a Gemma 3n or 4 know better (config_gemma.c). */
mica_status mica_gemma_settle(model_config *c, const config_facts *facts,
                              const weight_store *weights, mica_error *err);

/* config.json of the family `a`. Arrays go to `arena`. */
mica_status mica_config_read(const config_source *source, const model_kind *kind, const arch *a,
                             mica_arena *arena, model_config *out, config_facts *facts,
                             mica_error *err);
/* The metadata of a GGUF file; rope tables among its tensors are copied to `arena`. */
mica_status mica_config_read_gguf(gguf_file *file, const arch *a, mica_arena *arena,
                                  model_config *out, config_facts *facts, mica_error *err);

/* Sizes that must hold for any model: divisible heads, even head_dim, products in range. */
mica_status mica_config_check(const model_config *c, const char *where, mica_error *err);

/* The second step: embedding rows, head_dim, tied head, attention scale, embedding multiplier. A
 * message in `warning` (empty: none) is for the user. */
mica_status mica_config_settle(model_config *c, config_facts *facts, const weight_store *weights,
                               char *warning, size_t n_warning, mica_error *err);

/* ---- rope.c ---- */
/* Whether the periods depend on a sequence's length, so that they are an input of the graph. */
bool mica_rope_by_length(const rope_config *rope);
/* The table of a sequence within the original length becomes that of all. */
void mica_rope_forget_length(rope_config *rope);
/* As mica_rope_periods, for a sequence of n_positions. */
mica_status mica_rope_periods_at(const rope_config *rope, int64_t dims, int64_t n_positions,
                                 float *out, float *position_scale, float *input_scale,
                                 mica_error *err);
/* Rotated channels of a head. */
int64_t mica_rope_dims(const rope_config *rope, int64_t head_dim);
void mica_rope_defaults(rope_config *rope, double theta);

#endif
