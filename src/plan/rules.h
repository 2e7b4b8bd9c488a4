/* rules.h: what a rewrite rule is, and the rules that have files of their own; private to this
 * folder.
 */
#ifndef MICA_PLAN_RULES_H
#define MICA_PLAN_RULES_H

#include "plan/work.h"

/* Whether the pattern of a rule ends in node `root`; if so *out is what replaces it. */
typedef bool (*match_fn)(const plan_work *w, graph_id root, graph_node *out);

/* The node at `id` if it is a live `op` that one node reads; else NULL. */
static inline const graph_node *mica_plan_inner(const plan_work *w, graph_id id, graph_op op) {
    const graph_node *n = &w->nodes[id];
    return n->op == op && w->n_users[id] == 1 ? n : NULL;
}

bool mica_plan_match_norm_rows(const plan_work *w, graph_id root, graph_node *out);
bool mica_plan_match_glu_rows(const plan_work *w, graph_id root, graph_node *out);
bool mica_plan_match_residual(const plan_work *w, graph_id root, graph_node *out);

#endif
