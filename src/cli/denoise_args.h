/* denoise_args.h: command-line options of diffusion models: how a block is denoised. */
#ifndef MICA_CLI_DENOISE_ARGS_H
#define MICA_CLI_DENOISE_ARGS_H

#include "cli/args.h"
#include "engine/engine.h"

typedef struct denoise_args {
    const char *sampler;
    int64_t max_steps, stability_threshold, min_canvas, max_canvas;     /* below 0: not given */
    float t_min, t_max, entropy_bound, threshold, confidence_threshold; /* below 0: not given */
    bool short_canvas;
} denoise_args;

void mica_denoise_args_init(denoise_args *args); /* nothing given */

#define N_DENOISE_SPECS 11
/* Fills specs[N_DENOISE_SPECS] with the table that writes to *args. */
void mica_denoise_specs(arg_spec *specs, denoise_args *args);
/* EXIT_USAGE after saying which of them do not go together. */
int mica_denoise_check(const char *verb, const denoise_args *args);
/* What was given over what the model's files say. MICA_E_INVALID: something was given and the model
 * is no diffusion model. */
mica_status mica_denoise_apply(const denoise_args *args, const engine *e, diffusion_options *out,
                               mica_error *err);

#endif
