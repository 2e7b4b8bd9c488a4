/* denoise_args.c: from command-line options to those of block diffusion. */
#include "cli/denoise_args.h"

#include <stdio.h>
#include <string.h>

void mica_denoise_args_init(denoise_args *a) {
    *a = (denoise_args){.max_steps = -1,
                        .stability_threshold = -1,
                        .min_canvas = -1,
                        .max_canvas = -1,
                        .t_min = -1,
                        .t_max = -1,
                        .entropy_bound = -1,
                        .threshold = -1,
                        .confidence_threshold = -1};
}

void mica_denoise_specs(arg_spec *specs, denoise_args *a) {
    const arg_spec table[N_DENOISE_SPECS] = {
        {"denoising-steps", 0, ARG_INT, &a->max_steps, "N",
         "diffusion models: steps of a block, at most (the model's, 48)", 1, 1e6},
        {"diffusion-sampler", 0, ARG_STRING, &a->sampler, "NAME",
         "entropy-bound (the default) or confidence-threshold", 0, 0},
        {"entropy-bound", 0, ARG_FLOAT, &a->entropy_bound, "X",
         "what tokens accepted in one step may tell of each other (the model's, 0.1)", 1e-9, 1e6},
        {"threshold", 0, ARG_FLOAT, &a->threshold, "X",
         "least probability of an accepted token, of confidence-threshold (0.9)", 0, 1},
        {"t-min", 0, ARG_FLOAT, &a->t_min, "X", "temperature of the last step (the model's, 0.4)",
         0, 1e6},
        {"t-max", 0, ARG_FLOAT, &a->t_max, "X", "temperature of the first step (the model's, 0.8)",
         0, 1e6},
        {"stability-threshold", 0, ARG_INT, &a->stability_threshold, "N",
         "a block may stop early after so many equal canvases (the model's, 1)", 0, 1e6},
        {"confidence-threshold", 0, ARG_FLOAT, &a->confidence_threshold, "X",
         "and with a mean entropy below X (the model's, 0.005)", 1e-9, 1e6},
        {"short-canvas", 0, ARG_FLAG, &a->short_canvas, NULL,
         "a block no longer than what is left to generate", 0, 0},
        {"min-canvas", 0, ARG_INT, &a->min_canvas, "N", "its least length (64)", 1, 65536},
        {"max-canvas", 0, ARG_INT, &a->max_canvas, "N", "its greatest (the model's canvas)", 1,
         65536},
    };
    memcpy(specs, table, sizeof(table));
}

static bool by_confidence(const denoise_args *a) {
    return a->sampler && !strcmp(a->sampler, "confidence-threshold");
}

int mica_denoise_check(const char *verb, const denoise_args *a) {
    const char *wrong = NULL;
    if (a->sampler && !by_confidence(a) && strcmp(a->sampler, "entropy-bound") != 0)
        wrong = "--diffusion-sampler must be entropy-bound or confidence-threshold";
    else if (by_confidence(a) && a->entropy_bound >= 0)
        wrong = "--entropy-bound goes with the sampler entropy-bound";
    else if (!by_confidence(a) && a->threshold >= 0)
        wrong = "--threshold goes with --diffusion-sampler confidence-threshold";
    else if (by_confidence(a) && (a->stability_threshold < 0) != (a->confidence_threshold < 0))
        wrong = "with the sampler confidence-threshold give both --stability-threshold and "
                "--confidence-threshold, or none";
    else if (!a->short_canvas && (a->min_canvas >= 0 || a->max_canvas >= 0))
        wrong = "--min-canvas and --max-canvas go with --short-canvas";
    if (!wrong) return EXIT_OK;
    fprintf(stderr, "mica %s: %s\n", verb, wrong);
    return EXIT_USAGE;
}

static bool is_set(const denoise_args *a) {
    return a->sampler || a->short_canvas || a->max_steps >= 0 || a->stability_threshold >= 0 ||
           a->t_min >= 0 || a->t_max >= 0 || a->entropy_bound >= 0 || a->threshold >= 0 ||
           a->confidence_threshold >= 0;
}

static void apply_canvas(const denoise_args *a, diffusion_options *out) {
    out->full_canvas = !a->short_canvas;
    if (a->max_canvas >= 0) out->max_canvas = (int32_t)a->max_canvas;
    if (a->min_canvas >= 0)
        out->min_canvas = (int32_t)a->min_canvas;
    else if (out->min_canvas > out->max_canvas)
        out->min_canvas = out->max_canvas;
}

mica_status mica_denoise_apply(const denoise_args *a, const engine *e, diffusion_options *out,
                               mica_error *err) {
    if (!mica_engine_is_diffusion(e)) {
        if (!is_set(a)) return MICA_OK;
        return mica_fail(err, MICA_E_INVALID,
                         "options of diffusion models were given, but %s is none",
                         mica_model_config(mica_engine_model(e))->model_type);
    }
    mica_diffusion_defaults(out, e);
    apply_canvas(a, out);
    out->by_confidence = by_confidence(a);
    out->stops_early = !out->by_confidence || a->stability_threshold >= 0;
    if (a->max_steps >= 0) out->max_steps = (int32_t)a->max_steps;
    if (a->t_min >= 0) out->t_min = (double)a->t_min;
    if (a->t_max >= 0) out->t_max = (double)a->t_max;
    if (a->entropy_bound >= 0) out->entropy_bound = a->entropy_bound;
    if (a->threshold >= 0) out->threshold = a->threshold;
    if (a->stability_threshold >= 0) out->stability_threshold = (int32_t)a->stability_threshold;
    if (a->confidence_threshold >= 0) out->confidence_threshold = a->confidence_threshold;
    return MICA_OK;
}
