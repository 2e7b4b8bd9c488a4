/* synth_parts.h: what the files of the synthesizer share; private to them. */
#ifndef MICA_QUANT_SYNTH_PARTS_H
#define MICA_QUANT_SYNTH_PARTS_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "quant/synth.h"

enum { SYNTH_BOS = 256, SYNTH_EOS = 257, SYNTH_FIRST_WORD = 258, SYNTH_N_MERGES = 26 };
enum { SYNTH_ROUTER_BITS = 8, SYNTH_ROUTER_GROUP = 64 };
#define SYNTH_EPS 1e-6

/* A tensor of the model in no file's form yet. */
typedef struct synth_tensor {
    char name[96];      /* "model.layers.0.mlp.up_proj" */
    char gguf_name[64]; /* "blk.0.ffn_up" */
    bool is_vector;
    bool is_router;      /* 8 bits in groups of 64, f32 in GGUF */
    int64_t n_experts;   /* 0: no dimension of experts */
    int64_t n_out, n_in; /* a vector has n_in elements */
    int64_t head_rows;   /* rows of q and k that GGUF stores in pairs; 0: as they are */
    float size;          /* standard deviation of a matrix, centre of a vector */
    float offset;        /* what a folder's vector lacks: 1 where the model adds 1 */
} synth_tensor;

typedef struct synth_model {
    synth_shape shape; /* with the layers that are wanted */
    bool is_gemma;
    synth_tensor *tensors;
    size_t n_tensors, capacity;
} synth_model;

/* mica_free(m->tensors), also after an error. */
mica_status mica_synth_list(synth_model *m, const synth_options *options, mica_error *err);

/* ---- values ---- */
typedef struct synth_matrix {
    mica_rng_key codes, scales;
    int bits;
    int64_t n_in, group;
    float unit; /* a scale is unit times an integer below 64; unit has two significant bits */
} synth_matrix;

synth_matrix mica_synth_matrix(const synth_tensor *t, int bits, int64_t group, uint64_t seed);
/* A row's codes, one byte each: weight = scale * (code - 2^(bits-1)). */
void mica_synth_codes(const synth_matrix *m, int64_t row, uint8_t *out);
/* The integer of group g of a row. */
int mica_synth_scale(const synth_matrix *m, int64_t row, int64_t g);
/* Element i of a vector as a folder stores it: a number that bf16 holds. */
float mica_synth_element(const synth_tensor *t, uint64_t seed, int64_t i);

/* ---- output: many small pieces to one file, with progress over all files ---- */
typedef struct synth_out {
    const synth_options *options;
    mica_writer writer;
    uint8_t *buffer;
    size_t n;
    uint64_t done, total;
} synth_out;

mica_status mica_synth_put(synth_out *out, const void *data, size_t n_bytes, mica_error *err);
mica_status mica_synth_flush(synth_out *out, mica_error *err);
/* Is there room for so many bytes beside `path`? */
mica_status mica_synth_check_room(const char *path, uint64_t n_bytes, mica_error *err);

mica_status mica_synth_write_folder(const synth_model *m, const synth_options *options,
                                    const char *path, mica_error *err);
mica_status mica_synth_write_gguf(const synth_model *m, const synth_options *options,
                                  const char *path, mica_error *err);

/* ---- tokenizer: the 256 bytes, a begin and an end token, then words made of letters ---- */
enum { SYNTH_TOKEN_BYTES = 24 };
/* Token `id` in the byte-level alphabet; gives its length. */
size_t mica_synth_token(int64_t id, char out[SYNTH_TOKEN_BYTES]);
mica_status mica_synth_write_tokenizer(const synth_model *m, const char *folder, mica_error *err);

#endif
