/* rope.c: the rope factory: a rope_config to a table of periods and two scales.
 *
 * A period is the reciprocal of an inverse frequency: the angle of pair i at position p is
 * position_scale * p / period[i]; +inf means that the pair is not rotated. Tables are computed in
 * f32, scalars in double, as docs/models.md 5 says.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846

typedef enum rope_type {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL,
    ROPE_UNKNOWN
} rope_type;

static const struct {
    const char *name;
    rope_type type;
} rope_types[] = {
    {"default", ROPE_PLAIN},
    {"mrope", ROPE_PLAIN},
    {"linear", ROPE_LINEAR},
    {"dynamic", ROPE_DYNAMIC},
    {"llama3", ROPE_LLAMA3},
    {"yarn", ROPE_YARN},
    {"deepseek_yarn", ROPE_YARN},
    {"telechat3-yarn", ROPE_YARN},
    {"longrope", ROPE_LONGROPE},
    {"su", ROPE_LONGROPE},
    {"proportional", ROPE_PROPORTIONAL},
};

static rope_type type_of(const rope_config *rope) {
    for (size_t i = 0; i < sizeof(rope_types) / sizeof(rope_types[0]); i++)
        if (!strcmp(rope_types[i].name, rope->type)) return rope_types[i].type;
    return ROPE_UNKNOWN;
}

void mica_rope_defaults(rope_config *rope, double theta) {
    *rope = (rope_config){.type = "default",
                          .theta = theta,
                          .factor = 1.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .beta_fast = 32.0,
                          .beta_slow = 1.0,
                          .mscale = 1.0,
                          .mscale_all_dim = 0.0,
                          .attention_factor = -1.0,
                          .alpha = 1.0,
                          .partial_rotary_factor = 1.0,
                          .truncate = true};
}

bool mica_rope_by_length(const rope_config *rope) {
    rope_type type = type_of(rope);
    return type == ROPE_DYNAMIC || type == ROPE_LONGROPE;
}

void mica_rope_forget_length(rope_config *rope) {
    if (type_of(rope) == ROPE_DYNAMIC) snprintf(rope->type, sizeof(rope->type), "default");
    rope->long_factor = rope->short_factor;
}

int64_t mica_rope_dims(const rope_config *rope, int64_t head_dim) {
    if (type_of(rope) == ROPE_PROPORTIONAL) return head_dim; /* pairs span all channels */
    int64_t dims = (int64_t)((double)head_dim * rope->partial_rotary_factor);
    return dims - dims % 2;
}

/* base^(2i/dims) in f32. */
static float plain_period(float base, int64_t i, int64_t dims) {
    return powf(base, (float)(2 * i) / (float)dims);
}

static void fill_plain(float base, int64_t dims, float *out) {
    for (int64_t i = 0; i < dims / 2; i++)
        out[i] = plain_period(base, i, dims);
}

static float stretched_base(const rope_config *rope, int64_t dims) {
    if (rope->alpha == 1.0 || dims <= 2) return (float)rope->theta;
    return (float)(rope->theta * pow(rope->alpha, (double)dims / (double)(dims - 2)));
}

/* Long wavelengths are stretched by the factor, short ones kept, those between interpolated. */
static void fill_llama3(const rope_config *rope, int64_t dims, float *out) {
    float old = (float)(rope->original_max_positions ? rope->original_max_positions : 8192);
    float factor = (float)rope->factor;
    float low = (float)rope->low_freq_factor, high = (float)rope->high_freq_factor;
    float longest = old / low, shortest = old / high;
    for (int64_t i = 0; i < dims / 2; i++) {
        float period = plain_period((float)rope->theta, i, dims);
        float wavelength = (float)(2.0 * PI) * period;
        float stretched = wavelength > longest ? period * factor : period;
        if (wavelength >= shortest && wavelength <= longest) {
            float s = (old / wavelength - low) / (high - low);
            stretched = period / ((1.0f - s) / factor + s);
        }
        out[i] = stretched;
    }
}

/* The channel whose wavelength turns `rotations` times within the original context. */
static double yarn_channel(const rope_config *rope, double original, int64_t dims,
                           double rotations) {
    return (double)dims * log(original / (rotations * 2.0 * PI)) / (2.0 * log(rope->theta));
}

