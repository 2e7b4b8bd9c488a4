/* phases.c: what separates the steps of a plan, so that few barriers suffice.
 *
 * Memory decides, not the graph: the arena is reused, so a step may also have to wait for one that
 * reads what it overwrites. Ranges are taken at the plan's bounds. An effect on a cache meets all
 * that touches the cache; other effects (recurrent states behind pointers) meet everything.
 */
#include "backend/cpu/phases.h"

/* Steps farther apart than this always have a barrier between them. */
enum { LOOK_BACK = 24 };

typedef struct byte_range {
    uint64_t begin, end;
} byte_range;

static byte_range range_of(const plan *p, const plan_operand *o) {
    uint64_t last = 0;
    if (o->space != PLAN_ARENA) return (byte_range){0, 0};
    for (int i = 0; i < o->type.n_dims; i++) {
        int64_t n = mica_graph_dim_size(o->type.dim[i], p->bound);
        if (n <= 0) return (byte_range){0, 0};
        last += (uint64_t)(n - 1) * (uint64_t)o->type.stride[i];
    }
    return (byte_range){o->offset, o->offset + (last + 1) * mica_dtype_bytes(o->type.dtype)};
}

static bool overlap(byte_range a, byte_range b) { return a.begin < b.end && b.begin < a.end; }

static bool writes_over(const plan *p, const plan_step *writer, const plan_step *other) {
    byte_range out = range_of(p, &writer->out);
    if (out.begin == out.end) return false;
    if (overlap(out, range_of(p, &other->out))) return true;
    for (int i = 0; i < other->n_src; i++)
        if (overlap(out, range_of(p, &other->src[i]))) return true;
    return false;
}

static bool touches_cache(const plan_step *s, int32_t slot) {
    for (int i = 0; i < s->n_src; i++)
        if (s->src[i].space == PLAN_CACHE && s->src[i].slot == slot) return true;
    return false;
}

static bool effect_meets(const plan_step *effect, const plan_step *other) {
    if (!mica_graph_op_has_effect(effect->op)) return false;
    if (effect->op != OP_KV_WRITE) return true;
    return touches_cache(other, effect->src[0].slot);
}

static bool conflict(const plan *p, const plan_step *a, const plan_step *b) {
    return writes_over(p, a, b) || writes_over(p, b, a) || effect_meets(a, b) || effect_meets(b, a);
}

void mica_cpu_find_conflicts(const plan *p, int32_t *last) {
    for (int32_t s = 0; s < p->n_steps; s++) {
        int32_t t = s - 1;
        while (t >= 0 && s - t <= LOOK_BACK && !conflict(p, &p->steps[t], &p->steps[s]))
            t--;
        last[s] = t;
    }
}

static int64_t n_elements(const kernel_operand *o) {
    int64_t n = o->n_dims ? 1 : 0;
    for (int i = 0; i < o->n_dims; i++)
        n *= o->dim[i];
    return n;
}

bool mica_cpu_is_small(const cpu_kernel *kernel, const kernel_call *call) {
    /* A barrier of two idle threads takes about half a microsecond and one of sixteen a few; a
     * vector kernel does 16384 elements in 2 or 3, the reference about 2000. */
    const int64_t most = kernel->isa == ISA_REF ? 2048 : 16384;
    int64_t n = n_elements(&call->out);
    switch (call->op) {
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
    case OP_ADD:
    case OP_MUL:
    case OP_SCALE:
    case OP_SILU:
    case OP_GELU:
    case OP_GELU_TANH:
    case OP_SIGMOID:
    case OP_SOFTPLUS:
    case OP_CAST:
    case OP_COPY:
    case OP_ROPE:
    case OP_ROPE_ANGLES:
    case OP_EMBED:
    case OP_GATHER_ROWS:
    case OP_QUANTIZE_ROWS:
    case OP_TILE_ROWS:
    case OP_PAD:
    case OP_EXPERT_GROUPS:
        return n <= most;
    case OP_RMS_NORM_I8:
    case OP_LAYER_NORM_I8:
        return n_elements(&call->src[0]) <= most;
    case OP_KV_WRITE:
        return n_elements(&call->src[1]) <= most;
    case OP_ATTENTION_JOIN: /* a context that fills its parts takes longer than this adds */
        return n_elements(&call->src[0]) <= 3 * most;
    case OP_TOP_K:
    case OP_TOP_K_WEIGHTS:
        return n_elements(&call->src[0]) <= most;
    default:
        return false;
    }
}
