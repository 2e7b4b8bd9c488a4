/* config_gguf_gemma.c: what layers of Gemma 3n and 4 have of their own, in a GGUF file's metadata.
 *
 * Widths of MLPs, the rank of Laurel and which layers have no values of their own are what the
 * tensors say (config_gemma.c).
 */
#include "model/config_gguf.h"

#include <math.h>

static void read_streams(gguf_reader *r, model_config *c) {
    gemma_config *g = &c->gemma;
    g->n_streams = mica_meta_size(r, "altup.num_inputs", -1, 1, 64);
    g->active_stream = mica_meta_size(r, "altup.active_idx", 0, 0, g->n_streams - 1);
    g->scales_corrected = true;
    const char *key = "activation_sparsity_scale";
    const gguf_entry *e = mica_meta_find(r, key);
    if (!e) return;
    bool good = e->type == GGUF_VALUE_ARRAY && e->element == GGUF_VALUE_F32 &&
                e->n >= (uint64_t)c->n_layers;
    if (!good) mica_meta_fail(r, MICA_E_FORMAT, key, "must have a number for each layer");
    for (int64_t i = 0; i < c->n_layers && good; i++) /* -INFINITY: none */
        c->gemma.layers[i].gate_cut = (float)mica_gguf_array_number(e, (uint64_t)i);
}

/* Full layers turn heads of key_length, sliding ones of key_length_swa. */
static void read_heads(gguf_reader *r, model_config *c) {
    int64_t full = c->head_dim;
    int64_t local = mica_meta_size(r, "attention.key_length_swa", full, 2, CONFIG_MAX_WIDTH);
    if (mica_meta_size(r, "attention.value_length_swa", local, 1, CONFIG_MAX_WIDTH) != local)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "attention.value_length_swa",
                       "differs from the width of the keys");
    if (mica_meta_size(r, "rope.dimension_count_swa", local, 1, CONFIG_MAX_WIDTH) != local)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "rope.dimension_count_swa",
                       "differs from the width of a head: partial rotation is not supported "
                       "here");
    for (int64_t i = 0; i < c->n_layers && !r->st; i++) {
        layer_shape *s = &c->gemma.layers[i];
        bool sliding = c->window[i] > 0;
        s->head_dim = (int32_t)(sliding ? local : full);
        s->n_kv_heads = (int32_t)mica_meta_size_at(r, "attention.head_count_kv", i, c->n_layers);
        s->kv_layer = (int32_t)i;
        s->gate_cut = -INFINITY;
        if (c->n_heads % s->n_kv_heads)
            mica_meta_fail(r, MICA_E_FORMAT, "attention.head_count_kv",
                           "does not divide attention.head_count");
    }
    c->rope[0].head_dim = full;
    c->rope[1].head_dim = local;
}

void mica_meta_read_gemma(gguf_reader *r, model_config *c, config_facts *facts) {
    if (r->st || !r->arch->gemma) return;
    c->gemma.layers = mica_arena_calloc(r->arena, (size_t)c->n_layers, sizeof(*c->gemma.layers));
    if (!c->gemma.layers) {
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->where);
        return;
    }
    read_heads(r, c);
    facts->attention_multiplier = 1.0;
    facts->n_shared = mica_meta_size(r, "attention.shared_kv_layers", 0, 0, c->n_layers);
    facts->per_layer_size =
        mica_meta_size(r, "embedding_length_per_layer_input", 0, 0, CONFIG_MAX_WIDTH);
    if (r->arch->gemma == GEMMA_3N) read_streams(r, c);
}
