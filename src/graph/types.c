/* types.c: dimensions, types, op names and the layout of a cache block.
 *
 * A type's strides are fixed numbers, because only dimension 0 may be symbolic; so a tensor keeps
 * its strides whatever the row count of a step is.
 */
#include "graph/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

graph_dim mica_dim(int64_t n) { return (graph_dim){n, GRAPH_FIXED, 0}; }

graph_dim mica_dim_sym(int64_t n, graph_sym sym) { return (graph_dim){n, sym, 0}; }

int64_t mica_graph_dim_size(graph_dim dim, const int64_t sym[GRAPH_N_SYMS]) {
    return dim.n * (dim.sym == GRAPH_FIXED ? 1 : sym[dim.sym]) + dim.add;
}

int64_t mica_graph_type_count(const graph_type *type, const int64_t sym[GRAPH_N_SYMS]) {
    if (type->n_dims == 0) return 0;
    int64_t count = 1;
    for (int i = 0; i < type->n_dims; i++)
        count *= mica_graph_dim_size(type->dim[i], sym);
    return count;
}

graph_type mica_graph_type(mica_dtype dtype, int n_dims, const graph_dim *dims) {
    graph_type t;
    memset(&t, 0, sizeof(t));
    t.dtype = dtype;
    t.n_dims = n_dims;
    int64_t stride = 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        t.dim[i] = dims[i];
        t.stride[i] = stride;
        if (i > 0) stride *= mica_graph_fixed(dims[i]);
    }
    return t;
}

bool mica_graph_is_contiguous(const graph_type *type) {
    int64_t stride = 1;
    for (int i = type->n_dims - 1; i >= 0; i--) {
        if (type->stride[i] != stride) return false;
        if (i > 0) stride *= mica_graph_fixed(type->dim[i]);
    }
    return true;
}

static int dim_text(graph_dim d, const int64_t *sym, char *out, size_t n) {
    static const char *const names[GRAPH_N_SYMS] = {"", "rows", "logits", "seqs"};
    if (sym || d.sym == GRAPH_FIXED) {
        int64_t size = sym ? mica_graph_dim_size(d, sym) : mica_graph_fixed(d);
        return snprintf(out, n, "%" PRId64, size);
    }
    char factor[24] = "", add[24] = "";
    if (d.n != 1) snprintf(factor, sizeof(factor), "%" PRId64 "*", d.n);
    if (d.add != 0) snprintf(add, sizeof(add), "%+" PRId64, d.add);
    return snprintf(out, n, "%s%s%s", factor, names[d.sym], add);
}

void mica_graph_type_text(const graph_type *type, const int64_t *sym, char *out, size_t n) {
    if (n == 0) return;
    out[0] = '\0';
    if (type->n_dims == 0) return;
    int w = snprintf(out, n, "%s [", mica_dtype_name(type->dtype));
    size_t used = w > 0 ? (size_t)w : 0;
    for (int i = 0; i < type->n_dims && used < n; i++) {
        char dim[80];
        dim_text(type->dim[i], sym, dim, sizeof(dim));
        w = snprintf(out + used, n - used, "%s%s", i ? ", " : "", dim);
        if (w > 0) used += (size_t)w;
    }
    if (used < n) snprintf(out + used, n - used, "]");
}

