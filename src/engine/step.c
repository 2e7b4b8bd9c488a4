/* step.c: one step over rows as a transaction.
 *
 * Check everything, reserve room in every sequence, write the input arrays, run the plan, hand out
 * the logits, commit. Whatever fails before the commit, every sequence is as before; the commit
 * itself cannot fail. Nothing here allocates.
 */
#include "engine/runtime.h"

#include <string.h>

static int64_t n_logits_of(const step_part *part) {
    if (part->logits == STEP_ALL_LOGITS) return part->n;
    return part->logits == STEP_LAST_LOGITS ? 1 : 0;
}

mica_status mica_step_check_ids(const engine *e, const int32_t *ids, int64_t n, mica_error *err) {
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->vocab_size)
            return mica_fail(err, MICA_E_INVALID,
                             "token %lld is %d; the model's ids go from 0 to %lld", (long long)i,
                             ids[i], (long long)e->vocab_size - 1);
    return MICA_OK;
}

static mica_status check_parts(const engine *e, const plan *p, const step_part *parts, int n_parts,
                               int64_t sym[GRAPH_N_SYMS], mica_error *err) {
    sym[GRAPH_FIXED] = 1;
    sym[GRAPH_ROWS] = sym[GRAPH_LOGITS] = 0;
    sym[GRAPH_SEQS] = n_parts;
    for (int i = 0; i < n_parts; i++) {
        int64_t length = mica_kv_length(parts[i].session->seq);
        if (parts[i].n <= 0)
            return mica_fail(err, MICA_E_INVALID, "a step needs at least one token");
        if (parts[i].n > e->max_context - length)
            return mica_fail(err, MICA_E_LIMIT,
                             "%lld tokens and %lld more do not fit the context of %lld",
                             (long long)length, (long long)parts[i].n, (long long)e->max_context);
        mica_status st = mica_step_check_ids(e, parts[i].ids, parts[i].n, err);
        if (st) return st;
        sym[GRAPH_ROWS] += parts[i].n;
        sym[GRAPH_LOGITS] += n_logits_of(&parts[i]);
    }
    for (int k = 0; k < GRAPH_N_SYMS; k++)
        if (sym[k] > p->bound[k])
            return mica_fail(err, MICA_E_LIMIT,
                             "a step of %lld rows, %lld logits rows and %lld sequences; the plan "
                             "takes at most %lld, %lld and %lld",
                             (long long)sym[GRAPH_ROWS], (long long)sym[GRAPH_LOGITS],
                             (long long)sym[GRAPH_SEQS], (long long)p->bound[GRAPH_ROWS],
                             (long long)p->bound[GRAPH_LOGITS], (long long)p->bound[GRAPH_SEQS]);
    return MICA_OK;
}

static void abort_parts(const step_part *parts, int n_parts) {
    for (int i = 0; i < n_parts; i++)
        mica_kv_abort(parts[i].session->seq);
}

static mica_status reserve_parts(const step_part *parts, int n_parts, mica_error *err) {
    for (int i = 0; i < n_parts; i++) {
        mica_status st = mica_kv_reserve(parts[i].session->seq, parts[i].n, err);
        if (st) {
            abort_parts(parts, i);
            return st;
        }
    }
    return MICA_OK;
}

/* Row `row` of the step is id i of `part`, the part'th sequence. */
static void write_row(engine *e, runner *r, const step_part *part, int seq, int64_t i,
                      int64_t row) {
    session *s = part->session;
    int64_t pos = mica_kv_length(s->seq) + i;
    r->tokens[row] = s->tokens[pos] = part->ids[i];
    r->positions[row] = r->span_lo[row] = (int32_t)pos;
    r->span_hi[row] = (int32_t)(part->is_open ? pos - i + part->n : pos + 1);
    r->row_seq[row] = seq;
    for (int g = 0; g < r->graph->n_groups; g++)
        r->slots[g][row] = mica_kv_slot(s->seq, g, pos);
    for (int k = 0; k < 2; k++)
        if (r->periods[k])
            mica_model_rope_periods(e->model, k, s->n_prompt, pos,
                                    r->periods[k] + row * r->n_periods[k]);
}

static void write_inputs(engine *e, runner *r, row_role role, const step_part *parts, int n_parts) {
    size_t table_bytes = (size_t)e->table_length * sizeof(int32_t);
    int64_t row = 0, n_logits = 0;
    for (int p = 0; p < n_parts; p++) {
        session *s = parts[p].session;
        if (r->states_in) {
            r->states_in[p] = (uint64_t)(uintptr_t)mica_kv_state_in(s->seq);
            r->states_out[p] = (uint64_t)(uintptr_t)mica_kv_state_out(s->seq);
            r->seq_rows[p] = (int32_t)row;
            r->seq_rows[p + 1] = (int32_t)(row + parts[p].n);
        }
        for (int64_t i = 0; i < parts[p].n; i++)
            write_row(e, r, &parts[p], p, i, row++);
        memset(s->roles + mica_kv_length(s->seq), (int)role, (size_t)parts[p].n);
        for (int64_t i = n_logits_of(&parts[p]); i > 0; i--)
            r->logits_rows[n_logits++] = (int32_t)(row - i);
        for (int g = 0; g < r->graph->n_groups; g++)
            memcpy(r->tables[g] + p * e->table_length, mica_kv_table(s->seq, g), table_bytes);
    }
}

static mica_status deliver_output(const runner *r, const step_part *parts, int n_parts,
                                  step_fn on_row, void *user, mica_error *err) {
    int64_t next = 0;
    for (int p = 0; p < n_parts; p++)
        for (int64_t i = parts[p].n - n_logits_of(&parts[p]); i < parts[p].n; i++) {
            mica_status st = on_row(user, p, i, mica_runner_row(r, next++, r->row), err);
            if (st) return st;
        }
    return MICA_OK;
}

static mica_status run(engine *e, runner *r, row_role role, const step_part *parts, int n_parts,
                       step_fn on_row, void *user, mica_error *err) {
    plan_inputs inputs = {.arrays = r->arrays, .caches = e->caches};
    mica_status st = check_parts(e, r->plan, parts, n_parts, inputs.sym, err);
    if (st) return st;
    if ((st = reserve_parts(parts, n_parts, err))) return st;
    write_inputs(e, r, role, parts, n_parts);
    st = mica_cpu_exec_run(r->exec, &inputs, err);
    if (!st && on_row) st = deliver_output(r, parts, n_parts, on_row, user, err);
    if (st) {
        abort_parts(parts, n_parts);
        return st;
    }
    for (int i = 0; i < n_parts; i++)
        mica_kv_commit(parts[i].session->seq, parts[i].n);
    return MICA_OK;
}

mica_status mica_step_run(engine *e, row_role role, const step_part *parts, int n_parts,
                          step_fn on_logits, void *user, mica_error *err) {
    if (!e->n_runners)
        return mica_fail(err, MICA_E_STATE, "the model was opened for embeddings alone");
    return run(e, mica_engine_runner(e, role), role, parts, n_parts, on_logits, user, err);
}

mica_status mica_step_embed(engine *e, const step_part *parts, int n_parts, step_fn on_hidden,
                            void *user, mica_error *err) {
    return run(e, &e->embedder, ROLE_PROMPT, parts, n_parts, on_hidden, user, err);
}
