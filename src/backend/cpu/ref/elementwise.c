/* elementwise.c: sums, products, activations, casts and copies, element by element.
 *
 * a [.., n]; b of equal shape, or [n] for every row; out [.., n] of dtype T. One f32 operation and
 * one rounding each; activations round at every step (activation.h). COPY and PAD move bytes of any
 * dtype. Unit: 1024 columns of one row.
 * Profile: exact. Source: docs/numerics.md 1.3, 4.1.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/operand.h"

#define UNIT_COLUMNS 1024

typedef float (*element_fn)(const kernel_call *call, float a, float b);

static float add(const kernel_call *call, float a, float b) {
    (void)call;
    return a + b;
}
static float mul(const kernel_call *call, float a, float b) {
    (void)call;
    return a * b;
}
static float scale(const kernel_call *call, float a, float b) {
    (void)b;
    return a * mica_round_to(call->attr->scale.c, call->out.dtype);
}
static float silu(const kernel_call *call, float a, float b) {
    (void)b;
    return act_silu(a, call->out.dtype);
}
static float gelu(const kernel_call *call, float a, float b) {
    (void)b;
    return act_gelu(a, call->out.dtype);
}
static float gelu_tanh(const kernel_call *call, float a, float b) {
    (void)b;
    return act_gelu_tanh(a, call->out.dtype);
}
static float sigmoid(const kernel_call *call, float a, float b) {
    (void)b;
    return act_sigmoid(a, call->out.dtype);
}
static float softplus(const kernel_call *call, float a, float b) {
    (void)b;
    return act_softplus(a, call->out.dtype);
}
static float softcap(const kernel_call *call, float a, float b) {
    (void)b;
    return act_softcap(a, call->attr->scale.c, call->out.dtype);
}
static float relu2(const kernel_call *call, float a, float b) {
    (void)call;
    (void)b;
    return act_relu2(a);
}
static float clamp(const kernel_call *call, float a, float b) {
    float c = mica_round_to(call->attr->scale.c, call->out.dtype);
    (void)b;
    return a < -c ? -c : a > c ? c : a;
}
static float xielu(const kernel_call *call, float a, float b) {
    mica_dtype t = call->out.dtype;
    (void)b;
    return act_xielu(
        a, mica_round_to(call->attr->xielu.alpha_p, t), mica_round_to(call->attr->xielu.alpha_n, t),
        mica_round_to(call->attr->xielu.beta, t), mica_round_to(call->attr->xielu.eps, t), t);
}
static float cast(const kernel_call *call, float a, float b) {
    (void)call;
    (void)b;
    return a;
}
/* d silu(x)/dx = s * (1 + x * (1 - s)), in f32; b is dy. */
static float silu_grad(const kernel_call *call, float a, float b) {
    (void)call;
    float s = act_sigmoid(a, MICA_F32);
    return b * (s * (1.0f + a * (1.0f - s)));
}

static const element_fn functions[GRAPH_N_OPS] = {
    [OP_ADD] = add,         [OP_MUL] = mul,
    [OP_SCALE] = scale,     [OP_SILU] = silu,
    [OP_GELU] = gelu,       [OP_GELU_TANH] = gelu_tanh,
    [OP_SIGMOID] = sigmoid, [OP_SOFTPLUS] = softplus,
    [OP_SOFTCAP] = softcap, [OP_RELU2] = relu2,
    [OP_XIELU] = xielu,     [OP_CLAMP] = clamp,
    [OP_CAST] = cast,       [OP_SILU_GRAD] = silu_grad,
};

