/* split.c: the lever parts: attention becomes two steps, parts of the keys and their join, so that
 * threads share a long context however few heads there are.
 *
 * A node is inserted before each attention. Where the target has no kernel for the parts an
 * attention stays as it is.
 */
#include "plan/work.h"

#include <inttypes.h>

#include "graph/attention_parts.h"

static graph_node parts_node(const plan_work *w, const graph_node *attention) {
    graph_node node = *attention;
    int64_t n_heads = w->nodes[attention->src[0]].type.dim[1].n;
    const kv_layout *l = &attention->attr.attention.layout;
    int64_t n_parts = attention_n_parts(n_heads, l->n_kv_heads);
    int64_t length = attention_parts_length(n_heads * n_parts, l->v_head_dim);
    node.op = OP_ATTENTION_PARTS;
    node.type = (graph_type){.dtype = MICA_F32, .n_dims = 2};
    node.type.dim[0] = attention->type.dim[0];
    node.type.dim[1] = mica_dim(length);
    node.type.stride[0] = length;
    node.type.stride[1] = 1;
    return node;
}

static bool is_split(const plan_work *w, graph_id id, graph_node *parts) {
    if (!w->live[id] || w->nodes[id].op != OP_ATTENTION) return false;
    *parts = parts_node(w, &w->nodes[id]);
    return mica_plan_target_takes(w, parts);
}

/* The nodes with parts among them. */
static void insert_all(plan_insert *in) {
    const plan_work *w = in->w;
    for (graph_id id = 0; id < w->n_nodes; id++) {
        graph_node node = w->nodes[id], parts;
        if (is_split(w, id, &parts)) {
            mica_plan_renumber(in, &parts);
            node.op = OP_ATTENTION_JOIN;
            node.n_src = 1;
            node.src[0] = mica_plan_append(in, &parts);
            for (int i = 1; i < GRAPH_MAX_SRC; i++)
                node.src[i] = GRAPH_NONE;
        } else {
            mica_plan_renumber(in, &node);
        }
        in->new_id[id] = mica_plan_append(in, &node);
    }
}

mica_status mica_plan_split(plan_work *w, mica_error *err) {
    plan_insert in;
    if (!mica_lever_on(w->options->levers, LEVER_PARTS)) {
        mica_plan_note(w, "split parts: off");
        return MICA_OK;
    }
    mica_status st = mica_plan_insert_init(&in, w, err);
    if (st) return st;
    insert_all(&in);
    mica_plan_note(w, "split parts: %" PRId32 " attentions", in.n - w->n_nodes);
    mica_plan_insert_take(&in);
    mica_plan_insert_deinit(&in);
    return MICA_OK;
}
