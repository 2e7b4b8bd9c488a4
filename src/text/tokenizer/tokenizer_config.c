/* tokenizer_config.c: added tokens as both files of a folder list them, and the names of the
 * special ones.
 *
 * tokenizer.json is read first and wins; tokens that only the config has are added. An id in
 * conflict with the vocabulary is put right with a warning, never silently.
 */
#include "text/tokenizer/impl.h"

#include <stdlib.h>

/* Makes sure that `content` has an id, preferably `wanted`. */
static mica_status find_id(tokenizer *t, const char *content, size_t n, int64_t wanted,
                           int32_t *out, mica_error *err) {
    mica_status st;
    int32_t known = mica_vocab_find(&t->vocab, content, n);
    if (known >= 0) {
        *out = known;
        if (known == wanted || wanted < 0) return MICA_OK;
        return mica_tokenizer_warn(t, err,
                                   "%s: added token \"%s\" has id %lld, but is %d in the "
                                   "vocabulary, which counts",
                                   t->name, content, (long long)wanted, known);
    }
    int64_t id = wanted;
    if (id < 0 || vocab_has(&t->vocab, id)) {
        id = (int64_t)t->vocab.n_ids;
        st = mica_tokenizer_warn(t, err,
                                 "%s: added token \"%s\" has id %lld, which another token "
                                 "has; it gets %lld",
                                 t->name, content, (long long)wanted, (long long)id);
        if (st) return st;
    }
    *out = (int32_t)id;
    return mica_vocab_add(&t->vocab, (size_t)id, content, n, TOKEN_OUTSIDE, err);
}

mica_status mica_tokenizer_read_added(tokenizer *t, const json_value *entry, int64_t id,
                                      mica_error *err) {
    const json_value *content = mica_json_find(entry, "content");
    if (!content || content->kind != JSON_KIND_STRING) {
        return mica_fail(err, MICA_E_FORMAT, "%s: an added token lacks its \"content\"", t->name);
    }
    if (!content->n) return MICA_OK; /* matches nothing */
    added_token token = {0};
    mica_status st = find_id(t, content->string, content->n, id, &token.id, err);
    if (st) return st;
    token.single_word = mica_json_bool(mica_json_find(entry, "single_word"), false);
    token.lstrip = mica_json_bool(mica_json_find(entry, "lstrip"), false);
    token.rstrip = mica_json_bool(mica_json_find(entry, "rstrip"), false);
    token.special = mica_json_bool(mica_json_find(entry, "special"), false);
    token.normalized = mica_json_bool(mica_json_find(entry, "normalized"), !token.special);
    return mica_tokenizer_add_token(t, token, err);
}

/* "added_tokens_decoder": {"0": {"content": ...}, ...} */
static mica_status read_added_decoder(tokenizer *t, const json_value *config, mica_error *err) {
    const json_value *list = mica_json_find_set(config, "added_tokens_decoder");
    mica_status st = MICA_OK;
    if (!list || list->kind != JSON_KIND_OBJECT) return MICA_OK;
    for (size_t i = 0; i < list->n && !st; i++) {
        const char *key = list->members[i].key;
        char *end;
        long long id = strtoll(key, &end, 10);
        if (*end || end == key) {
            return mica_fail(err, MICA_E_FORMAT,
                             "%s: added_tokens_decoder has the key \"%s\", "
                             "which is no id",
                             t->name, key);
        }
        st = mica_tokenizer_read_added(t, list->members[i].value, id, err);
    }
    return st;
}

/* The id of a token named as a string or as an object with "content"; -1: none or unknown. */
static int32_t named_token(const tokenizer *t, const json_value *config, const char *key) {
    const json_value *v = mica_json_find_set(config, key);
    if (v && v->kind == JSON_KIND_OBJECT) v = mica_json_find_set(v, "content");
    if (!v || v->kind != JSON_KIND_STRING) return -1;
    return mica_vocab_find(&t->vocab, v->string, v->n);
}

mica_status mica_tokenizer_apply_config(tokenizer *t, const json_value *config, mica_error *err) {
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                        "sep_token", "cls_token", "mask_token"};
    mica_status st = read_added_decoder(t, config, err);
    if (st) return st;
    t->bos = named_token(t, config, "bos_token");
    t->eos = named_token(t, config, "eos_token");
    /* What the config names is special, also where tokenizer.json has it as a plain entry. */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !st; i++) {
        added_token token = {.id = named_token(t, config, names[i]), .special = true};
        if (token.id >= 0) st = mica_tokenizer_add_token(t, token, err);
    }
    return st;
}
