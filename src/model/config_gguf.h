/* config_gguf.h: what the readers of GGUF metadata share (config_gguf*.c).
 *
 * Reads with one sticky error, as config.h's reader: after the first failure every read gives its
 * fallback. Keys go without the architecture before them.
 */
#ifndef MICA_MODEL_CONFIG_GGUF_H
#define MICA_MODEL_CONFIG_GGUF_H

#include "model/config.h"

typedef struct gguf_reader {
    const gguf_file *file;
    const arch *arch;
    char prefix[48]; /* general.architecture */
    const char *where;
    mica_arena *arena;
    mica_error *err;
    mica_status st;
} gguf_reader;

const gguf_entry *mica_meta_find(const gguf_reader *r, const char *key);
void mica_meta_fail(gguf_reader *r, mica_status code, const char *key, const char *what);
/* A finite number; an array counts as its first element if all are equal. */
double mica_meta_number(gguf_reader *r, const char *key, double fallback);
/* A whole number from least to most; fallback -1: required. */
int64_t mica_meta_size(gguf_reader *r, const char *key, int64_t fallback, int64_t least,
                       int64_t most);
bool mica_meta_flag(const gguf_reader *r, const char *key, bool fallback);

/* ---- config_gguf_mixers.c: families with layers that have no attention ---- */
/* As mica_meta_size, but 0 stands for none: a value that is 0 for some layers is that of the
 * others, and 1 when it is 0 for all. */
int64_t mica_meta_layer_size(gguf_reader *r, const char *key, int64_t fallback);
void mica_meta_read_mixers(gguf_reader *r, model_config *c);

/* The value of a layer: entry `layer` of an array, or the number that stands for all. */
int64_t mica_meta_size_at(gguf_reader *r, const char *key, int64_t layer, int64_t n_layers);

/* ---- config_gguf_moe.c: experts and latent attention ---- */
void mica_meta_read_moe(gguf_reader *r, model_config *c);
void mica_meta_read_mla(gguf_reader *r, model_config *c);

/* ---- config_gguf_gemma.c: what layers of Gemma 3n and 4 have of their own ---- */
void mica_meta_read_gemma(gguf_reader *r, model_config *c, config_facts *facts);

#endif
