/* exec.c: replays a plan with a fixed set of threads.
 *
 * All calls are resolved once. A run patches what may have changed (sizes that hang on a row count,
 * addresses of inputs and caches) and cuts the tape into phases: steps that do not touch each
 * other's memory, then small steps, then a barrier. Every thread walks the phases: it takes small
 * ranges of a step's work units from a counter until none is left and goes on to the next step; who
 * comes last to the barrier does the small steps alone. So a thread that lost its core delays
 * nobody, and since units are independent the result does not depend on who did what. A run
 * allocates nothing and takes no lock.
 */
#include <inttypes.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/backend.h"
#include "backend/cpu/call.h"
#include "backend/cpu/phases.h"
#include "base/checked.h"

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20, RANGES_PER_THREAD = 8 };

typedef struct exec_step {
    alignas(CACHE_LINE) _Atomic int64_t next; /* first unit that nobody has taken */
    int64_t n_units;
    int64_t n_range; /* units taken at once */
    const cpu_kernel *kernel;
    kernel_call *call;
} exec_step;

/* Steps [begin, middle) are shared by all threads, those of [middle, end) follow in their order on
 * the one that comes last. */
typedef struct exec_phase {
    int32_t begin, middle, end;
} exec_phase;

/* A size that hangs on a symbol. */
typedef struct size_patch {
    int64_t *to;
    graph_dim dim;
} size_patch;

/* An address that a run binds. */
typedef struct address_patch {
    void **to;
    bool is_cache;
    int32_t slot;
    uint64_t offset;
} address_patch;

struct cpu_exec {
    cpu_backend *backend;
    const plan *plan;
    char *arena;
    char *scratch;                        /* one piece a thread */
    size_t scratch_stride, scratch_bytes; /* of a thread, of all */
    bool has_huge_pages;
    kernel_call *calls;
    exec_step *steps;
    int32_t *last_conflict; /* of each step */
    exec_phase *phases;
    int32_t n_phases;
    size_patch *sizes;
    int32_t n_sizes;
    address_patch *addresses;
    int32_t n_addresses;
    void *outputs[8];
};

/* Memory for a run's tensors or scratch, which may become huge pages where it is large. */
static void *run_memory(size_t n_bytes) {
    return mica_aligned_alloc(n_bytes < 2 * HUGE_PAGE ? CACHE_LINE : HUGE_PAGE, n_bytes);
}

