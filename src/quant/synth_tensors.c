/* synth_tensors.c: the tensors of a shape, in the order of the layers.
 *
 * Sizes are chosen so that random layers behave: each matrix keeps the size of what it multiplies,
 * queries and keys are large enough for attention to choose, and embeddings are small beside what
 * the first layer adds, or the likeliest next token would always be the last one. The final norm
 * brings logits to a standard deviation of 3.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/synth_parts.h"

#define EMBED_SIZE 0.05f
#define LOGITS_SIZE 3.0f

static mica_status add(synth_model *m, const synth_tensor *t, mica_error *err) {
    if (m->n_tensors == m->capacity) {
        size_t capacity = m->capacity ? m->capacity * 2 : 256;
        synth_tensor *bigger = mica_realloc(m->tensors, capacity * sizeof(*bigger));
        if (!bigger) return mica_fail(err, MICA_E_NOMEM, "out of memory for a list of tensors");
        m->tensors = bigger;
        m->capacity = capacity;
    }
    m->tensors[m->n_tensors++] = *t;
    return MICA_OK;
}

static void name_it(synth_tensor *t, int64_t layer, const char *name, const char *gguf_name) {
    if (layer < 0) {
        snprintf(t->name, sizeof(t->name), "%s", name);
        snprintf(t->gguf_name, sizeof(t->gguf_name), "%s", gguf_name);
        return;
    }
    snprintf(t->name, sizeof(t->name), "model.layers.%lld.%s", (long long)layer, name);
    snprintf(t->gguf_name, sizeof(t->gguf_name), "blk.%lld.%s", (long long)layer, gguf_name);
}

static mica_status add_vector(synth_model *m, int64_t layer, const char *name,
                              const char *gguf_name, int64_t n, float centre, mica_error *err) {
    synth_tensor t = {.is_vector = true, .n_in = n, .size = centre};
    t.offset = m->is_gemma ? 1.0f : 0.0f;
    name_it(&t, layer, name, gguf_name);
    return add(m, &t, err);
}

/* gain 1: outputs are as large as inputs. */
static synth_tensor matrix(int64_t layer, const char *name, const char *gguf_name, int64_t n_out,
                           int64_t n_in, float gain) {
    synth_tensor t = {.n_out = n_out, .n_in = n_in, .size = gain / sqrtf((float)n_in)};
    name_it(&t, layer, name, gguf_name);
    return t;
}

static mica_status add_attention(synth_model *m, int64_t layer, mica_error *err) {
    const synth_shape *s = &m->shape;
    int64_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    const synth_tensor all[] = {
        matrix(layer, "self_attn.q_proj", "attn_q", n_q, s->hidden_size, 1.5f),
        matrix(layer, "self_attn.k_proj", "attn_k", n_kv, s->hidden_size, 1.5f),
        matrix(layer, "self_attn.v_proj", "attn_v", n_kv, s->hidden_size, 1.0f),
        matrix(layer, "self_attn.o_proj", "attn_output", s->hidden_size, n_q, 1.5f),
    };
    bool is_llama = !strcmp(s->arch, "llama");
    mica_status st = MICA_OK;
    for (size_t i = 0; !st && i < sizeof(all) / sizeof(all[0]); i++) {
        synth_tensor t = all[i];
        if (is_llama && i < 2) t.head_rows = s->head_dim;
        st = add(m, &t, err);
    }
    if (st || is_llama) return st;
    st = add_vector(m, layer, "self_attn.q_norm", "attn_q_norm", s->head_dim, 1.5f, err);
    return st ? st
              : add_vector(m, layer, "self_attn.k_norm", "attn_k_norm", s->head_dim, 1.5f, err);
}

static mica_status add_mlp(synth_model *m, int64_t layer, mica_error *err) {
    const synth_shape *s = &m->shape;
    bool moe = s->n_experts > 0;
    const synth_tensor all[] = {
        matrix(layer, moe ? "mlp.switch_mlp.gate_proj" : "mlp.gate_proj",
               moe ? "ffn_gate_exps" : "ffn_gate", s->intermediate_size, s->hidden_size, 1.0f),
        matrix(layer, moe ? "mlp.switch_mlp.up_proj" : "mlp.up_proj",
               moe ? "ffn_up_exps" : "ffn_up", s->intermediate_size, s->hidden_size, 1.0f),
        matrix(layer, moe ? "mlp.switch_mlp.down_proj" : "mlp.down_proj",
               moe ? "ffn_down_exps" : "ffn_down", s->hidden_size, s->intermediate_size, 1.5f),
    };
    mica_status st = MICA_OK;
    if (moe) {
        synth_tensor router =
            matrix(layer, "mlp.gate", "ffn_gate_inp", s->n_experts, s->hidden_size, 2.0f);
        router.is_router = true;
        st = add(m, &router, err);
    }
    for (size_t i = 0; !st && i < sizeof(all) / sizeof(all[0]); i++) {
        synth_tensor t = all[i];
        t.n_experts = s->n_experts;
        st = add(m, &t, err);
    }
    return st;
}

static mica_status add_layer(synth_model *m, int64_t layer, mica_error *err) {
    static const char *const plain[][2] = {{"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"}};
    static const char *const sandwich[][2] = {
        {"input_layernorm", "attn_norm"},
        {"post_attention_layernorm", "post_attention_norm"},
        {"pre_feedforward_layernorm", "ffn_norm"},
        {"post_feedforward_layernorm", "post_ffw_norm"},
    };
    const char *const(*norms)[2] = m->is_gemma ? sandwich : plain;
    mica_status st = MICA_OK;
    for (int i = 0; !st && i < (m->is_gemma ? 4 : 2); i++)
        st = add_vector(m, layer, norms[i][0], norms[i][1], m->shape.hidden_size, 1.0f, err);
    if (!st) st = add_attention(m, layer, err);
    return st ? st : add_mlp(m, layer, err);
}

mica_status mica_synth_list(synth_model *m, const synth_options *options, mica_error *err) {
    *m = (synth_model){.shape = *options->shape};
    synth_shape *s = &m->shape;
    if (options->n_layers) s->n_layers = options->n_layers;
    m->is_gemma = !strcmp(s->arch, "gemma3_text");
    float root = sqrtf((float)s->hidden_size);
    /* gemma multiplies embeddings by the root itself */
    float embed = m->is_gemma ? EMBED_SIZE / root : EMBED_SIZE;
    synth_tensor t = {.n_out = s->vocab_size, .n_in = s->hidden_size, .size = embed};
    name_it(&t, -1, "model.embed_tokens", "token_embd");
    mica_status st = add(m, &t, err);
    for (int64_t i = 0; !st && i < s->n_layers; i++)
        st = add_layer(m, i, err);
    float head = s->tied ? embed * root : 1.0f;
    if (!st)
        st =
            add_vector(m, -1, "model.norm", "output_norm", s->hidden_size, LOGITS_SIZE / head, err);
    if (st || s->tied) return st;
    t = matrix(-1, "lm_head", "output", s->vocab_size, s->hidden_size, 1.0f);
    return add(m, &t, err);
}
