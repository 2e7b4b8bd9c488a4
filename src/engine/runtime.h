/* runtime.h: the inside of the engine: what an engine and a session hold, and steps over rows.
 *
 * A runner is one compiled plan with its executor and the input arrays of a step, all made when the
 * engine opens: a step writes into them and allocates nothing. Exact engines have one runner for
 * both roles, fast ones a runner for each. What makes embeddings is a runner of its own, over a
 * graph that ends in hidden states; it shares weights and cache with the others.
 */
#ifndef MICA_ENGINE_RUNTIME_H
#define MICA_ENGINE_RUNTIME_H

#include "engine/engine.h"

typedef struct runner {
    const model_graph *graph;
    plan *plan;
    cpu_exec *exec;
    void **arrays; /* [n_inputs]: the arrays below by input slot */
    int32_t *tokens, *positions, *row_seq, *span_lo, *span_hi; /* [rows] */
    int32_t *logits_rows;                                      /* [logits] */
    int32_t *tables[MODEL_MAX_GROUPS];                         /* [seqs, table_length] */
    int32_t *slots[MODEL_MAX_GROUPS];                          /* [rows] */
    float *periods[2];                                         /* [rows, n_periods]; NULL: none */
    int64_t n_periods[2];
    uint64_t *states_in, *states_out; /* [seqs]; NULL: no recurrent layer */
    int32_t *seq_rows;                /* [seqs + 1] */
    void *signal;                     /* [rows, hidden_size]; NULL: no canvas */
    int64_t n_columns;                /* of the output: the vocabulary, or the hidden size */
    float *row; /* [n_columns]: an output row widened; NULL when the plan gives f32 */
} runner;

/* The decoder of a diffusion model, and what makes of its logits the signal for its next pass. */
typedef struct denoiser {
    model_graph canvas_graph, signal_graph;
    runner canvas, signal; /* no plan: the model is autoregressive */
} denoiser;

struct engine {
    model *model;
    cpu_backend *backend;
    model_graph graph, embed_graph;
    bool has_graph, has_embed_graph;
    runner runners[2]; /* by row_role; exact: [0] alone; none in an engine for embeddings alone */
    int n_runners;
    runner embedder; /* with has_embed_graph */
    embedding_config embedding;
    denoiser denoiser;
    kv_pool *pool;
    void *caches[MODEL_MAX_LAYERS]; /* bases, in the graph's order */
    mica_arena memory;              /* input arrays */
    int64_t max_context, vocab_size, table_length;
    int32_t chunk, max_logits, max_seqs, max_canvas;
    double load_s;
};

struct session {
    engine *engine;
    kv_seq *seq;      /* its length is that of the log */
    int32_t *tokens;  /* [max_context]: the log; behind it the rows of the step in flight */
    uint8_t *roles;   /* [max_context]: row_role of each */
    int64_t n_prompt; /* rope tables that depend on the prompt's length */
};

/* Compiles a graph of the engine for one role and allocates the arrays. On failure what was made
 * stays in *r for mica_runner_deinit. */
mica_status mica_runner_init(runner *r, engine *e, const model_graph *mg,
                             const plan_options *options, mica_error *err);
void mica_runner_deinit(runner *r);
static inline runner *mica_engine_runner(engine *e, row_role role) {
    return &e->runners[e->n_runners > 1 ? role : 0];
}
/* The graph that caches and states are laid out by; of two, either. */
static inline const model_graph *mica_engine_graph(const engine *e) {
    return e->has_graph ? &e->graph : &e->embed_graph;
}
/* Bytes that a one-row decode step, or a pass over a canvas, reads: weights once (of experts those
 * that it uses), gathered embedding rows, and the cache of a sequence of `length` positions. */
uint64_t mica_engine_bytes_per_token(engine *e, int64_t length);

/* Output row i of the runner's last run as f32: in its arena, or widened into `buffer`. */
const float *mica_runner_row(const runner *r, int64_t i, float *buffer);

/* ---- block diffusion (denoise.c, diffuse.c) ---- */
/* Plans for a canvas of at most e->max_canvas rows; `b` as the encoder was built. */
mica_status mica_denoiser_init(engine *e, const model_build_options *b, lever_set levers,
                               mica_error *err);
void mica_denoiser_deinit(denoiser *d);
/* mica_session_denoise without the rows, which stay with the canvas's runner until its next run. */
mica_status mica_denoise(session *s, const int32_t *canvas, int64_t n, const float *previous,
                         mica_error *err);
/* mica_generate of a diffusion model, behind its checks. */
mica_status mica_diffuse(session *s, const int32_t *prompt, int64_t n_prompt,
                         const generate_options *options, generate_result *out, mica_error *err);
/* generate.c: whether `id` ends a generation. */
bool mica_generate_is_end(const engine *e, const generate_options *options, int32_t id);

/* ---- steps (step.c) ---- */
/* The next n ids of one sequence; logits of the last row, or of all, or of none. */
typedef enum step_logits { STEP_NO_LOGITS, STEP_LAST_LOGITS, STEP_ALL_LOGITS } step_logits;
typedef struct step_part {
    session *session;
    const int32_t *ids;
    int64_t n;
    step_logits logits;
    bool is_open; /* each row sees all rows of the part, the later ones too */
} step_part;
typedef mica_status (*step_fn)(void *user, int part, int64_t row, const float *logits,
                               mica_error *err);

/* MICA_E_INVALID names the first id outside the vocabulary. */
mica_status mica_step_check_ids(const engine *e, const int32_t *ids, int64_t n, mica_error *err);

/* Runs all parts (each of another session) in one step and commits them; or, whatever fails, leaves
 * every session as it was. Rows and logits must fit the bounds of the role's plan. */
mica_status mica_step_run(engine *e, row_role role, const step_part *parts, int n_parts,
                          step_fn on_logits, void *user, mica_error *err);
/* Likewise with the embedder: rows of the last hidden states in place of logits. */
mica_status mica_step_embed(engine *e, const step_part *parts, int n_parts, step_fn on_hidden,
                            void *user, mica_error *err);

#endif