static void ask_for_huge_pages(void *p, size_t n_bytes) {
    if (n_bytes >= 2 * HUGE_PAGE) (void)madvise(p, n_bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
}

/* ---- building ---- */

static void add_patches(cpu_exec *e, kernel_operand *to, const plan_operand *from) {
    for (int i = 0; i < from->type.n_dims; i++) {
        if (from->type.dim[i].sym == GRAPH_FIXED) continue;
        e->sizes[e->n_sizes++] = (size_patch){&to->dim[i], from->type.dim[i]};
    }
    if (from->space != PLAN_INPUT && from->space != PLAN_CACHE) return;
    e->addresses[e->n_addresses++] =
        (address_patch){&to->data, from->space == PLAN_CACHE, from->slot, from->offset};
}

static void resolve_steps(cpu_exec *e) {
    const plan *p = e->plan;
    for (int32_t s = 0; s < p->n_steps; s++) {
        kernel_call *call = &e->calls[s];
        mica_cpu_call_init(call, &p->steps[s], p->bound, mica_pool_threads(e->backend->pool),
                           e->arena);
        add_patches(e, &call->out, &p->steps[s].out);
        for (int i = 0; i < call->n_src; i++)
            add_patches(e, &call->src[i], &p->steps[s].src[i]);
        e->steps[s].kernel = p->steps[s].kernel;
        e->steps[s].call = call;
    }
}

static void resolve_outputs(cpu_exec *e) {
    for (int i = 0; i < e->plan->n_outputs; i++) {
        const plan_operand *o = &e->plan->outputs[i];
        if (o->space == PLAN_ARENA) e->outputs[i] = e->arena + o->offset;
        if (o->space == PLAN_CONST) e->outputs[i] = (void *)(uintptr_t)o->data;
        if (o->space != PLAN_INPUT) continue;
        e->addresses[e->n_addresses++] = (address_patch){&e->outputs[i], false, o->slot, o->offset};
    }
}

static mica_status allocate(cpu_exec *e, mica_error *err) {
    const plan *p = e->plan;
    size_t n = (size_t)p->n_steps + 1, n_operands = n * (GRAPH_MAX_SRC + 1);
    size_t n_threads = (size_t)mica_pool_threads(e->backend->pool);
    e->calls = mica_calloc(n, sizeof(*e->calls));
    e->steps = mica_aligned_alloc(CACHE_LINE, n * sizeof(*e->steps));
    e->sizes = mica_calloc(n_operands, sizeof(*e->sizes)); /* one symbolic dimension each */
    e->addresses = mica_calloc(n_operands, sizeof(*e->addresses));
    e->last_conflict = mica_calloc(n, sizeof(*e->last_conflict));
    e->phases = mica_calloc(n, sizeof(*e->phases));
    e->scratch_stride = mica_align_up(p->scratch_bytes, CACHE_LINE);
    bool ok = e->calls && e->steps && e->sizes && e->addresses && e->last_conflict && e->phases &&
              p->arena_bytes < SIZE_MAX / 2 &&
              mica_mul_size(e->scratch_stride, n_threads, &e->scratch_bytes);
    if (ok && p->arena_bytes) e->arena = run_memory((size_t)p->arena_bytes);
    if (ok && e->scratch_bytes) e->scratch = run_memory(e->scratch_bytes);
    if (!ok || (p->arena_bytes && !e->arena) || (e->scratch_bytes && !e->scratch)) {
        return mica_fail(err, MICA_E_NOMEM,
                         "cpu: out of memory for an arena of %" PRIu64 " bytes and %zu threads "
                         "with %zu bytes of scratch each",
                         p->arena_bytes, n_threads, e->scratch_stride);
    }
    memset(e->steps, 0, n * sizeof(*e->steps));
    return MICA_OK;
}

mica_status mica_cpu_exec_new(cpu_exec **out, cpu_backend *backend, const plan *p,
                              mica_error *err) {
    cpu_exec *e = mica_calloc(1, sizeof(*e));
    if (!e) return mica_fail(err, MICA_E_NOMEM, "cpu: out of memory");
    e->backend = backend;
    e->plan = p;
    mica_status st = allocate(e, err);
    if (st) {
        mica_cpu_exec_free(e);
        return st;
    }
    resolve_steps(e);
    resolve_outputs(e);
    mica_cpu_find_conflicts(p, e->last_conflict);
    *out = e;
    return MICA_OK;
}

void mica_cpu_exec_free(cpu_exec *exec) {
    if (!exec) return;
    mica_free(exec->arena);
    mica_free(exec->scratch);
    mica_free(exec->calls);
    mica_free(exec->steps);
    mica_free(exec->last_conflict);
    mica_free(exec->phases);
    mica_free(exec->sizes);
    mica_free(exec->addresses);
    mica_free(exec);
}

/* ---- running ---- */

static mica_status check_symbols(const plan *p, const int64_t *sym, mica_error *err) {
    static const char *const names[GRAPH_N_SYMS] = {"fixed", "rows", "logits rows", "sequences"};
    for (int i = 0; i < GRAPH_N_SYMS; i++) {
        if (sym[i] >= 0 && sym[i] <= p->bound[i] && (i != GRAPH_FIXED || sym[i] == 1)) continue;
        return mica_fail(err, MICA_E_INVALID,
                         "cpu: %" PRId64 " %s in a step whose plan holds at most %" PRId64, sym[i],
                         names[i], p->bound[i]);
    }
    return MICA_OK;
}

static void patch(cpu_exec *e, const plan_inputs *in) {
    for (int32_t i = 0; i < e->n_sizes; i++) {
        *e->sizes[i].to = mica_graph_dim_size(e->sizes[i].dim, in->sym);
    }
    for (int32_t i = 0; i < e->n_addresses; i++) {
        const address_patch *a = &e->addresses[i];
        char *base = a->is_cache ? in->caches[a->slot] : in->arrays[a->slot];
        *a->to = base ? base + a->offset : NULL;
    }
}

/* A step without rows (no logits wanted) does no work, whatever its kernel's units are. */
static bool is_empty(const kernel_call *call) {
    for (int i = 0; i < call->out.n_dims; i++) {
        if (call->out.dim[i] == 0) return true;
    }
    return false;
}

static void divide(cpu_exec *e) {
    int64_t n_ranges = RANGES_PER_THREAD * (int64_t)mica_pool_threads(e->backend->pool);
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        exec_step *step = &e->steps[s];
        step->n_units = is_empty(step->call) ? 0 : step->kernel->n_units(step->call);
        step->n_range = step->n_units / n_ranges > 1 ? step->n_units / n_ranges : 1;
        atomic_store_explicit(&step->next, 0, memory_order_relaxed);
    }
}

