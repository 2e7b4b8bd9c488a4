/* hollow.c: states without what is below them, with bounds that are far away left out, and the same
 * states in another machine.
 */
#include "text/grammar/lazy_impl.h"

enum { MAX_CUT_DEPTH = 64 };

/* ---- hollow states ---- */

/* Whether what is below this frame may be cut off: not inside the text of a counted repeat, where
 * the frame is popped after every round. */
static bool can_cut(const lazy *l, uint32_t stack) {
    const program_node *n = &l->program->nodes[l->frames[stack].node];
    return n->kind != NODE_REPEAT || !n->is_text;
}

/* The deepest stack that all configurations share. False: it is too far below. */
static bool common_stack(const lazy *l, const lazy_state *s, uint32_t *out) {
    uint32_t common = s->configs[0].stack, depth = l->frames[common].depth;
    for (uint32_t i = 1; i < s->n; i++) {
        uint32_t other = s->configs[i].stack;
        if (l->frames[other].depth > depth) depth = l->frames[other].depth;
        while (other != common) {
            uint32_t *deeper = l->frames[other].depth > l->frames[common].depth ? &other : &common;
            *deeper = l->frames[*deeper].parent;
        }
    }
    while (common > STACK_HOLE && !can_cut(l, common)) {
        common = l->frames[common].parent;
    }
    *out = common;
    return depth <= l->frames[common].depth + MAX_CUT_DEPTH;
}

/* The count of a repeat, or a coarse one if its bounds are far. */
static uint64_t coarse_count(lazy *l, const program_node *n, uint64_t count) {
    if (count >= REPEAT_COARSE) return count;
    uint64_t to_min = count < n->min ? n->min - count : 0;
    uint64_t to_max = n->max == EXPR_UNBOUNDED ? UINT64_MAX : n->max - count;
    bool is_few = to_min > LAZY_NEAR_BYTES;
    if (!is_few && (to_max <= l->near_limit || to_max == UINT64_MAX)) return count;
    uint64_t left = is_few ? to_min : to_max;
    if (!l->near || left < l->near) l->near = (uint32_t)left;
    l->has_few |= is_few;
    if (is_few) return REPEAT_FEW;
    return to_min ? REPEAT_FEW - to_min : REPEAT_MANY;
}

static uint32_t cut_stack(lazy *l, uint32_t stack, uint32_t common) {
    if (stack == common || stack == STACK_HOLE)
        return common == STACK_BOTTOM && stack != STACK_HOLE ? STACK_BOTTOM : STACK_HOLE;
    lazy_frame f = l->frames[stack];
    const program_node *n = &l->program->nodes[f.node];
    uint64_t count = n->kind == NODE_REPEAT ? coarse_count(l, n, f.count) : f.count;
    return mica_lazy_push_frame(l, f.node, count, cut_stack(l, f.parent, common));
}

static uint32_t cut_state(lazy *l, const lazy_state *s, uint32_t common) {
    mica_lazy_begin(l);
    for (uint32_t i = 0; i < s->n && !l->status; i++) {
        lazy_config c = s->configs[i];
        mica_lazy_visit(l, c.node, cut_stack(l, c.stack, common));
    }
    return mica_lazy_finish(l);
}

uint32_t mica_lazy_after(lazy *l, uint32_t stack) {
    mica_lazy_begin(l);
    mica_lazy_visit_return(l, stack);
    return mica_lazy_finish(l);
}

uint32_t mica_lazy_round(lazy *l, uint32_t node, uint64_t count, uint32_t parent) {
    mica_lazy_begin(l);
    mica_lazy_visit_repeat(l, node, count, parent);
    return mica_lazy_finish(l);
}

/* Whether the state is between two characters of a string. Gives how many may come, at most
 * UINT8_MAX, and whether it has its least length. */
