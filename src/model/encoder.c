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

void mica_config_read_encoder(config_reader *r, model_config *c) {
    const encoder_rule *rule = r->arch->encoder;
    if (!rule || r->st) return;
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

/* Row 0 of the token types as a vector over its memory. */
static const weight_vector *take_token_type(model_taker *t) {
    const model_config *c = &t->m->config;
    const weight_vector *all = mica_taker_vector(t, "model.embed_token_types", "weight",
                                                 c->n_token_types * c->hidden_size);
    if (!all || t->st) return NULL;
    weight_vector *v = mica_arena_alloc(&t->m->arena, sizeof(*v));
    if (!v) {
        mica_taker_no_memory(t);
        return NULL;
    }
    *v = *all;
    v->n = c->hidden_size;
    return v;
}

void mica_taker_encoder(model_taker *t) {
    static const char *const heads[] = {"lm_head.", "cls.", "model.pooler.", "vocab_"};
    const model_config *c = &t->m->config;
    dense_weights *w = &t->m->weights;
    w->embed_norm = mica_taker_norm(t, "model.embed_norm", c->hidden_size);
    if (c->n_token_types) w->token_type = take_token_type(t);
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
        mica_weights_drop(t->m->store, heads[i]);
}

/* h: embeddings of the tokens; learned: those of their positions. */
graph_id mica_builder_encoder_inputs(model_builder *b, graph_id h, graph_id learned) {
    const dense_weights *w = &b->m->weights;
    if (w->token_type)
        h = named(b, mica_graph_add(b->g, h, mica_graph_vector(b->g, w->token_type)),
                  "embed_token_types");
    h = named(b, mica_graph_add(b->g, h, learned), "embed_sum");
    return mica_builder_norm(b, h, w->embed_norm, "embed_norm");
}
