/* engine.h: running a model: steps over rows, generation, samplers, statistics.
 */
#ifndef MICA_ENGINE_ENGINE_H
#define MICA_ENGINE_ENGINE_H

#include "backend/cpu/cpu.h"
#include "kv/kv.h"
#include "model/embedding.h"
#include "model/model.h"

typedef struct engine engine;
typedef struct session session; /* one sequence: its cache and its token log */

typedef enum row_role { ROLE_PROMPT, ROLE_DECODE } row_role;

/* What an engine is opened for. An encoder embeds only: to generate with it is MICA_E_UNSUPPORTED.
 */
typedef enum engine_use { ENGINE_GENERATES, ENGINE_EMBEDS, ENGINE_DOES_BOTH } engine_use;

typedef struct engine_options {
    engine_use use;
    bool exact;
    bool has_dtype; /* with exact only */
    mica_dtype dtype;
    int n_threads;             /* 0: default */
    int64_t max_context;       /* 0: the model's */
    int32_t chunk;             /* prompt rows a step; 0: 512 */
    int32_t max_logits;        /* logits rows a step, and rows a step when all are wanted; 0: 1 */
    int32_t max_seqs;          /* sequences at full length for which there is room; 0: 1 */
    int32_t canvas;            /* rows of a diffusion model's canvas, at most; 0: the model's own */
    const char *const *levers; /* "NAME=on" ... */
    int n_levers;
    const char *cpu_mask;    /* NULL: MICA_CPU */
    const char *pack_folder; /* re-ordered weights on disk (weights/pack.h); NULL: none */
    model_options model;
} engine_options;

/* MICA_E_INVALID: a dtype without exact, or a number out of its bounds. MICA_E_LIMIT: a context
 * longer than the model's. */
mica_status mica_engine_open(engine **out, const char *path, const engine_options *options,
                             mica_error *err);
void mica_engine_close(engine *e);
const model *mica_engine_model(const engine *e);
int64_t mica_engine_max_context(const engine *e);
int64_t mica_engine_vocab_size(const engine *e); /* columns of the logits */
cpu_backend *mica_engine_backend(const engine *e);
/* The plan of a role, or that of embeddings in an engine for these alone; for `mica plan`. Of a
 * diffusion model the decode role has that of a canvas. */
const plan *mica_engine_plan(const engine *e, row_role role);
double mica_engine_load_s(const engine *e);
/* Multiplications and additions that a prompt of n tokens takes: matmuls, of experts those that its
 * rows choose, and attention; logits of its last row. */
double mica_engine_prompt_ops(engine *e, int64_t n);

mica_status mica_session_new(session **out, engine *e, mica_error *err);
void mica_session_free(session *s);
int64_t mica_session_length(const session *s);
/* The token log: ids and roles of all committed rows. */
const int32_t *mica_session_tokens(const session *s, int64_t *n);
row_role mica_session_role(const session *s, int64_t pos); /* of a row of the log */

/* Called with logits row i (of the ids given to eval), f32 [vocab], before its step is committed;
 * not MICA_OK stops and the step is as if it had not been. */
typedef mica_status (*logits_fn)(void *user, int64_t i, const float *logits, mica_error *err);

typedef struct eval_options {
    row_role role;
    int64_t n_prompt;    /* length of the whole prompt (rope tables); 0: session length + n_ids */
    bool all_logits;     /* else only the last row's */
    logits_fn on_logits; /* NULL: none wanted */
    /* Between chunks: done and total rows; false cancels (MICA_E_CANCELLED). May be NULL. */
    bool (*on_progress)(void *user, int64_t done, int64_t total);
    void *user;
} eval_options;

/* Runs ids through the model in chunks and commits them chunk by chunk. A failed chunk leaves the
 * session as after the chunk before it. MICA_E_LIMIT: the context is full (both numbers).
 * MICA_E_INVALID: an id outside the vocabulary. */
mica_status mica_session_eval(session *s, const int32_t *ids, int64_t n_ids,
                              const eval_options *options, mica_error *err);
