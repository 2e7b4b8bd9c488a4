/* memory.c: lays the tensors out in one arena by liveness, at the largest row counts.
 *
 * A tensor lives from the step that computes it to the last step that reads it or a view of it;
 * outputs live to the end. Tensors are placed from the largest to the smallest, each into the
 * smallest gap that fits between those that live at the same time. A step's sources and its result
 * are alive together, so no kernel ever writes what it reads.
 */
#include "plan/work.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"

enum { ALIGNMENT = 64 };

typedef struct buffer {
    graph_id id;
    int32_t first, last; /* steps, both included */
    uint64_t bytes;
    uint64_t offset;
} buffer;

static bool type_bytes(const graph_type *t, const int64_t *bound, uint64_t *out) {
    uint64_t n = mica_dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++) {
        graph_dim d = t->dim[i];
        uint64_t size;
        if (!mica_mul_u64((uint64_t)d.n, (uint64_t)bound[d.sym], &size)) return false;
        if (!mica_add_u64(size, (uint64_t)d.add, &size)) return false;
        if (!mica_mul_u64(n, size, &n)) return false;
    }
    if (n > UINT64_MAX / 4) return false;
    n = n ? n : 1;
    *out = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return true;
}

static void extend(const plan_work *w, buffer *buffers, const plan_operand *o, int32_t step) {
    if (o->space != PLAN_ARENA) return;
    buffer *b = &buffers[w->step_of[mica_plan_base(w, o->id)]];
    if (b->last < step) b->last = step;
}

/* One buffer a step, in step order; bytes 0 where the step has no result. */
static mica_status find_lives(const plan_work *w, buffer *buffers, mica_error *err) {
    const plan *p = w->p;
    int32_t end = p->n_steps;
    for (int32_t s = 0; s < p->n_steps; s++) {
        const plan_operand *out = &p->steps[s].out;
        buffers[s] = (buffer){.id = out->id, .first = s, .last = s};
        if (w->options->no_reuse) buffers[s].last = end;
        if (out->space != PLAN_ARENA) continue;
        if (!type_bytes(&out->type, p->bound, &buffers[s].bytes)) {
            char text[96];
            mica_graph_type_text(&out->type, p->bound, text, sizeof(text));
            return mica_fail(err, MICA_E_LIMIT, "plan: %s (%s) is too large: %s",
                             mica_graph_op_name(p->steps[s].op),
                             p->steps[s].name ? p->steps[s].name : "no name", text);
        }
    }
    for (int32_t s = 0; s < p->n_steps; s++) {
        for (int i = 0; i < p->steps[s].n_src; i++)
            extend(w, buffers, &p->steps[s].src[i], s);
    }
    for (int i = 0; i < p->n_outputs; i++)
        extend(w, buffers, &p->outputs[i], end);
    return MICA_OK;
}

/* Largest first; then in program order, so that the layout is the same everywhere. */
static int by_size(const void *a, const void *b) {
    const buffer *x = *(buffer *const *)a, *y = *(buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* `placed` is sorted by offset. */
static uint64_t best_fit(const buffer *b, buffer *const *placed, int32_t n_placed) {
    uint64_t top = 0, best = 0, best_gap = UINT64_MAX;
    for (int32_t i = 0; i < n_placed; i++) {
        const buffer *o = placed[i];
        if (o->last < b->first || b->last < o->first) continue;
        if (o->offset > top) {
            uint64_t gap = o->offset - top;
            if (gap >= b->bytes && gap < best_gap) {
                best = top;
                best_gap = gap;
            }
        }
        uint64_t end = o->offset + o->bytes;
        if (end > top) top = end;
    }
    return best_gap == UINT64_MAX ? top : best;
}

static void insert(buffer **placed, int32_t n_placed, buffer *b) {
    int32_t i = n_placed;
    for (; i > 0 && placed[i - 1]->offset > b->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = b;
}

static mica_status place(plan_work *w, buffer *buffers, buffer **order, buffer **placed,
                         mica_error *err) {
    int32_t n = 0;
    uint64_t sum = 0;
    for (int32_t s = 0; s < w->p->n_steps; s++) {
        if (buffers[s].bytes == 0) continue;
        if (!mica_add_u64(sum, buffers[s].bytes, &sum)) {
            return mica_fail(err, MICA_E_LIMIT, "plan: the tensors have more than 2^64 bytes");
        }
        order[n++] = &buffers[s];
    }
    qsort(order, (size_t)n, sizeof(*order), by_size);
    uint64_t top = 0;
    for (int32_t i = 0; i < n; i++) {
        order[i]->offset = best_fit(order[i], placed, i);
        insert(placed, i, order[i]);
        uint64_t end = order[i]->offset + order[i]->bytes;
        if (end > top) top = end;
    }
    w->p->arena_bytes = top;
    mica_plan_note(w, "memory: %" PRIu64 " bytes for %" PRIu64 " bytes of tensors%s", top, sum,
                   w->options->no_reuse ? " (no reuse)" : "");
    return MICA_OK;
}

static void set_offset(const plan_work *w, const buffer *buffers, plan_operand *o) {
    if (o->space != PLAN_ARENA) return;
    o->offset += buffers[w->step_of[mica_plan_base(w, o->id)]].offset;
}

mica_status mica_plan_memory(plan_work *w, mica_error *err) {
    plan *p = w->p;
    size_t n = (size_t)p->n_steps + 1;
    buffer *buffers = mica_calloc(n, sizeof(*buffers));
    buffer **lists = mica_calloc(2 * n, sizeof(*lists));
    mica_status st = MICA_OK;
    if (!buffers || !lists) {
        st = mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
        goto out;
    }
    if ((st = find_lives(w, buffers, err))) goto out;
    if ((st = place(w, buffers, lists, lists + n, err))) goto out;
    for (int32_t s = 0; s < p->n_steps; s++) {
        set_offset(w, buffers, &p->steps[s].out);
        for (int i = 0; i < p->steps[s].n_src; i++)
            set_offset(w, buffers, &p->steps[s].src[i]);
    }
    for (int i = 0; i < p->n_outputs; i++)
        set_offset(w, buffers, &p->outputs[i]);
out:
    mica_free(buffers);
    mica_free(lists);
    return st;
}
