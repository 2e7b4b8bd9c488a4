/* token_cache.h: compiled copies of large tokenizer.json files in the user's cache folder.
 *
 * A copy holds what takes the time: the vocabulary with its hash, the merges with theirs, scores
 * and trie as they lie in memory, and the file's small parts as text, which are parsed anew each
 * time. It counts only for the very file it was made of (size, time of change, hash of its ends)
 * and with a matching checksum; anything else is as good as no copy. Nothing here ever fails a
 * load.
 */
#ifndef MICA_TEXT_TOKENIZER_TOKEN_CACHE_H
#define MICA_TEXT_TOKENIZER_TOKEN_CACHE_H

#include "base/file.h"
#include "text/tokenizer/json_load.h"

typedef struct cache_stamp {
    uint64_t size, mtime_ns, hash; /* of the source */
} cache_stamp;

typedef struct cache_counts {
    uint64_t n_small; /* bytes of the small parts */
    uint64_t n_blob, n_ids, n_slots, n_used, longest;
    uint64_t n_merges, n_scores;
    uint64_t n_merge_slots, n_trie_slots, n_trie_nodes;
} cache_counts;

/* A copy on its way to disk. */
typedef struct cache_record {
    text_buffer data; /* header and sections */
    cache_counts counts;
    bool has_failed;
} cache_record;

/* A copy that fits its source. */
typedef struct token_cache {
    char *data; /* the file */
    cache_counts counts;
    const char *small;
    const uint8_t *sections;
} token_cache;

cache_stamp mica_cache_stamp(const mica_map *source);
/* The path of the copy of a source, the caller's; NULL: no cache folder, or a small source. */
char *mica_cache_path(const mica_map *source);

/* NULL: there is no copy that fits. */
token_cache *mica_token_cache_open(const char *path, cache_stamp stamp);
void mica_token_cache_close(token_cache *c); /* NULL is fine */
/* The model's tables into an empty tokenizer. */
mica_status mica_token_cache_restore(const token_cache *c, tokenizer *t, mica_error *err);

/* Notes the tables: first those of the model as the file has them, at the end their indices. */
void mica_token_cache_record_model(cache_record *r, const json_load *load);
void mica_token_cache_record_indices(cache_record *r, const tokenizer *t);
void mica_token_cache_write(cache_record *r, const char *path, cache_stamp stamp);
void mica_token_cache_record_deinit(cache_record *r);

#endif
