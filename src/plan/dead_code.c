/* dead_code.c: marks what the outputs and the effects need, and counts users.
 *
 * Sources come before their users in the node array, so one walk from the end suffices. An effect
 * is a root: it changes memory that the next step reads.
 */
#include "plan/work.h"

#include <inttypes.h>
#include <string.h>

void mica_plan_dead_code(plan_work *w) {
    size_t n = (size_t)w->n_nodes;
    memset(w->n_users, 0, n * sizeof(*w->n_users));
    memset(w->live, 0, n * sizeof(*w->live));
    for (int i = 0; i < w->g->n_outputs; i++) {
        w->live[w->outputs[i]] = true;
        w->n_users[w->outputs[i]]++;
    }
    int32_t n_dead = 0;
    for (int32_t id = w->n_nodes - 1; id >= 0; id--) {
        const graph_node *node = &w->nodes[id];
        if (mica_graph_op_has_effect(node->op)) w->live[id] = true;
        if (!w->live[id]) {
            n_dead++;
            continue;
        }
        for (int i = 0; i < node->n_src; i++) {
            if (node->src[i] == GRAPH_NONE) continue;
            w->live[node->src[i]] = true;
            w->n_users[node->src[i]]++;
        }
    }
    mica_plan_note(w, "dead code: %" PRId32 " of %" PRId32 " nodes are not needed", n_dead,
                   w->n_nodes);
}