static int64_t units_per_row(const kernel_call *call) {
    return (operand_width(&call->out) + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
}

static int64_t n_units(const kernel_call *call) {
    return operand_rows(&call->out) * units_per_row(call);
}

/* The columns [*first, return value) of row *r that unit u covers. */
static int64_t unit_columns(const kernel_call *call, int64_t u, int64_t *r, int64_t *first) {
    int64_t per_row = units_per_row(call), n = operand_width(&call->out);
    *r = u / per_row;
    *first = u % per_row * UNIT_COLUMNS;
    return *first + UNIT_COLUMNS < n ? *first + UNIT_COLUMNS : n;
}

static void run_elements(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *a = &call->src[0], *b = &call->src[1], *out = &call->out;
    element_fn fn = functions[call->op];
    bool has_b = call->n_src > 1 && b->data;
    for (int64_t u = begin; u < end; u++) {
        int64_t r, first, last = unit_columns(call, u, &r, &first);
        int64_t out_off = operand_row(out, r), a_off = operand_row(a, r), b_off = operand_row(b, r);
        int64_t out_step = operand_step(out), a_step = operand_step(a), b_step = operand_step(b);
        for (int64_t i = first; i < last; i++) {
            float av = operand_load(a, a_off + i * a_step);
            float bv = has_b ? operand_load(b, b_off + i * b_step) : 0.0f;
            operand_store(out, out_off + i * out_step, fn(call, av, bv));
        }
    }
}

/* ln(1 + n) for a whole n >= 0: the power of two apart, so that log1p_f32 gets at most 1. */
static float log_of_next(float n) {
    uint32_t bits = mica_f32_bits(1.0f + n);
    int power = (int)(bits >> 23) - 127;
    float m = mica_bits_f32((bits & 0x7FFFFFu) | 0x3F800000u);
    return (float)power * 0.693147181f + log1p_f32(m - 1.0f);
}

/* The factor is formed in f32 and rounded to T before it multiplies. */
static void run_position_scale(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *a = &call->src[0], *out = &call->out;
    const int32_t *positions = operand_i32(&call->src[1]);
    int64_t n_inner = operand_rows(out) / out->dim[0];
    for (int64_t u = begin; u < end; u++) {
        int64_t r, first, last = unit_columns(call, u, &r, &first);
        float p = (float)(positions[r / n_inner] + call->attr->position_scale.offset);
        float n = floorf(p / (float)call->attr->position_scale.length);
        float f = 1.0f + call->attr->position_scale.beta * log_of_next(n);
        f = mica_round_to(f, out->dtype);
        for (int64_t i = first; i < last; i++)
            operand_store(out, operand_row(out, r) + i * operand_step(out),
                          f * operand_load(a, operand_row(a, r) + i * operand_step(a)));
    }
}

/* Column i of out is column i - before of the source, or zero bytes outside it. */
static void move_bytes(const kernel_call *call, int64_t begin, int64_t end, int64_t before) {
    const kernel_operand *a = &call->src[0], *out = &call->out;
    size_t size = mica_dtype_bytes(out->dtype);
    int64_t n = operand_width(a), a_step = operand_step(a), out_step = operand_step(out);
    for (int64_t u = begin; u < end; u++) {
        int64_t r, first, last = unit_columns(call, u, &r, &first);
        int64_t out_off = operand_row(out, r), a_off = operand_row(a, r) - before * a_step;
        for (int64_t i = first; i < last; i++) {
            void *to = operand_ptr(out, out_off + i * out_step);
            if (i < before || i >= before + n)
                memset(to, 0, size);
            else
                memcpy(to, operand_ptr(a, a_off + i * a_step), size);
        }
    }
}

static void run_copy(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    move_bytes(call, begin, end, 0);
}

static void run_pad(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    move_bytes(call, begin, end, call->attr->pad.before);
}

MICA_DECLARE_KERNELS(elementwise_ref);
const cpu_kernel mica_kernels_elementwise_ref[] = {
    {"add_ref", OP_ADD, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"mul_ref", OP_MUL, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"scale_ref", OP_SCALE, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"silu_ref", OP_SILU, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"gelu_ref", OP_GELU, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"gelu_tanh_ref", OP_GELU_TANH, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"sigmoid_ref", OP_SIGMOID, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"softplus_ref", OP_SOFTPLUS, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"softcap_ref", OP_SOFTCAP, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"relu2_ref", OP_RELU2, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"xielu_ref", OP_XIELU, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"clamp_ref", OP_CLAMP, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"position_scale_ref", OP_POSITION_SCALE, ISA_REF, declines_none, n_units, run_position_scale,
     NULL},
    {"cast_ref", OP_CAST, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"silu_grad_ref", OP_SILU_GRAD, ISA_REF, declines_none, n_units, run_elements, NULL},
    {"copy_ref", OP_COPY, ISA_REF, declines_none, n_units, run_copy, NULL},
    {"pad_ref", OP_PAD, ISA_REF, declines_none, n_units, run_pad, NULL},
};
const int mica_n_kernels_elementwise_ref =
    sizeof(mica_kernels_elementwise_ref) / sizeof(mica_kernels_elementwise_ref[0]);
