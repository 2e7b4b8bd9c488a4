/* ambiguity.c: refuses programs in which some place has more ways on than a machine follows.
 *
 * The ways on at a node are what a closure visits: nodes that are reached without a byte, each with
 * its stack. First they are counted as if no two ways met, by one pass over the nodes: in hardly
 * any grammar is even that too much. Where it is, closures are made as a machine makes them, above
 * a hole; each node is reached by some text, so the machine would have to give up there. What gets
 * ambiguous only along a text is not found here (lazy.c).
 */
#include "text/grammar/lazy.h"
#include "text/grammar/program.h"

/* So many configurations are tried, of all closures together. */
enum { MAX_TRIED = 4 * LAZY_MAX_WAYS };
enum { NODE_NEW, NODE_OPEN, NODE_DONE };

typedef struct way_counter {
    const program *p;
    uint32_t *n_ways; /* of each node, at most LAZY_MAX_WAYS + 1 */
    uint8_t *marks;
    uint8_t *is_nullable; /* a RETURN is reached without a byte */
    uint32_t *todo;
    uint32_t n_todo, capacity;
    bool is_out_of_memory;
    uint32_t n_most;
} way_counter;

/* ---- counting ---- */

static bool push(way_counter *w, uint32_t node) {
    if (w->n_todo == w->capacity) {
        uint32_t capacity = 2 * w->capacity + 64;
        uint32_t *grown = mica_realloc(w->todo, capacity * sizeof(*grown));
        if (!grown) {
            w->is_out_of_memory = true;
            return false;
        }
        w->todo = grown;
        w->capacity = capacity;
    }
    w->todo[w->n_todo++] = node;
    return false;
}

/* Adds the ways of a node that is reached without a byte; false: it must be counted first. One that
 * is open is in a circle, which repeats of nothing would be. */
static bool add(way_counter *w, uint32_t node, uint32_t *sum) {
    if (w->marks[node] == NODE_NEW) return push(w, node);
    *sum += w->n_ways[node];
    if (*sum > LAZY_MAX_WAYS) *sum = LAZY_MAX_WAYS + 1;
    return true;
}

static bool add_members(way_counter *w, const program_node *n, uint32_t *sum) {
    const program_members *m = &w->p->members[n->a];
    bool is_known = true;
    for (uint32_t i = 0; i < m->n_items; i++) {
        if (!add(w, w->p->entries[m->first_entry + i], sum)) is_known = false;
    }
    return (m->required || add(w, n->b, sum)) && is_known;
}

/* Whether all that the node needs was counted; else it is on the list now. */
static bool add_children(way_counter *w, const program_node *n, uint32_t *sum) {
    bool is_known;
    switch (n->kind) {
    case NODE_SPLIT:
        is_known = add(w, n->a, sum);
        return add(w, n->b, sum) && is_known;
    case NODE_JUMP:
        return add(w, n->a, sum);
    case NODE_CALL:
        return add(w, n->a, sum) && (!w->is_nullable[n->a] || add(w, n->b, sum));
    case NODE_REPEAT:
        return add(w, n->a, sum) && (n->min || add(w, n->b, sum));
    case NODE_MEMBERS:
        return add_members(w, n, sum);
    default:
        return true;
    }
}

static bool is_nullable(const way_counter *w, const program_node *n) {
    switch (n->kind) {
    case NODE_RETURN:
        return true;
    case NODE_SPLIT:
        return w->is_nullable[n->a] || w->is_nullable[n->b];
    case NODE_JUMP:
        return w->is_nullable[n->a];
    case NODE_CALL:
        return w->is_nullable[n->a] && w->is_nullable[n->b];
    case NODE_REPEAT:
        return !n->min && w->is_nullable[n->b];
    case NODE_MEMBERS:
        return !w->p->members[n->a].required && w->is_nullable[n->b];
    default:
        return false;
    }
}

/* Counts a node and what it needs. */
static void count(way_counter *w, uint32_t node) {
    w->n_todo = 0;
    push(w, node);
    while (w->n_todo && !w->is_out_of_memory) {
        uint32_t at = w->todo[w->n_todo - 1], sum = 1;
        const program_node *n = &w->p->nodes[at];
        if (w->marks[at] != NODE_DONE) {
            w->marks[at] = NODE_OPEN;
            if (!add_children(w, n, &sum)) continue;
            w->marks[at] = NODE_DONE;
            w->n_ways[at] = sum;
            w->is_nullable[at] = is_nullable(w, n);
            if (sum > w->n_most) w->n_most = sum;
        }
        w->n_todo--;
    }
}

/* ---- trying ---- */

static mica_status try_node(lazy *l, uint32_t node, uint8_t *marks, uint32_t *n_tried) {
    mica_lazy_above_hole(l, node);
    *n_tried += l->n_todo;
    for (uint32_t i = 0; i < l->n_todo; i++) {
        marks[l->todo[i].node] = NODE_NEW;
    }
    return l->status;
}

/* A closure has all ways of the nodes in it: those need none of their own. */
static mica_status try_all(way_counter *w, mica_error *err) {
    lazy l;
    uint32_t n_tried = 0;
    mica_status st = mica_lazy_init(&l, w->p, err);
    if (st) return st;
    st = try_node(&l, w->p->start, w->marks, &n_tried);
    for (uint32_t i = w->p->n_nodes; i-- > 0 && !st && n_tried < MAX_TRIED;) {
        if (w->n_ways[i] > LAZY_MAX_WAYS && w->marks[i] == NODE_DONE)
            st = try_node(&l, i, w->marks, &n_tried);
    }
    if (st) st = mica_lazy_check(&l, err);
    mica_lazy_deinit(&l);
    return st;
}

mica_status mica_program_check_ways(const program *p, mica_error *err) {
    way_counter w = {.p = p};
    w.n_ways = mica_calloc(p->n_nodes, sizeof(*w.n_ways));
    w.marks = mica_calloc(p->n_nodes, 1);
    w.is_nullable = mica_calloc(p->n_nodes, 1);
    w.is_out_of_memory = !w.n_ways || !w.marks || !w.is_nullable;
    for (uint32_t i = 0; i < p->n_nodes && !w.is_out_of_memory; i++) {
        if (w.marks[i] == NODE_NEW) count(&w, i);
    }
    mica_status st = MICA_OK;
    if (w.is_out_of_memory)
        st = mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
    else if (w.n_most > LAZY_MAX_WAYS)
        st = try_all(&w, err);
    mica_free(w.n_ways);
    mica_free(w.marks);
    mica_free(w.is_nullable);
    mica_free(w.todo);
    return st;
}