/* A phase ends before a shared step that follows a small one, or that must wait for one of its
 * own. Steps without units take part in nothing. */
static void find_phases(cpu_exec *e) {
    exec_phase *phase = e->phases;
    bool is_open = false;
    e->n_phases = 0;
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        if (e->steps[s].n_units == 0) continue;
        bool small = mica_cpu_is_small(e->steps[s].kernel, e->steps[s].call);
        bool waits = !small && is_open &&
                     (phase->end > phase->middle || e->last_conflict[s] >= phase->begin);
        if (!is_open || waits) {
            phase = &e->phases[e->n_phases++];
            *phase = (exec_phase){s, s, s};
            is_open = true;
        }
        phase->end = s + 1;
        if (!small) phase->middle = s + 1;
    }
}

static void *scratch_of(const cpu_exec *e, const exec_step *step, int thread) {
    return step->kernel->scratch_bytes ? e->scratch + (size_t)thread * e->scratch_stride : NULL;
}

static void share_step(const cpu_exec *e, exec_step *step, int thread) {
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&step->next, step->n_range, memory_order_relaxed);
        if (begin >= step->n_units) return;
        int64_t end = begin + step->n_range;
        step->kernel->run(step->call, begin, end < step->n_units ? end : step->n_units,
                          scratch_of(e, step, thread));
    }
}

/* The small steps of a phase. */
typedef struct alone {
    const cpu_exec *e;
    const exec_phase *phase;
} alone;

static void run_alone(void *arg, int thread, int n_threads) {
    const alone *a = arg;
    (void)n_threads;
    for (int32_t s = a->phase->middle; s < a->phase->end; s++) {
        const exec_step *step = &a->e->steps[s];
        if (step->n_units)
            step->kernel->run(step->call, 0, step->n_units, scratch_of(a->e, step, thread));
    }
}

static void run_thread(void *arg, int thread, int n_threads) {
    cpu_exec *e = arg;
    (void)n_threads;
    for (int32_t i = 0; i < e->n_phases; i++) {
        const exec_phase *phase = &e->phases[i];
        for (int32_t s = phase->begin; s < phase->middle; s++)
            if (e->steps[s].n_units) share_step(e, &e->steps[s], thread);
        mica_pool_meet(e->backend->pool, thread, run_alone, &(alone){e, phase});
    }
}

/* Advice, without which all works: rows of long prompts go by so fast that finding their small
 * pages takes a tenth of the time. A short run touches the beginnings of its tensors only and would
 * hold all of them. */
static void advise(cpu_exec *e, const int64_t *sym) {
    if (e->has_huge_pages || 2 * sym[GRAPH_ROWS] < e->plan->bound[GRAPH_ROWS]) return;
    ask_for_huge_pages(e->arena, (size_t)e->plan->arena_bytes);
    ask_for_huge_pages(e->scratch, e->scratch_bytes);
    e->has_huge_pages = true;
}

mica_status mica_cpu_exec_run(cpu_exec *exec, const plan_inputs *inputs, mica_error *err) {
    mica_status st = check_symbols(exec->plan, inputs->sym, err);
    if (st) return st;
    advise(exec, inputs->sym);
    patch(exec, inputs);
    divide(exec);
    find_phases(exec);
    mica_pool_run(exec->backend->pool, run_thread, exec);
    return MICA_OK;
}

const void *mica_cpu_exec_output(const cpu_exec *exec, int i) { return exec->outputs[i]; }
