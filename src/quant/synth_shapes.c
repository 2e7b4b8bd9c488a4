/* synth_shapes.c: the shapes of well-known models, as their published configurations state them.
 *
 * A shape is sizes alone: scaled ropes are left out, since they cost nothing and change no byte.
 */
#include <string.h>

#include "quant/synth.h"

#define LLAMA(params_, like_, layers, hidden, inter, heads, kv, dim, vocab, tied_)             \
    {                                                                                          \
        .arch = "llama", .params = params_, .like = like_, .n_layers = layers,                 \
        .hidden_size = hidden, .intermediate_size = inter, .n_heads = heads, .n_kv_heads = kv, \
        .head_dim = dim, .vocab_size = vocab, .tied = tied_, .rope_theta = 500000.0,           \
        .max_positions = 131072                                                                \
    }
#define QWEN3(params_, like_, layers, hidden, inter, heads, vocab, tied_)                     \
    {                                                                                         \
        .arch = "qwen3", .params = params_, .like = like_, .n_layers = layers,                \
        .hidden_size = hidden, .intermediate_size = inter, .n_heads = heads, .n_kv_heads = 8, \
        .head_dim = 128, .vocab_size = vocab, .tied = tied_, .rope_theta = 1e6,               \
        .max_positions = 40960                                                                \
    }
#define MOE(params_, like_, layers, hidden, inter, heads, experts, used, vocab)               \
    {                                                                                         \
        .arch = "qwen3_moe", .params = params_, .like = like_, .n_layers = layers,            \
        .hidden_size = hidden, .intermediate_size = inter, .n_heads = heads, .n_kv_heads = 4, \
        .head_dim = 128, .vocab_size = vocab, .n_experts = experts, .n_experts_used = used,   \
        .rope_theta = 1e6, .max_positions = 40960                                             \
    }
#define GEMMA3(params_, like_, layers, hidden, inter, heads, kv, vocab, window_, positions)    \
    {                                                                                          \
        .arch = "gemma3_text", .params = params_, .like = like_, .n_layers = layers,           \
        .hidden_size = hidden, .intermediate_size = inter, .n_heads = heads, .n_kv_heads = kv, \
        .head_dim = 256, .vocab_size = vocab, .tied = true, .window = window_,                 \
        .window_pattern = 6, .rope_theta = 1e6, .max_positions = positions                     \
    }

static const synth_shape shapes[] = {
    LLAMA("tiny", "nothing: for tests", 2, 256, 512, 4, 2, 64, 512, true),
    LLAMA("135m", "SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49152, true),
    LLAMA("1b", "Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128256, true),
    LLAMA("3b", "Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128256, true),
    LLAMA("8b", "Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256, false),
    LLAMA("70b", "Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128, 128256, false),
    QWEN3("tiny", "nothing: for tests", 2, 256, 512, 8, 512, true),
    QWEN3("0.6b", "Qwen3-0.6B", 28, 1024, 3072, 16, 151936, true),
    QWEN3("1.7b", "Qwen3-1.7B", 28, 2048, 6144, 16, 151936, true),
    QWEN3("4b", "Qwen3-4B", 36, 2560, 9728, 32, 151936, true),
    QWEN3("8b", "Qwen3-8B", 36, 4096, 12288, 32, 151936, false),
    QWEN3("14b", "Qwen3-14B", 40, 5120, 17408, 40, 151936, false),
    QWEN3("32b", "Qwen3-32B", 64, 5120, 25600, 64, 151936, false),
    MOE("tiny", "nothing: for tests", 2, 256, 256, 4, 8, 2, 512),
    MOE("30b", "Qwen3-30B-A3B", 48, 2048, 768, 32, 128, 8, 151936),
    MOE("235b", "Qwen3-235B-A22B", 94, 4096, 1536, 64, 128, 8, 151936),
    GEMMA3("tiny", "nothing: for tests", 6, 256, 512, 4, 1, 512, 16, 4096),
    GEMMA3("270m", "Gemma 3 270M", 18, 640, 2048, 4, 1, 262144, 512, 32768),
    GEMMA3("1b", "Gemma 3 1B", 26, 1152, 6912, 4, 1, 262144, 512, 32768),
    GEMMA3("4b", "Gemma 3 4B", 34, 2560, 10240, 8, 4, 262208, 1024, 131072),
    GEMMA3("12b", "Gemma 3 12B", 48, 3840, 15360, 16, 8, 262208, 1024, 131072),
};

size_t mica_synth_n_shapes(void) { return sizeof(shapes) / sizeof(shapes[0]); }

const synth_shape *mica_synth_shape(size_t i) { return &shapes[i]; }

const synth_shape *mica_synth_find(const char *arch, const char *params) {
    for (size_t i = 0; i < mica_synth_n_shapes(); i++)
        if (!strcmp(shapes[i].arch, arch) && !strcmp(shapes[i].params, params)) return &shapes[i];
    return NULL;
}