static bool is_inside(lazy *l, uint32_t state, uint8_t *n_left, bool *is_enough) {
    const lazy_state s = *lazy_at(l, state);
    for (uint32_t i = 0; i < s.n; i++) {
        lazy_frame f = l->frames[s.configs[i].stack];
        const program_node *n = &l->program->nodes[f.node];
        if (s.configs[i].stack <= STACK_HOLE || !n->is_plain) continue;
        if (f.count >= REPEAT_COARSE) return false;
        *n_left = n->max - f.count < UINT8_MAX ? (uint8_t)(n->max - f.count) : UINT8_MAX;
        *is_enough = f.count >= n->min;
        return mica_lazy_round(l, f.node, f.count, f.parent) == state;
    }
    return false;
}

void mica_lazy_hollow(lazy *l, uint32_t state) {
    const lazy_state s = *lazy_at(l, state);
    uint32_t hollow = state, resume = STATE_DEAD;
    uint32_t common = STACK_BOTTOM;
    bool can_be_cut = s.n && common_stack(l, &s, &common);
    uint8_t n_left = 0;
    bool is_enough = false, is_string = can_be_cut && is_inside(l, state, &n_left, &is_enough);
    l->near_limit = is_string && is_enough ? LAZY_NEAR_CHARS : LAZY_NEAR_BYTES;
    l->near = 0;
    l->has_few = false;
    if (can_be_cut) hollow = cut_state(l, &s, common);
    if (can_be_cut && common > STACK_HOLE) resume = mica_lazy_after(l, common);
    if (l->status) return;
    lazy_state *to = lazy_at(l, state);
    to->hollow = hollow;
    to->resume = resume;
    to->near = l->near;
    to->has_few = l->has_few;
    to->max_chars = is_string && l->near ? n_left : 0;
}

void mica_lazy_widen(lazy *l, uint32_t state) {
    const lazy_state s = *lazy_at(l, state);
    bool is_counted = false;
    *lazy_flags(l, state) |= STATE_WIDENED;
    for (uint32_t i = 0; i < s.n; i++) {
        const lazy_frame *f = &l->frames[s.configs[i].stack];
        is_counted |= s.configs[i].stack > STACK_HOLE &&
                      l->program->nodes[f->node].kind == NODE_REPEAT && f->count < REPEAT_COARSE;
    }
    if (!is_counted) return;
    l->near_limit = LAZY_NEAR_BYTES;
    l->near = 0;
    uint32_t wide = cut_state(l, &s, STACK_BOTTOM);
    if (l->status || !l->near) return;
    lazy_at(l, state)->wide = wide;
    lazy_at(l, state)->wide_near = l->near;
}

uint32_t mica_lazy_above_hole(lazy *l, uint32_t node) {
    mica_lazy_begin(l);
    if (l->program->nodes[node].kind == NODE_REPEAT)
        mica_lazy_visit_repeat(l, node, REPEAT_MANY, STACK_HOLE);
    else
        mica_lazy_visit(l, node, STACK_HOLE);
    return mica_lazy_finish(l);
}

/* ---- moving states ---- */

static uint32_t import_stack(lazy *l, const lazy *from, uint32_t stack, uint32_t *memo) {
    /* Down to the first frame that is known, turning parents around: stacks can be deep. */
    uint32_t known = stack, n_new = 0;
    while (known > STACK_HOLE && !memo[known]) {
        known = from->frames[known].parent;
        n_new++;
    }
    uint32_t result = known > STACK_HOLE ? memo[known] : known;
    for (; n_new > 0 && !l->status; n_new--) {
        uint32_t at = stack;
        for (uint32_t i = 1; i < n_new; i++) {
            at = from->frames[at].parent;
        }
        result = mica_lazy_push_frame(l, from->frames[at].node, from->frames[at].count, result);
        memo[at] = result;
    }
    return result;
}

uint32_t mica_lazy_import(lazy *l, const lazy *from, uint32_t state, uint32_t *memo) {
    if (state <= STATE_DEAD) return state;
    const lazy_state *s = lazy_at(from, state);
    mica_lazy_begin(l);
    for (uint32_t i = 0; i < s->n && !l->status; i++) {
        lazy_config c = s->configs[i];
        mica_lazy_visit(l, c.node, import_stack(l, from, c.stack, memo));
    }
    l->found_flags = *lazy_flags(from, state) & STATE_FLAGS;
    return mica_lazy_finish(l);
}
