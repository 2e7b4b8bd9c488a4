/* json_keys.h: finding two equal keys of an object while its tree is built. */
#ifndef MICA_BASE_JSON_KEYS_H
#define MICA_BASE_JSON_KEYS_H

#include "base/json.h"

/* A child that waits for its container to end; no key in arrays. */
typedef struct json_entry {
    const char *key;
    size_t n_key;
    uint64_t key_off;
    json_value *value;
    bool has_half;
} json_entry;

/* *twin becomes an entry whose key an earlier one has, or NULL. False: out of memory. */
bool mica_json_find_twin(const json_entry *entries, size_t n, const json_entry **twin);

#endif