static const char *const op_names[GRAPH_N_OPS] = {
    [OP_INPUT] = "input",
    [OP_CONST] = "const",
    [OP_WEIGHT] = "weight",
    [OP_CACHE] = "cache",
    [OP_VIEW] = "view",
    [OP_EMBED] = "embed",
    [OP_GATHER_ROWS] = "gather_rows",
    [OP_MATMUL] = "matmul",
    [OP_ADD] = "add",
    [OP_MUL] = "mul",
    [OP_SCALE] = "scale",
    [OP_RMS_NORM] = "rms_norm",
    [OP_LAYER_NORM] = "layer_norm",
    [OP_ROPE_ANGLES] = "rope_angles",
    [OP_ROPE] = "rope",
    [OP_KV_WRITE] = "kv_write",
    [OP_ATTENTION] = "attention",
    [OP_SILU] = "silu",
    [OP_GELU] = "gelu",
    [OP_GELU_TANH] = "gelu_tanh",
    [OP_SIGMOID] = "sigmoid",
    [OP_SOFTPLUS] = "softplus",
    [OP_SOFTCAP] = "softcap",
    [OP_RELU2] = "relu2",
    [OP_XIELU] = "xielu",
    [OP_CLAMP] = "clamp",
    [OP_POSITION_SCALE] = "position_scale",
    [OP_GAUSS_TOP] = "gauss_top",
    [OP_MATCH_RMS] = "match_rms",
    [OP_CAST] = "cast",
    [OP_COPY] = "copy",
    [OP_GLU_MATMUL] = "glu_matmul",
    [OP_SOFTMAX] = "softmax",
    [OP_TOP_K] = "top_k",
    [OP_TOP_K_WEIGHTS] = "top_k_weights",
    [OP_EXPERT_GROUPS] = "expert_groups",
    [OP_EXPERT_MATMUL] = "expert_matmul",
    [OP_EXPERT_GLU_MATMUL] = "expert_glu_matmul",
    [OP_CLAMPED_GLU] = "clamped_glu",
    [OP_EXPERT_COMBINE] = "expert_combine",
    [OP_GATED_DELTA] = "gated_delta",
    [OP_DELTA_DECAY] = "delta_decay",
    [OP_CAUSAL_CONV] = "causal_conv",
    [OP_SELECTIVE_SCAN] = "selective_scan",
    [OP_SCAN_STEP] = "scan_step",
    [OP_MATMUL_T] = "matmul_t",
    [OP_OUTER] = "outer",
    [OP_SUM_ROWS] = "sum_rows",
    [OP_RMS_NORM_GRAD] = "rms_norm_grad",
    [OP_SILU_GRAD] = "silu_grad",
    [OP_ATTENTION_ROWS] = "attention_rows",
    [OP_ATTENTION_ROWS_GRAD] = "attention_rows_grad",
    [OP_ROPE_GRAD] = "rope_grad",
    [OP_PAD] = "pad",
    [OP_QUANTIZE_ROWS] = "quantize_rows",
    [OP_RMS_NORM_I8] = "rms_norm_i8",
    [OP_LAYER_NORM_I8] = "layer_norm_i8",
    [OP_MATMUL_I8] = "matmul_i8",
    [OP_GLU_MATMUL_I8] = "glu_matmul_i8",
    [OP_GLU_ROWS_I8] = "glu_rows_i8",
    [OP_EXPERT_MATMUL_I8] = "expert_matmul_i8",
    [OP_EXPERT_GLU_MATMUL_I8] = "expert_glu_matmul_i8",
    [OP_TILE_ROWS] = "tile_rows",
    [OP_MATMUL_BF16] = "matmul_bf16",
    [OP_GLU_MATMUL_BF16] = "glu_matmul_bf16",
    [OP_EXPERT_MATMUL_BF16] = "expert_matmul_bf16",
    [OP_EXPERT_GLU_MATMUL_BF16] = "expert_glu_matmul_bf16",
    [OP_FLASH_ATTENTION] = "flash_attention",
    [OP_ATTENTION_PARTS] = "attention_parts",
    [OP_ATTENTION_JOIN] = "attention_join",
};

const char *mica_graph_op_name(graph_op op) {
    const char *name = (unsigned)op < GRAPH_N_OPS ? op_names[op] : NULL;
    return name ? name : "unknown";
}

bool mica_graph_op_has_effect(graph_op op) {
    return op == OP_KV_WRITE || op == OP_GATED_DELTA || op == OP_CAUSAL_CONV ||
           op == OP_SELECTIVE_SCAN;
}

static bool plane_bytes(uint64_t *out, int64_t n_heads, int64_t dim, mica_dtype dtype) {
    uint64_t n = (uint64_t)n_heads;
    return mica_mul_u64(n, KV_BLOCK, &n) && mica_mul_u64(n, (uint64_t)dim, &n) &&
           mica_mul_u64(n, mica_dtype_bytes(dtype), out);
}

bool mica_kv_layout_init(kv_layout *layout, int64_t n_kv_heads, int64_t head_dim,
                         int64_t v_head_dim, mica_dtype dtype) {
    if (n_kv_heads <= 0 || head_dim <= 0 || v_head_dim <= 0) return false;
    if (n_kv_heads > INT32_MAX || head_dim > INT32_MAX || v_head_dim > INT32_MAX) return false;
    if (!mica_dtype_is_float(dtype)) return false;
    uint64_t k, v, sum;
    if (!plane_bytes(&k, n_kv_heads, head_dim, dtype)) return false;
    if (!plane_bytes(&v, n_kv_heads, v_head_dim, dtype)) return false;
    if (!mica_add_u64(k, v, &sum)) return false;
    *layout = (kv_layout){.n_kv_heads = (int32_t)n_kv_heads,
                          .head_dim = (int32_t)head_dim,
                          .v_head_dim = (int32_t)v_head_dim,
                          .dtype = dtype,
                          .k_bytes = k,
                          .block_bytes = sum};
    return true;
}

void mica_kv_layout_share(kv_layout *layout) {
    layout->v_in_k = true;
    layout->block_bytes = layout->k_bytes;
}