/* Drops the newest n positions. */
mica_status mica_session_trim(session *s, int64_t n, mica_error *err);

/* ---- embeddings (embed.c): of engines that embed ---- */
/* What the model's own files say; NULL: the engine was not opened to embed. */
const embedding_config *mica_engine_embedding(const engine *e);
int64_t mica_engine_embedding_size(const engine *e); /* numbers of a whole vector */
int64_t mica_engine_max_embedded(const engine *e);   /* tokens of a text at most */

typedef struct embed_text {
    const int32_t *ids; /* as the model wants them, special tokens included (embed_text.h) */
    int64_t n_ids;
    int64_t n_prompt; /* the first of them that pooling leaves out */
} embed_text;

typedef struct embed_options {
    pooling_kind pooling;
    bool normalize;
    int64_t n_dims; /* the first numbers of a vector only, cut before it is normalized; 0: all */
    /* Between steps: done and total rows; false cancels (MICA_E_CANCELLED). May be NULL. */
    bool (*on_progress)(void *user, int64_t done, int64_t total);
    void *user;
} embed_options;

/* As the model's files say. */
void mica_embed_defaults(const engine *e, embed_options *options);
/* One vector a text: out [n_texts, n_dims]. Texts share steps, up to `chunk` rows and `max_seqs`
 * texts at once; a vector does not depend on the texts beside it. MICA_E_LIMIT: a text is too long
 * (both numbers); MICA_E_INVALID: an empty one, or an id outside the vocabulary. */
mica_status mica_embed(engine *e, const embed_text *texts, int64_t n_texts,
                       const embed_options *options, float *out, mica_error *err);

/* ---- block diffusion (docs/models.md 16) ---- */
/* True: the model denoises canvases. It has no next-token logits: eval with on_logits is
 * MICA_E_UNSUPPORTED. */
bool mica_engine_is_diffusion(const engine *e);
/* One pass of the decoder over a canvas of n ids that stands behind what the session holds; the
 * session stays as it is. `previous`: the logits of the pass before, f32 [n, vocab], on which this
 * one is conditioned; NULL: the first of a block. on_logits gets all rows, in order; not MICA_OK
 * stops. MICA_E_LIMIT: the canvas is longer than options.canvas, or does not fit the context. */
mica_status mica_session_denoise(session *s, const int32_t *canvas, int64_t n,
                                 const float *previous, logits_fn on_logits, void *user,
                                 mica_error *err);

/* How blocks are generated. */
typedef struct diffusion_options {
    int32_t max_steps;           /* of a block */
    double t_min, t_max;         /* temperatures of the last step and, nearly, of the first */
    bool by_confidence;          /* accept by threshold; else by entropy_bound */
    float threshold;             /* of the probability of a drawn token */
    float entropy_bound;         /* of what accepted tokens may tell of each other */
    bool stops_early;            /* once the best canvas is stable and its entropy below: */
    int32_t stability_threshold; /* so many canvases before it were the same */
    float confidence_threshold;  /* mean entropy of a position */
    bool full_canvas;            /* else as long as what is left of max_tokens, within: */
    int32_t min_canvas, max_canvas;
} diffusion_options;
/* What the model's files say, else the defaults. */
void mica_diffusion_defaults(diffusion_options *options, const engine *e);
/* Tokens to generate when a request does not say. */
int64_t mica_diffusion_max_tokens(const engine *e, int64_t n_prompt);

/* ---- sampler (docs: decode, processors and filters) ---- */
typedef struct sampler_options {
    float temperature; /* 0: greedy */
    float top_p;       /* on iff 0 < p < 1 */
    float min_p;       /* on iff != 0 */
    int32_t min_tokens_to_keep;
    int32_t top_k;            /* on iff > 0 */
    float repetition_penalty; /* 0 or 1: off */
    float presence_penalty, frequency_penalty;
    int32_t penalty_window;  /* 20; 0: whole history */
    const int32_t *bias_ids; /* logit bias */
    const float *bias_values;
    int32_t n_bias;
    uint64_t seed;
} sampler_options;

