/* work.h: what the passes of plan/ share while one graph is compiled; private to this folder.
 *
 * The passes work on a copy of the node array, so that the graph itself stays as it was built.
 * Rewriting replaces a node in place, splitting and quantizing insert nodes: program order is never
 * disturbed.
 */
#ifndef MICA_PLAN_WORK_H
#define MICA_PLAN_WORK_H

#include "plan/target.h"

typedef struct plan_work {
    const graph *g;
    graph_node *nodes; /* the copy, with room for as many again */
    int32_t n_nodes;
    graph_id outputs[8];
    bool *live;       /* by node */
    int32_t *n_users; /* by node: live nodes that read it; an output counts as one more */
    int32_t *step_of; /* by node: the step that computes it, or -1 */
    int32_t *node_of; /* by step */
    const plan_options *options;
    plan *p;
    char notes[2048]; /* becomes plan.passes */
} plan_work;

/* One line about what a pass did. */
void mica_plan_note(plan_work *w, const char *format, ...) MICA_PRINTF(2, 3);

/* The passes, in order. */
void mica_plan_dead_code(plan_work *w);
void mica_plan_rewrite(plan_work *w);
void mica_plan_rewrite_late(plan_work *w); /* after quantizing */
mica_status mica_plan_split(plan_work *w, mica_error *err);
mica_status mica_plan_quantize(plan_work *w, mica_error *err);
mica_status mica_plan_schedule(plan_work *w, mica_error *err);
mica_status mica_plan_memory(plan_work *w, mica_error *err);
mica_status mica_plan_choose(plan_work *w, mica_error *err);

/* insert.c: nodes among those that are there, at most as many. */
typedef struct plan_insert {
    plan_work *w;
    graph_node *nodes;
    int32_t n;
    graph_id *new_id; /* by old node, as far as they were appended */
} plan_insert;

mica_status mica_plan_insert_init(plan_insert *in, plan_work *w, mica_error *err);
void mica_plan_insert_deinit(plan_insert *in);
/* Old ids among the sources of a node become new ones. */
void mica_plan_renumber(const plan_insert *in, graph_node *node);
graph_id mica_plan_append(plan_insert *in, const graph_node *node);
/* What was appended replaces the nodes of the plan. */
void mica_plan_insert_take(plan_insert *in);

/* tape.c: the step of a node, its operands resolved except for arena offsets, which count from the
 * tensor's own start. */
void mica_plan_fill_step(const plan_work *w, const graph_node *node, plan_step *step);
/* Whether running the node takes a step: not for leaves and views. */
bool mica_plan_is_step(const graph_node *node);
/* The node whose memory `id` shows: follows views. */
graph_id mica_plan_base(const plan_work *w, graph_id id);

/* Whether the target has a kernel for the node. */
bool mica_plan_target_takes(const plan_work *w, const graph_node *node);

/* Bytes that one step moves. */
uint64_t mica_plan_step_bytes(const plan_step *step, const int64_t sym[GRAPH_N_SYMS]);

#endif
