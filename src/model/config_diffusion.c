/* config_diffusion.c: the length of a canvas, and how blocks are denoised unless a request says
 * otherwise: keys of generation_config.json (docs/models.md 16.4).
 *
 * null counts as absent. A value out of its bounds is an error that names the key: every one of
 * them changes the text.
 */
#include "model/config.h"

#include <string.h>

enum { MAX_CANVAS = 65536, MAX_STEPS = 1 << 20 };

static void fail_value(config_reader *r, const char *key, double x, const char *expected) {
    if (r->st) return;
    r->st =
        mica_fail(r->err, MICA_E_FORMAT, "%s: generation_config.json: \"%s\" is %g; expected %s",
                  r->where, key, x, expected);
}

static double number(config_reader *r, const json_value *object, const char *key, double fallback) {
    const json_value *v = mica_json_find_set(object, key);
    if (!v || r->st) return fallback;
    if (mica_json_is_number(v)) return mica_json_double(v, 0.0);
    r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: generation_config.json: \"%s\" must be a number",
                      r->where, key);
    return fallback;
}

static int64_t whole(config_reader *r, const json_value *object, const char *key, int64_t fallback,
                     int64_t least, int64_t most) {
    double x = number(r, object, key, (double)fallback);
    if (x >= (double)least && x <= (double)most && x == (double)(int64_t)x) return (int64_t)x;
    fail_value(r, key, x, least ? "a whole number, at least 1" : "a whole number, at least 0");
    return fallback;
}

static double above_0(config_reader *r, const json_value *object, const char *key,
                      double fallback) {
    double x = number(r, object, key, fallback);
    if (x > 0.0 && x <= 1e9) return x;
    fail_value(r, key, x, "a number above 0");
    return fallback;
}

static void read_sampler(config_reader *r, const json_value *generation, diffusion_config *d) {
    const json_value *v = mica_json_find_set(generation, "sampler_config");
    d->entropy_bound = 0.1f;
    if (!v || r->st) return;
    const char *name =
        mica_json_string(mica_json_find_set(v, "_cls_name"), "EntropyBoundSamplerConfig");
    if (v->kind != JSON_KIND_OBJECT || strcmp(name, "EntropyBoundSamplerConfig") != 0) {
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: generation_config.json: \"sampler_config\": \"%.60s\" is not "
                          "supported; expected an EntropyBoundSamplerConfig",
                          r->where, v->kind == JSON_KIND_OBJECT ? name : "no object");
        return;
    }
    d->entropy_bound = (float)above_0(r, v, "entropy_bound", 0.1);
}

static void read_schedule(config_reader *r, const json_value *generation, diffusion_config *d) {
    double least = number(r, generation, "t_min", 0.4), most = number(r, generation, "t_max", 0.8);
    if (!(least >= 0.0 && least < 1e9)) fail_value(r, "t_min", least, "0 or more");
    if (!(most > least && most < 1e9)) fail_value(r, "t_max", most, "a number above t_min");
    d->t_min = least;
    d->t_max = most;
}

/* What would be another model: weights of the encoder apart from the decoder's. */
static void refuse_untied(config_reader *r) {
    const char *key = "tie_word_embeddings";
    bool tied = mica_config_flag(r, r->raw, key, true) && mica_config_flag(r, r->text, key, true);
    if (!tied && !r->st)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"%s\": false is not supported for %s, whose encoder "
                          "and decoder share their weights",
                          r->where, key, r->arch->name);
}

void mica_config_read_diffusion(config_reader *r, const json_value *generation, model_config *c) {
    diffusion_config *d = &c->diffusion;
    if (r->st || r->arch->gemma != GEMMA_DIFFUSION) return;
    const char *key = "canvas_length";
    const json_value *holder = mica_json_find_set(r->raw, key) ? r->raw : r->text;
    d->canvas_length = (int32_t)mica_config_integer(r, holder, key, 256, 1, MAX_CANVAS);
    d->max_tokens = whole(r, generation, "max_new_tokens", 0, 0, INT32_MAX);
    if (mica_json_find_set(generation, "max_new_tokens") && !d->max_tokens)
        fail_value(r, "max_new_tokens", 0, "a whole number, at least 1");
    d->max_length = whole(r, generation, "max_length", 0, 0, INT32_MAX);
    d->max_steps = (int32_t)whole(r, generation, "max_denoising_steps", 48, 1, MAX_STEPS);
    d->stability_threshold = (int32_t)whole(r, generation, "stability_threshold", 1, 0, MAX_STEPS);
    d->confidence_threshold = (float)above_0(r, generation, "confidence_threshold", 0.005);
    read_sampler(r, generation, d);
    read_schedule(r, generation, d);
    refuse_untied(r);
    /* what the published model has */
    if (!c->n_eos) c->eos_ids[c->n_eos++] = 1;
    if (c->bos_id < 0) c->bos_id = 2;
}
