/* cost.c: what a step moves and computes, as its plan says: the yardsticks of a measurement.
 */
#include "engine/runtime.h"

/* The one row that each embedding table gives up. */
static uint64_t gathered_bytes(const plan *p) {
    uint64_t n_bytes = 0;
    for (int32_t i = 0; i < p->n_steps; i++)
        for (int k = 0; p->steps[i].op == OP_EMBED && k < p->steps[i].n_src; k++) {
            const plan_operand *o = &p->steps[i].src[k];
            if (o->space == PLAN_WEIGHT)
                n_bytes += mica_weight_bytes(o->matrix) / (uint64_t)o->matrix->n_out;
        }
    return n_bytes;
}

/* Of experts that one row does not choose. */
static uint64_t idle_bytes(const plan *p) {
    uint64_t n_bytes = 0;
    for (int32_t i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_src; k++) {
            const plan_operand *o = &p->steps[i].src[k];
            if (o->space != PLAN_WEIGHT || o->matrix->n_experts <= 1) continue;
            uint64_t n_experts = (uint64_t)o->matrix->n_experts;
            uint64_t n_used = (uint64_t)p->steps[i].attr.experts.k;
            if (n_used < n_experts)
                n_bytes += mica_weight_bytes(o->matrix) / n_experts * (n_experts - n_used);
        }
    return n_bytes;
}

/* One pass of a diffusion model: all weights, since the rows of a canvas choose all experts, and
 * those of the embedding once more for the signal. */
static uint64_t pass_bytes(const denoiser *d) {
    return mica_plan_weight_bytes(d->canvas.plan) + mica_plan_weight_bytes(d->signal.plan);
}

uint64_t mica_engine_bytes_per_token(engine *e, int64_t length) {
    const plan *p = mica_engine_runner(e, ROLE_DECODE)->plan;
    uint64_t n_bytes = mica_plan_weight_bytes(p) + gathered_bytes(p) - idle_bytes(p);
    if (mica_engine_is_diffusion(e)) n_bytes = pass_bytes(&e->denoiser);
    for (int i = 0; i < e->graph.n_caches; i++) {
        int32_t window = e->graph.windows[e->graph.caches[i].group];
        int64_t n = length ? length - mica_oldest_key(window, length - 1) : 0;
        n_bytes += e->graph.caches[i].layout.block_bytes / KV_BLOCK * (uint64_t)n;
    }
    return n_bytes;
}

/* Two for each weight and row that it multiplies; a fused step has several matrices. */
static double matmul_ops(const plan_step *s, const int64_t sym[GRAPH_N_SYMS]) {
    double n_rows = 1, ops = 0;
    for (int i = 0; i + 1 < s->out.type.n_dims; i++)
        n_rows *= (double)mica_graph_dim_size(s->out.type.dim[i], sym);
    for (int i = 0; s->op != OP_EMBED && i < s->n_src; i++) {
        if (s->src[i].space != PLAN_WEIGHT) continue;
        const weight_matrix *m = s->src[i].matrix;
        ops += 2 * n_rows * (double)m->n_out * (double)m->n_in;
    }
    return ops;
}

static bool is_attention(graph_op op) { return op == OP_ATTENTION || op == OP_FLASH_ATTENTION; }

/* Scores and the weighted sum of values, over the keys that each of n rows sees. */
static double attention_ops(const plan_step *s, int64_t n) {
    const kv_layout *l = &s->attr.attention.layout;
    double n_seen = 0, n_heads = (double)s->src[0].type.dim[1].n;
    for (int64_t i = 0; i < n; i++)
        n_seen += (double)(i + 1 - mica_oldest_key(s->attr.attention.window, i));
    return 2 * n_seen * n_heads * (double)(l->head_dim + l->v_head_dim);
}

double mica_engine_prompt_ops(engine *e, int64_t n) {
    const plan *p = mica_engine_runner(e, ROLE_PROMPT)->plan;
    const int64_t sym[GRAPH_N_SYMS] = {
        [GRAPH_FIXED] = 1, [GRAPH_ROWS] = n, [GRAPH_LOGITS] = 1, [GRAPH_SEQS] = 1};
    double ops = 0;
    for (int32_t i = 0; i < p->n_steps; i++) {
        ops += matmul_ops(&p->steps[i], sym);
        if (is_attention(p->steps[i].op)) ops += attention_ops(&p->steps[i], n);
    }
    return ops;
}
