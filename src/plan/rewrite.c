/* rewrite.c: named rewrite rules: a pattern becomes a fused node.
 *
 * Each rule is a row: its lever, and a predicate that looks at a root node and builds the
 * replacement. A pattern matches only if nothing else reads what lies inside it, and is replaced
 * only if the target has a kernel for the fused node; so switching a rule on never makes a graph
 * uncompilable. The replacement takes the root's place; the rest becomes dead code.
 */
#include "plan/rules.h"

#include <inttypes.h>
#include <string.h>

typedef struct rewrite_rule {
    lever lever;
    match_fn match;
} rewrite_rule;

/* The fused pair that two matmuls of one input become, plain or of experts. */
static bool fuse_pair(const graph_node *root, const graph_node *gate, const graph_node *up,
                      glu_act act, graph_node *out) {
    bool experts = gate->op == OP_EXPERT_MATMUL;
    if (up->src[0] != gate->src[0] || (experts && up->src[2] != gate->src[2])) return false;
    *out = *root;
    out->op = experts ? OP_EXPERT_GLU_MATMUL : OP_GLU_MATMUL;
    out->n_src = 3 + experts;
    out->src[0] = up->src[0];
    out->src[1] = gate->src[1];
    out->src[2] = up->src[1];
    if (experts) out->src[3] = gate->src[2];
    out->attr = gate->attr;
    if (experts)
        out->attr.experts.act = act;
    else
        out->attr.glu.act = act;
    if (!out->name) out->name = up->name;
    return true;
}

/* mul(act(matmul(x, gate)), matmul(x, up)), with the product in this order. */
static bool match_glu_order(const plan_work *w, const graph_node *root, int act_src,
                            graph_op act_op, graph_op matmul, glu_act act, graph_node *out) {
    const graph_node *a = mica_plan_inner(w, root->src[act_src], act_op);
    const graph_node *up = mica_plan_inner(w, root->src[1 - act_src], matmul);
    const graph_node *gate = a ? mica_plan_inner(w, a->src[0], matmul) : NULL;
    if (!up || !gate) return false;
    /* The fused kernel rounds each intermediate to one dtype, as the composition does. */
    mica_dtype t = root->type.dtype;
    if (a->type.dtype != t || up->type.dtype != t || gate->type.dtype != t) return false;
    return fuse_pair(root, gate, up, act, out);
}

static bool match_glu(const plan_work *w, graph_id id, graph_op act_op, glu_act act,
                      graph_node *out) {
    const graph_node *root = &w->nodes[id];
    if (root->op != OP_MUL) return false;
    static const graph_op matmuls[] = {OP_MATMUL, OP_EXPERT_MATMUL};
    for (int i = 0; i < 4; i++)
        if (match_glu_order(w, root, i % 2, act_op, matmuls[i / 2], act, out)) return true;
    return false;
}

static bool match_swiglu(const plan_work *w, graph_id id, graph_node *out) {
    return match_glu(w, id, OP_SILU, GLU_SILU, out);
}

static bool match_geglu(const plan_work *w, graph_id id, graph_node *out) {
    return match_glu(w, id, OP_GELU_TANH, GLU_GELU_TANH, out) ||
           match_glu(w, id, OP_GELU, GLU_GELU, out);
}

static bool match_flash(const plan_work *w, graph_id id, graph_node *out) {
    const graph_node *root = &w->nodes[id];
    if (root->op != OP_ATTENTION) return false;
    *out = *root;
    out->op = OP_FLASH_ATTENTION;
    return true;
}

static const rewrite_rule rules[] = {
    {LEVER_SWIGLU, match_swiglu},
    {LEVER_GEGLU, match_geglu},
    {LEVER_FLASH, match_flash},
};

/* Of what quantizing has made. */
static const rewrite_rule late_rules[] = {
    {LEVER_NORM_ROWS, mica_plan_match_norm_rows},
    {LEVER_GLU_ROWS, mica_plan_match_glu_rows},
    {LEVER_RESIDUAL, mica_plan_match_residual},
};

bool mica_plan_target_takes(const plan_work *w, const graph_node *node) {
    plan_step step;
    mica_plan_fill_step(w, node, &step);
    return w->p->target->choose(w->p->target->self, &step, w->p->bound, NULL) == MICA_OK;
}

static void apply(plan_work *w, const rewrite_rule *rule) {
    const char *name = mica_levers[rule->lever].name;
    int32_t n_fired = 0, n_refused = 0;
    if (!mica_lever_on(w->options->levers, rule->lever)) {
        mica_plan_note(w, "rewrite %s: off", name);
        return;
    }
    for (int32_t id = 0; id < w->n_nodes; id++) {
        graph_node fused;
        if (!w->live[id] || !rule->match(w, id, &fused)) continue;
        if (!mica_plan_target_takes(w, &fused)) {
            n_refused++;
            continue;
        }
        w->nodes[id] = fused;
        n_fired++;
    }
    mica_plan_note(w, "rewrite %s: %" PRId32 " fused, %" PRId32 " without a kernel", name, n_fired,
                   n_refused);
}

void mica_plan_rewrite(plan_work *w) {
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++)
        apply(w, &rules[r]);
}

void mica_plan_rewrite_late(plan_work *w) {
    for (size_t r = 0; r < sizeof(late_rules) / sizeof(late_rules[0]); r++)
        apply(w, &late_rules[r]);
}
