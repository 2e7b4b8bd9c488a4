/* encoder.c: what encoders have beside the dense skeleton: their keys, their embeddings' norm,
 * token types and positions.
 *
 * A text is one segment, so of the token types only row 0 is used: a vector that every row gets.
 * Positions that stand for padding are left out of the table when it is taken.
 */
#include "model/builder.h"
#include "model/taker.h"

#include <stdio.h>
#include <string.h>

static bool begins_with_word(const char *name, const char *words) {
    while (words && *words) {
        size_t n = strcspn(words, " ");
        if (!strncmp(name, words, n)) return true;
        words += n + (words[n] == ' ');
    }
    return false;
}

/* The class that wrote the file must be one of the type's. */
static void check_class(config_reader *r, const encoder_rule *rule) {
    const json_value *list = mica_json_find_set(r->raw, "architectures");
    bool is_list = list && list->kind == JSON_KIND_ARRAY && list->n;
    const char *name = is_list ? mica_json_string(list->items[0], "?") : NULL;
    if (!name || !rule->classes || r->st || begins_with_word(name, rule->classes)) return;
    r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                      "%s: config.json: \"architectures\": \"%.40s\" is no class of \"%s\" (those "
                      "begin with: %s); \"model_type\" must be that of the model",
                      r->where, name, r->text_type, rule->classes);
}

/* Keys of nomic_bert's older files that would change the mathematics: false, 0 or absent. */
static void refuse_older(config_reader *r) {
    static const char *const keys[] = {"causal",
                                       "prenorm",
                                       "qkv_proj_bias",
                                       "mlp_fc1_bias",
                                       "mlp_fc2_bias",
                                       "moe_every_n_layers",
                                       "parallel_block",
                                       "rotary_emb_interleaved",
                                       "rotary_emb_scale_base",
                                       "rotary_scaling_factor",
                                       "use_rms_norm"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !r->st; i++) {
        const json_value *v = mica_json_find_set(r->text, keys[i]);
        bool is_off =
            !v || (v->kind == JSON_KIND_BOOL ? !v->boolean : mica_json_double(v, 1.0) == 0.0);
        if (!is_off)
            r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                              "%s: config.json: \"%s\" is not supported for %s unless it is false",
                              r->where, keys[i], r->arch->name);
    }
}

void mica_config_read_encoder(config_reader *r, model_config *c) {
    const encoder_rule *rule = r->arch->encoder;
    if (!rule || r->st) return;
    check_class(r, rule);
    c->is_encoder = true;
    if (rule->n_token_types)
        c->n_token_types = mica_config_integer(r, r->text, "type_vocab_size", rule->n_token_types,
                                               0, CONFIG_MAX_WIDTH);
    const char *key = "position_embedding_type";
    const char *kind = mica_config_string(r, r->text, key, "absolute");
    if (!r->st && strcmp(kind, "absolute") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"%s\": \"%.40s\" is not supported for %s; only "
                          "\"absolute\" is",
                          r->where, key, kind, r->arch->name);
    if (mica_config_flag(r, r->text, "is_decoder", false) && !r->st)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"is_decoder\": true is not supported for %s, which is "
                          "run as an encoder",
                          r->where, r->arch->name);
    refuse_older(r);
    if (!rule->skips_padding) return;
    c->first_position =
        1 + mica_config_integer(r, r->text, "pad_token_id", 1, 0, CONFIG_MAX_COUNT - 1);
    c->max_positions -= c->first_position;
    if (!r->st && c->max_positions < 1)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"max_position_embeddings\" leaves no position after "
                          "\"pad_token_id\" %lld",
                          r->where, (long long)c->first_position - 1);
}

/* Row 0 of packed token types: in f32, and rounded to the type of their scales. */
static norm_weight unpack_token_type(model_taker *t, const char *path) {
    const model_config *c = &t->m->config;
    size_t n = (size_t)c->hidden_size;
    const weight_matrix *m = NULL;
    bool has_dtype;
    t->st = mica_weights_matrix(t->m->store, path, 0, c->n_token_types, c->hidden_size, &m, t->err);
    if (t->st) return (norm_weight){0};
    weight_vector *v = mica_arena_calloc(&t->m->arena, 2, sizeof(*v));
    float *wide = mica_arena_calloc(&t->m->arena, n, sizeof(*wide));
    float *own = mica_arena_calloc(&t->m->arena, n, sizeof(*own)); /* no element is larger */
    if (!v || !wide || !own) {
        mica_taker_no_memory(t);
        return (norm_weight){0};
    }
    v[0] = (weight_vector){path, mica_weight_dtype(m, &has_dtype), c->hidden_size, own};
    v[1] = (weight_vector){path, MICA_F32, c->hidden_size, wide};
    t->st = mica_weights_ready(t->m->store, m, t->err);
    if (t->st) return (norm_weight){0};
    mica_weight_row(m, 0, wide);
    for (size_t i = 0; i < n; i++)
        mica_store_f(own, v[0].dtype, i, wide[i]);
    return (norm_weight){.own = &v[0], .wide = &v[1]};
}

/* Row 0 of the token types, over their memory if they are not packed. */
static norm_weight take_token_type(model_taker *t) {
    const model_config *c = &t->m->config;
    const char *path = "model.embed_token_types";
    if (mica_weights_has(t->m->store, "model.embed_token_types.scales"))
        return unpack_token_type(t, path);
    weight_vector *v = mica_arena_alloc(&t->m->arena, sizeof(*v));
    if (!v) mica_taker_no_memory(t);
    const weight_vector *all =
        mica_taker_vector(t, path, "weight", c->n_token_types * c->hidden_size);
    if (!all || t->st) return (norm_weight){0};
    *v = *all;
    v->n = c->hidden_size;
    return (norm_weight){.own = v, .wide = v};
}

void mica_taker_encoder(model_taker *t) {
    static const char *const heads[] = {"lm_head.", "cls.", "model.pooler.", "vocab_"};
    const model_config *c = &t->m->config;
    dense_weights *w = &t->m->weights;
    w->embed_norm = mica_taker_norm(t, "model.embed_norm", c->hidden_size);
    if (c->n_token_types && !t->st) w->token_type = take_token_type(t);
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
        mica_weights_drop(t->m->store, heads[i]);
}

/* h: embeddings of the tokens; learned: those of their positions, or GRAPH_NONE. */
graph_id mica_builder_encoder_inputs(model_builder *b, graph_id h, graph_id learned) {
    const dense_weights *w = &b->m->weights;
    const weight_vector *type = b->wide_norms ? w->token_type.wide : w->token_type.own;
    if (type)
        h = named(b, mica_graph_add(b->g, h, mica_graph_vector(b->g, type)), "embed_token_types");
    if (w->positions) h = named(b, mica_graph_add(b->g, h, learned), "embed_sum");
    return mica_builder_norm(b, h, w->embed_norm, "embed_norm");
}
