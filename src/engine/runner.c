/* runner.c: one compiled plan with its executor and the input arrays of a step.
 *
 * Arrays are as large as the plan's bounds allow and are bound to the graph's input slots once;
 * a step only changes what they hold.
 */
#include "engine/runtime.h"

/* An array of n elements of `bytes` each, bound to input `slot`; nothing when the model has no such
 * input. */
static mica_status bind_array(runner *r, engine *e, int32_t slot, int64_t n, size_t bytes,
                              void *out, mica_error *err) {
    void *array = NULL;
    if (slot >= 0) {
        array = mica_arena_calloc(&e->memory, (size_t)n, bytes);
        if (!array)
            return mica_fail(err, MICA_E_NOMEM, "out of memory for the input arrays of a step");
        r->arrays[slot] = array;
    }
    *(void **)out = array;
    return MICA_OK;
}

static mica_status bind_rows(runner *r, engine *e, mica_error *err) {
    const model_graph *mg = r->graph;
    const int64_t *bound = r->plan->bound;
    const struct {
        int32_t slot;
        int64_t n;
        int32_t **out;
    } rows[] = {
        {mg->tokens, bound[GRAPH_ROWS], &r->tokens},
        {mg->positions, bound[GRAPH_ROWS], &r->positions},
        {mg->row_seq, bound[GRAPH_ROWS], &r->row_seq},
        {mg->span_lo, bound[GRAPH_ROWS], &r->span_lo},
        {mg->span_hi, bound[GRAPH_ROWS], &r->span_hi},
        {mg->logits_rows, bound[GRAPH_LOGITS], &r->logits_rows},
    };
    mica_status st = MICA_OK;
    for (size_t i = 0; !st && i < sizeof(rows) / sizeof(*rows); i++)
        st = bind_array(r, e, rows[i].slot, rows[i].n, sizeof(int32_t), rows[i].out, err);
    return st;
}

static mica_status bind_groups(runner *r, engine *e, mica_error *err) {
    const model_graph *mg = r->graph;
    const int64_t *bound = r->plan->bound;
    mica_status st = MICA_OK;
    for (int g = 0; !st && g < mg->n_groups; g++) {
        st = bind_array(r, e, mg->block_table[g], bound[GRAPH_SEQS] * e->table_length,
                        sizeof(int32_t), &r->tables[g], err);
        if (!st)
            st = bind_array(r, e, mg->slots[g], bound[GRAPH_ROWS], sizeof(int32_t), &r->slots[g],
                            err);
    }
    for (int i = 0; !st && i < 2; i++) {
        int32_t slot = mg->rope_periods[i];
        if (slot >= 0) r->n_periods[i] = r->plan->inputs[slot].type.dim[1].n;
        st = bind_array(r, e, slot, bound[GRAPH_ROWS] * r->n_periods[i], sizeof(float),
                        &r->periods[i], err);
    }
    return st;
}

static mica_status bind_states(runner *r, engine *e, mica_error *err) {
    const model_graph *mg = r->graph;
    int64_t n = r->plan->bound[GRAPH_SEQS];
    mica_status st = bind_array(r, e, mg->states_in, n, sizeof(uint64_t), &r->states_in, err);
    if (!st) st = bind_array(r, e, mg->states_out, n, sizeof(uint64_t), &r->states_out, err);
    if (!st) st = bind_array(r, e, mg->seq_rows, n + 1, sizeof(int32_t), &r->seq_rows, err);
    return st;
}

/* What a canvas is conditioned on, in the activations' type. */
static mica_status bind_signal(runner *r, engine *e, mica_error *err) {
    int32_t slot = r->graph->signal;
    if (slot < 0) return MICA_OK;
    const graph_type *type = &r->plan->inputs[slot].type;
    return bind_array(r, e, slot, r->plan->bound[GRAPH_ROWS] * type->dim[1].n,
                      mica_dtype_bytes(type->dtype), &r->signal, err);
}

mica_status mica_runner_init(runner *r, engine *e, const model_graph *mg,
                             const plan_options *options, mica_error *err) {
    r->graph = mg;
    mica_status st = mica_plan_compile(&r->plan, &mg->g, mica_cpu_target(e->backend), options, err);
    if (st) return st;
    if ((st = mica_cpu_exec_new(&r->exec, e->backend, r->plan, err))) return st;
    r->arrays = mica_arena_calloc(&e->memory, (size_t)r->plan->n_inputs, sizeof(*r->arrays));
    if (!r->arrays)
        return mica_fail(err, MICA_E_NOMEM, "out of memory for the input arrays of a step");
    if ((st = bind_rows(r, e, err))) return st;
    if ((st = bind_groups(r, e, err))) return st;
    if ((st = bind_states(r, e, err))) return st;
    if ((st = bind_signal(r, e, err))) return st;
    if (!r->plan->n_outputs) return MICA_OK;
    const graph_type *output = &r->plan->outputs[0].type;
    r->n_columns = output->dim[1].n;
    if (output->dtype == MICA_F32) return MICA_OK;
    r->row = mica_arena_calloc(&e->memory, (size_t)r->n_columns, sizeof(float));
    return r->row ? MICA_OK : mica_fail(err, MICA_E_NOMEM, "out of memory for a row of logits");
}

void mica_runner_deinit(runner *r) {
    mica_cpu_exec_free(r->exec);
    mica_plan_free(r->plan);
}

const float *mica_runner_row(const runner *r, int64_t i, float *buffer) {
    const char *logits = mica_cpu_exec_output(r->exec, 0);
    mica_dtype dtype = r->plan->outputs[0].type.dtype;
    size_t n = (size_t)r->n_columns, first = (size_t)i * n;
    if (dtype == MICA_F32) return (const float *)(const void *)logits + first;
    for (size_t k = 0; k < n; k++)
        buffer[k] = mica_load_f(logits, dtype, first + k);
    return buffer;
}
