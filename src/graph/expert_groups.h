/* expert_groups.h: rows grouped by expert, as OP_EXPERT_GROUPS writes them for the products that
 * read them.
 *
 * An i32 tensor of E experts and n pairs (pair r*k + j: the j-th expert of row r):
 *   offsets [E+1]   the pairs of expert e are those at [offsets[e], offsets[e+1])
 *   count   [1]     experts that have pairs
 *   active  [E]     these experts, ascending; what follows them is -1
 *   pairs   [n]     grouped by expert, ascending within one
 *   rows    [n]     the row of each of these pairs
 */
#ifndef MICA_GRAPH_EXPERT_GROUPS_H
#define MICA_GRAPH_EXPERT_GROUPS_H

#include <stdint.h>

typedef struct expert_groups {
    int32_t *offsets, *count, *active, *pairs, *rows;
} expert_groups;

static inline int64_t expert_groups_size(int64_t n_experts, int64_t n_pairs) {
    return 2 * n_experts + 2 + 2 * n_pairs;
}

static inline expert_groups expert_groups_at(int32_t *data, int64_t n_experts, int64_t n_pairs) {
    expert_groups g;
    g.offsets = data;
    g.count = g.offsets + n_experts + 1;
    g.active = g.count + 1;
    g.pairs = g.active + n_experts;
    g.rows = g.pairs + n_pairs;
    return g;
}

#endif
