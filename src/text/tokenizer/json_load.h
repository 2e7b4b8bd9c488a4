/* json_load.h: what the two readers of tokenizer.json share: one reads the model, which is nearly
 * all of the file, event by event, the other the small parts.
 */
#ifndef MICA_TEXT_TOKENIZER_JSON_LOAD_H
#define MICA_TEXT_TOKENIZER_JSON_LOAD_H

#include "text/tokenizer/impl.h"

typedef struct json_span {
    size_t begin, end; /* end 0: absent */
} json_span;

/* The fields of all models; NULL where the file has none. */
typedef struct json_model {
    const char *type;
    const char *unk_text, *prefix, *suffix;
    int64_t unk_id, max_chars; /* -1: none */
    bool fuse_unk, byte_fallback, ignore_merges;
    bool has_prefix; /* the key was there, if only with null */
    bool has_list;   /* the vocabulary is a list with scores */
} json_model;

typedef struct json_load {
    tokenizer *t;
    const char *data;
    size_t n;
    json_span added, normalizer, pre_tokenizer, post_processor, decoder, vocab, merges;
    const struct token_cache *restored; /* NULL: the tables are read from the file */
    struct cache_record *record;        /* NULL: they are not written down */
    bool has_model, has_vocab, has_merges;
    json_model model;
} json_load;

static inline bool json_is_key(const json_reader *r, const char *key) {
    return r->n_text == strlen(key) && memcmp(r->text, key, r->n_text) == 0;
}

/* Notes where the value after a key is and moves past it. */
static inline mica_status json_skip_span(json_reader *r, json_span *out, mica_error *err) {
    out->begin = r->pos;
    mica_status st = mica_json_skip(r, err);
    out->end = r->pos;
    return st;
}

/* As mica_tokenizer_parse, with tables from a cache or into one; either may be NULL. */
mica_status mica_tokenizer_load_json(tokenizer **out, json_load load, const char *config,
                                     size_t n_config, const char *name, mica_error *err);

/* The object behind "model": vocabulary and fields; merges are noted. */
mica_status mica_json_load_model(json_load *load, json_reader *r, mica_error *err);
/* When the object was read: merges, and which model it is. */
mica_status mica_json_load_finish_model(json_load *load, mica_error *err);

#endif