static void fill_yarn(const rope_config *rope, int64_t dims, float *out) {
    double original = rope->original_max_positions ? (double)rope->original_max_positions : 4096.0;
    double low = yarn_channel(rope, original, dims, rope->beta_fast);
    double high = yarn_channel(rope, original, dims, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)(dims - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < dims / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
        float period = plain_period((float)rope->theta, i, dims);
        float stretched = (float)rope->factor * period;
        out[i] = (stretched * period) / (stretched * keep + period * (1.0f - keep));
    }
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double yarn_input_scale(const rope_config *rope) {
    if (rope->attention_factor >= 0.0) return rope->attention_factor;
    return yarn_mscale(rope->factor, rope->mscale) /
           yarn_mscale(rope->factor, rope->mscale_all_dim);
}

static double longrope_input_scale(const rope_config *rope) {
    double original = (double)rope->original_max_positions;
    double stretch = (double)rope->max_positions / original;
    if (rope->attention_factor >= 0.0) return rope->attention_factor;
    return stretch <= 1.0 ? 1.0 : sqrt(1.0 + log(stretch) / log(original));
}

static mica_status fill_longrope(const rope_config *rope, int64_t dims, int64_t n_positions,
                                 float *out, mica_error *err) {
    if (rope->n_factors != 1 && rope->n_factors != dims / 2)
        return mica_fail(err, MICA_E_FORMAT,
                         "longrope has %lld factors; expected %lld (rotated channels / 2)",
                         (long long)rope->n_factors, (long long)(dims / 2));
    bool is_long = n_positions > rope->original_max_positions;
    const float *factor = is_long ? rope->long_factor : rope->short_factor;
    for (int64_t i = 0; i < dims / 2; i++)
        out[i] = factor[rope->n_factors == 1 ? 0 : i] * plain_period((float)rope->theta, i, dims);
    return MICA_OK;
}

/* The base grows with the sequence once it is longer than the trained context. */
static void fill_dynamic(const rope_config *rope, int64_t dims, int64_t n_positions, float *out) {
    double trained = (double)rope->max_positions, n = (double)n_positions;
    double base = rope->theta;
    if (n > trained && dims > 2) {
        double grown = rope->factor * n / trained - (rope->factor - 1.0);
        base *= pow(grown, (double)dims / (double)(dims - 2));
    }
    fill_plain((float)base, dims, out);
}

static void fill_proportional(const rope_config *rope, int64_t dims, float *out) {
    int64_t rotated = (int64_t)((double)dims * rope->partial_rotary_factor);
    for (int64_t i = 0; i < dims / 2; i++)
        out[i] = i < rotated / 2 ? (float)rope->factor * plain_period((float)rope->theta, i, dims)
                                 : INFINITY;
}

static mica_status unsupported(const rope_config *rope, mica_error *err) {
    char known[160];
    size_t at = 0;
    for (size_t i = 0; i < sizeof(rope_types) / sizeof(rope_types[0]); i++) {
        int n = snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", rope_types[i].name);
        at += (size_t)n;
    }
    return mica_fail(err, MICA_E_UNSUPPORTED, "Unsupported RoPE type %s (known: %s)", rope->type,
                     known);
}

mica_status mica_rope_periods_at(const rope_config *rope, int64_t dims, int64_t n_positions,
                                 float *out, float *position_scale, float *input_scale,
                                 mica_error *err) {
    mica_status st = MICA_OK;
    double positions = 1.0, inputs = 1.0;
    switch (type_of(rope)) {
    case ROPE_PLAIN:
        fill_plain(stretched_base(rope, dims), dims, out);
        break;
    case ROPE_LINEAR:
        fill_plain((float)rope->theta, dims, out);
        positions = 1.0 / rope->factor;
        break;
    case ROPE_DYNAMIC:
        fill_dynamic(rope, dims, n_positions, out);
        break;
    case ROPE_LLAMA3:
        fill_llama3(rope, dims, out);
        break;
    case ROPE_YARN:
        fill_yarn(rope, dims, out);
        inputs = yarn_input_scale(rope);
        break;
    case ROPE_LONGROPE:
        st = fill_longrope(rope, dims, n_positions, out, err);
        inputs = longrope_input_scale(rope);
        break;
    case ROPE_PROPORTIONAL:
        fill_proportional(rope, dims, out);
        break;
    case ROPE_UNKNOWN:
        return unsupported(rope, err);
    }
    if (st) return st;
    if (rope->input_scale > 0.0) inputs = rope->input_scale;
    for (int64_t i = 0; rope->freq_factors && i < dims / 2; i++)
        out[i] *= rope->freq_factors[i];
    *position_scale = (float)positions;
    *input_scale = (float)inputs;
    return MICA_OK;
}

mica_status mica_rope_periods(const rope_config *rope, int64_t dims, float *out,
                              float *position_scale, float *input_scale, mica_error *err) {
    /* the table of a long sequence, except that a dynamic base does not grow without a length */
    int64_t n = type_of(rope) == ROPE_LONGROPE ? INT64_MAX : 0;
    return mica_rope_periods_at(rope, dims, n, out, position_scale, input_scale, err);
}
