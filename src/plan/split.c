/* split.c: the lever parts: attention becomes two steps, parts of the keys and their join, so that
 * threads share a long context however few heads there are.
 *
 * A node is inserted before each attention, so all nodes are numbered anew, in the same order.
 * Where the target has no kernel for the parts an attention stays as it is.
 */
#include "plan/work.h"

#include <inttypes.h>
#include <string.h>

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

static void renumber(graph_node *node, const graph_id *new_id) {
    for (int i = 0; i < node->n_src; i++)
        if (node->src[i] != GRAPH_NONE) node->src[i] = new_id[node->src[i]];
}

/* The nodes with parts among them; how many there are then. */
static int32_t insert_all(const plan_work *w, graph_node *nodes, graph_id *new_id) {
    int32_t n = 0;
    for (graph_id id = 0; id < w->n_nodes; id++) {
        graph_node node = w->nodes[id], parts;
        bool split = is_split(w, id, &parts);
        if (split) {
            renumber(&parts, new_id);
            nodes[n] = parts;
            node.op = OP_ATTENTION_JOIN;
            node.n_src = 1;
            node.src[0] = n++;
            for (int i = 1; i < GRAPH_MAX_SRC; i++)
                node.src[i] = GRAPH_NONE;
        } else {
            renumber(&node, new_id);
        }
        new_id[id] = n;
        nodes[n++] = node;
    }
    return n;
}

mica_status mica_plan_split(plan_work *w, mica_error *err) {
    if (!mica_lever_on(w->options->levers, LEVER_PARTS)) {
        mica_plan_note(w, "split parts: off");
        return MICA_OK;
    }
    mica_status st = MICA_OK;
    graph_node *nodes = mica_calloc(2 * (size_t)w->n_nodes + 1, sizeof(*nodes));
    graph_id *new_id = mica_calloc((size_t)w->n_nodes + 1, sizeof(*new_id));
    if (!nodes || !new_id) {
        st = mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
        goto out;
    }
    int32_t n = insert_all(w, nodes, new_id);
    memcpy(w->nodes, nodes, (size_t)n * sizeof(*nodes));
    for (int i = 0; i < w->g->n_outputs; i++)
        w->outputs[i] = new_id[w->outputs[i]];
    mica_plan_note(w, "split parts: %" PRId32 " attentions", n - w->n_nodes);
    w->n_nodes = n;
    mica_plan_dead_code(w);
out:
    mica_free(nodes);
    mica_free(new_id);
    return st;
}