typedef struct sampler sampler;
void mica_sampler_defaults(sampler_options *options);
/* MICA_E_INVALID names a field out of its bounds. Allocates all it needs for rows of n_vocab. */
mica_status mica_sampler_new(sampler **out, const sampler_options *options, int64_t n_vocab,
                             mica_error *err);
void mica_sampler_free(sampler *s);
/* From now on tokens whose bit in `mask` is 0 are ruled out; borrowed, of one bit a token; NULL:
 * all are allowed. */
void mica_sampler_set_mask(sampler *s, const uint64_t *mask);
/* Token `step` (0 first) from a row; history = prompt and generated ids. The row is left as it is.
 * *logprob (may be NULL): after processors, before filters. MICA_E_INTERNAL: NaN or all -inf. */
mica_status mica_sampler_sample(sampler *s, const float *logits, const int32_t *history,
                                int64_t n_history, uint64_t step, int32_t *id, float *logprob,
                                mica_error *err);

/* ---- generation ---- */
typedef enum finish_reason {
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CONTEXT,
    FINISH_CANCELLED
} finish_reason;
const char *mica_finish_name(finish_reason r); /* "stop", "length", "context", "cancelled" */

/* Constrains what is generated: before each token it is asked what may come. */
typedef struct token_filter {
    /* Bit id of mask[0..n_words) says whether token `id` may come; all are written. */
    mica_status (*mask)(void *user, uint64_t *mask, size_t n_words, mica_error *err);
    /* The token was taken, an end token too if ends are ignored. *is_done: generation stops. */
    mica_status (*accept)(void *user, int32_t id, bool *is_done, mica_error *err);
    void *user;
} token_filter;

typedef struct generate_options {
    sampler_options sampler;
    const token_filter *filter; /* NULL: none */
    int64_t max_tokens;
    bool ignore_eos;
    const int32_t *extra_eos; /* besides the model's: what the tokenizer knows */
    int32_t n_extra_eos;
    bool logprobs; /* else on_token gets NaN, which is cheaper */
    /* A generated token (not called for the end token). false stops (FINISH_CANCELLED). */
    bool (*on_token)(void *user, int32_t id, float logprob);
    bool (*on_progress)(void *user, int64_t done, int64_t total); /* prefill; may be NULL */
    const diffusion_options *diffusion; /* NULL: mica_diffusion_defaults */
    /* After each step of a block but its last; may be NULL. false stops (FINISH_CANCELLED). */
    bool (*on_denoised)(void *user, int64_t step, int64_t max_steps);
    void *user;
} generate_options;

typedef struct generate_stats {
    int64_t prompt_tokens, generated_tokens; /* generated counts an end token */
    int64_t denoising_steps;                 /* of a diffusion model, of all blocks */
    double load_s, ttft_s;                   /* time to first token from the call; load apart */
    double prefill_s, decode_s;
    double prefill_tps, decode_tps; /* decode: (generated-1)/time; NaN below 2 tokens */
    uint64_t bytes_per_token;       /* weights + cache read for the last decoded token */
    double achieved_gbps;           /* bytes_per_token * decode_tps / 1e9 */
    uint64_t peak_rss_bytes;
} generate_stats;

typedef struct generate_result {
    int32_t *ids; /* generated, without the end token; mica_free */
    int64_t n_ids;
    finish_reason reason;
    generate_stats stats;
} generate_result;

void mica_generate_defaults(generate_options *options);
/* Appends the prompt to the session and generates; a diffusion model gives a block of tokens at a
 * time, and the session then holds all blocks but the last. An empty prompt is MICA_E_INVALID; one
 * that does not fit the context MICA_E_LIMIT with both numbers. max_tokens 0 only fills the cache.
 */
mica_status mica_generate(session *s, const int32_t *prompt, int64_t n_prompt,
                          const generate_options *options, generate_result *out, mica_error *err);
void mica_generate_result_deinit(generate_result *r);

#endif
