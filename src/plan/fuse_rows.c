/* fuse_rows.c: the levers norm-rows and glu-rows: what is made for quantized matmuls alone is
 * quantized where it is made, so that its f32 rows are never written. The bits are those of the two
 * steps.
 */
#include "plan/rules.h"

/* `made` under the type of the quantized rows. */
static bool as_rows(const graph_node *root, const graph_node *made, graph_op op, graph_node *out) {
    if (!made || made->type.dtype != MICA_F32 || made->type.n_dims != 2) return false;
    *out = *made;
    out->op = op;
    out->type = root->type;
    return true;
}

bool mica_plan_match_norm_rows(const plan_work *w, graph_id id, graph_node *out) {
    const graph_node *root = &w->nodes[id];
    if (root->op != OP_QUANTIZE_ROWS) return false;
    return as_rows(root, mica_plan_inner(w, root->src[0], OP_RMS_NORM), OP_RMS_NORM_I8, out) ||
           as_rows(root, mica_plan_inner(w, root->src[0], OP_LAYER_NORM), OP_LAYER_NORM_I8, out);
}

bool mica_plan_match_glu_rows(const plan_work *w, graph_id id, graph_node *out) {
    const graph_node *root = &w->nodes[id];
    if (root->op != OP_QUANTIZE_ROWS) return false;
    return as_rows(root, mica_plan_inner(w, root->src[0], OP_GLU_MATMUL_I8), OP_GLU_ROWS_I8, out);
}
