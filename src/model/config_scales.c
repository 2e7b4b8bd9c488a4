/* config_scales.c: the multipliers of falcon_h1, which stand before and behind each part of a
 * layer.
 *
 * Hub files keep them apart from the weights. Converters multiply them into the weights: MLX's all
 * but two, and none into biases (docs/models.md 15.6), GGUF's all.
 */
#include "model/config.h"

static float factor_of(config_reader *r, const char *what, double x) {
    if (!r->st && !(x > 0.0))
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" must be above 0",
                          r->where, what);
    return (float)x;
}

static float factor_key(config_reader *r, const char *key) {
    float x = factor_of(r, key, mica_config_number(r, r->text, key, 1.0));
    return x == 1.0f ? 0.0f : x;
}

/* n numbers, all 1 when the key is absent. */
static void factor_list(config_reader *r, const char *key, size_t n, float *out) {
    const json_value *v = mica_json_find_set(r->text, key);
    if (v && (v->kind != JSON_KIND_ARRAY || v->n != n) && !r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" must be %zu numbers",
                          r->where, key, n);
    for (size_t i = 0; i < n; i++)
        out[i] = v && !r->st ? factor_of(r, key, mica_json_double(v->items[i], 0.0)) : 1.0f;
}

void mica_config_read_branches(config_reader *r, model_config *c, config_facts *facts) {
    branch_scales *s = &c->scales;
    float mlp[2];
    bool any = false;
    facts->embed_multiplier = (double)factor_key(r, "embedding_multiplier");
    c->logit_multiplier = factor_key(r, "lm_head_multiplier");
    s->attention_in = factor_key(r, "attention_in_multiplier");
    s->attention_out = factor_key(r, "attention_out_multiplier");
    s->key = factor_key(r, "key_multiplier");
    s->ssm_in = factor_key(r, "ssm_in_multiplier");
    s->ssm_out = factor_key(r, "ssm_out_multiplier");
    factor_list(r, "mlp_multipliers", 2, mlp);
    factor_list(r, "ssm_multipliers", 5, s->ssm);
    s->gate = mlp[0] == 1.0f ? 0.0f : mlp[0];
    s->down = mlp[1] == 1.0f ? 0.0f : mlp[1];
    for (int i = 0; i < 5; i++)
        any = any || s->ssm[i] != 1.0f;
    for (int i = 0; i < 5 && !any; i++)
        s->ssm[i] = 0.0f;
}

/* MLX's layout of convolutions, [C, K, 1], tells its files. */
static bool is_folded(const model_config *c, const weight_store *weights) {
    int64_t rows = mica_weights_rows(weights, "model.layers.0.mixer.conv1d");
    return rows == c->ssm.conv_width;
}

mica_status mica_config_settle_branches(model_config *c, config_facts *facts,
                                        const weight_store *weights, mica_error *err) {
    if (facts->arch->scales != SCALES_FALCON) return MICA_OK;
    if (facts->is_gguf && c->tied)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: no output.weight: the multiplier of a tied head is not in a GGUF "
                         "file; convert the original folder, or use it as it is",
                         facts->where);
    if (facts->is_gguf || !is_folded(c, weights)) return MICA_OK;
    if (c->ssm.in_bias || c->ssm.out_bias || facts->bias[BIAS_RULE_ATTENTION_KEY] ||
        facts->bias[BIAS_RULE_MLP_KEY])
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: biases beside weights that hold the multipliers: MLX's converter has "
                         "left the biases without theirs; use the original folder",
                         facts->where);
    double embed = facts->embed_multiplier != 0.0 ? facts->embed_multiplier : 1.0;
    double head = c->logit_multiplier != 0.0f ? (double)c->logit_multiplier : 1.0;
    c->logit_multiplier = c->tied ? (float)(head / embed) : 0.0f;
    facts->embed_multiplier = 0.0;
    c->scales = (branch_scales){
        .attention_in = c->scales.attention_in, .key = c->scales.key, .is_folded = true};
    return MICA_OK;
}
