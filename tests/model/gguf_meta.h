/* gguf_meta.h: GGUF metadata made in memory, and what its reader makes of them.
 */
#ifndef MICA_TEST_GGUF_META_H
#define MICA_TEST_GGUF_META_H

#include "cmocka_base.h"

#include "build_gguf.h"

#include <math.h>

#include "model/loaded.h"

enum { HIDDEN = 32, WIDE = 48, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, VOCAB = 40 };

typedef struct meta {
    bytes body;
    uint64_t n;
    const char *arch;
} meta;

static inline void add_key(meta *m, const char *key, gguf_value_type type) {
    char full[128];
    snprintf(full, sizeof(full), "%s.%s", m->arch, key);
    put_key(&m->body, key[0] == '!' ? key + 1 : full, type);
    m->n++;
}
static inline void add_u32(meta *m, const char *key, uint32_t v) {
    add_key(m, key, GGUF_VALUE_U32);
    put_u32(&m->body, v);
}
static inline void add_f32(meta *m, const char *key, float v) {
    add_key(m, key, GGUF_VALUE_F32);
    put_raw(&m->body, &v, 4);
}
static inline void add_text(meta *m, const char *key, const char *v) {
    add_key(m, key, GGUF_VALUE_STRING);
    put_string(&m->body, v);
}
static inline void add_array(meta *m, const char *key, const uint32_t *v, uint64_t n) {
    add_key(m, key, GGUF_VALUE_ARRAY);
    put_u32(&m->body, GGUF_VALUE_U32);
    put_u64(&m->body, n);
    put_raw(&m->body, v, 4 * n);
}
static inline void add_flags(meta *m, const char *key, const uint8_t *v, uint64_t n) {
    add_key(m, key, GGUF_VALUE_ARRAY);
    put_u32(&m->body, GGUF_VALUE_BOOL);
    put_u64(&m->body, n);
    put_raw(&m->body, v, n);
}

/* `arch` with the keys that every file has; a key that starts with '!' gets no prefix. */
static inline meta start(const char *name, uint32_t n_layers) {
    meta m = {.arch = name};
    add_text(&m, "!general.architecture", name);
    add_u32(&m, "block_count", n_layers);
    add_u32(&m, "embedding_length", HIDDEN);
    add_u32(&m, "feed_forward_length", WIDE);
    add_u32(&m, "attention.head_count", HEADS);
    add_u32(&m, "attention.head_count_kv", KV_HEADS);
    add_f32(&m, "attention.layer_norm_rms_epsilon", 1e-5f);
    return m;
}

typedef struct reading {
    bytes file;
    gguf_file *gguf;
    mica_arena arena;
    model_config config;
    config_facts facts;
    mica_error err;
} reading;

static inline mica_status read_meta(reading *r, meta *m) {
    const arch *a = NULL;
    mica_status st;
    *r = (reading){0};
    mica_arena_init(&r->arena, 0);
    put_gguf_head(&r->file, 3, 0, m->n);
    put_raw(&r->file, m->body.data, m->body.n);
    pad_to(&r->file, 32);
    bytes_free(&m->body);
    if (mica_gguf_parse(&r->gguf, r->file.data, r->file.n, "FILE", &r->err))
        fail_msg("%s", r->err.message);
    if ((st = mica_dispatch_gguf(&a, r->gguf, "FILE", &r->err))) return st;
    return mica_config_read_gguf(r->gguf, a, &r->arena, &r->config, &r->facts, &r->err);
}

static inline void done(reading *r) {
    mica_gguf_close(r->gguf);
    mica_arena_deinit(&r->arena);
    bytes_free(&r->file);
}

static inline model_config *read_ok(reading *r, meta *m) {
    if (read_meta(r, m)) fail_msg("%s", r->err.message);
    return &r->config;
}

static inline void expect_bad(meta *m, mica_status status, const char *part) {
    reading r;
    mica_status st = read_meta(&r, m);
    if (st != status || !strstr(r.err.message, part))
        fail_msg("expected '%s', found status %d '%s'", part, (int)st, st ? r.err.message : "");
    done(&r);
}

#endif
