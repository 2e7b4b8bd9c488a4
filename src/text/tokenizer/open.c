/* open.c: from a path to a tokenizer.
 *
 * In a folder tokenizer.json comes first, then the other kinds (open_older.c), then a single GGUF
 * file.
 */
#include "text/tokenizer/token_cache.h"

#define MAX_CONFIG_BYTES (64u << 20)

/* The path of a file in `folder`, the caller's; NULL if there is none of this name. */
static mica_status find_file(const char *folder, const char *name, char **path, mica_error *err) {
    *path = mica_path_join(folder, name);
    if (!*path) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", folder);
    if (mica_path_exists(*path)) return MICA_OK;
    mica_free(*path);
    *path = NULL;
    return MICA_OK;
}

/* Gemma without its bos is garbage, and the newer tokenizer.json does not add it. */
static mica_status prepend_gemma_bos(tokenizer *t, const char *folder, mica_error *err) {
    char *path = NULL;
    if (t->bos < 0 || t->prefix.n) return MICA_OK;
    mica_status st = find_file(folder, "config.json", &path, err);
    if (st || !path) return st;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *config = NULL;
    st = mica_json_parse_file(&config, path, MAX_CONFIG_BYTES, true, &arena, err);
    const char *type = mica_json_string(mica_json_find(config, "model_type"), "");
    if (!st && strncmp(type, "gemma", 5) == 0) st = mica_token_list_push(&t->prefix, t->bos, err);
    mica_arena_deinit(&arena);
    mica_free(path);
    return st;
}

/* From the compiled copy; NULL if there is none that fits and loads. */
static tokenizer *open_cached(const char *cache_path, cache_stamp stamp, const char *config,
                              size_t n_config, const char *path) {
    tokenizer *t = NULL;
    token_cache *cache = mica_token_cache_open(cache_path, stamp);
    if (!cache) return NULL;
    json_load load = {.data = cache->small, .n = cache->counts.n_small, .restored = cache};
    if (mica_tokenizer_load_json(&t, load, config, n_config, path, NULL)) t = NULL;
    mica_token_cache_close(cache);
    return t;
}

/* From the file itself, leaving a compiled copy at cache_path if that is not NULL. */
static mica_status open_and_record(tokenizer **out, const mica_map *map, const char *cache_path,
                                   const char *config, size_t n_config, mica_error *err) {
    cache_record record = {0};
    json_load load = {.data = (const char *)map->data, .n = map->size};
    if (cache_path) load.record = &record;
    mica_status st = mica_tokenizer_load_json(out, load, config, n_config, map->path, err);
    if (!st && cache_path) mica_token_cache_write(&record, cache_path, mica_cache_stamp(map));
    mica_token_cache_record_deinit(&record);
    return st;
}

static mica_status parse_mapped(tokenizer **out, const mica_map *map, const char *config,
                                size_t n_config, bool is_cached, mica_error *err) {
    char *cache_path = is_cached ? mica_cache_path(map) : NULL;
    mica_status st = MICA_OK;
    *out = NULL;
    if (cache_path) {
        *out = open_cached(cache_path, mica_cache_stamp(map), config, n_config, map->path);
    }
    if (!*out) st = open_and_record(out, map, cache_path, config, n_config, err);
    mica_free(cache_path);
    return st;
}

static mica_status open_json(tokenizer **out, const char *folder, const char *path, bool is_cached,
                             mica_error *err) {
    tokenizer *t = NULL;
    char *config_path, *config = NULL;
    size_t n_config = 0;
    mica_map *map = NULL;
    mica_status st = find_file(folder, "tokenizer_config.json", &config_path, err);
    if (!st && config_path) {
        st = mica_file_read(&config, &n_config, config_path, MAX_CONFIG_BYTES, err);
    }
    mica_free(config_path);
    if (!st) st = mica_map_open(&map, path, err);
    if (!st) st = parse_mapped(&t, map, config, n_config, is_cached, err);
    mica_map_unref(map);
    mica_free(config);
    if (!st) st = prepend_gemma_bos(t, folder, err);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}

static mica_status open_file(tokenizer **out, const char *path, mica_error *err) {
    gguf_file *file = NULL;
    mica_status st = mica_gguf_open(&file, path, err);
    if (!st) st = mica_tokenizer_open_gguf(out, file, err);
    mica_gguf_close(file);
    return st;
}

static mica_status refuse(const char *folder, size_t n_ggufs, mica_error *err) {
    if (n_ggufs > 1) {
        return mica_fail(err, MICA_E_INVALID,
                         "%s: no other tokenizer and %zu GGUF files: name one of them", folder,
                         n_ggufs);
    }
    return mica_fail(err, MICA_E_NOT_FOUND,
                     "%s: no tokenizer in this folder; expected is tokenizer.json, tokenizer.model, "
                     "tiktoken.model, tekken.json, vocab.json with merges.txt, vocab.txt, one "
                     "*.tiktoken or one .gguf",
                     folder);
}

static mica_status open_folder(tokenizer **out, const char *path, bool is_cached, mica_error *err) {
    char *file, **names = NULL;
    size_t n = 0;
    mica_status st = find_file(path, "tokenizer.json", &file, err);
    if (st) return st;
    if (file) {
        st = open_json(out, path, file, is_cached, err);
        mica_free(file);
        return st;
    }
    tokenizer *older = NULL;
    if ((st = mica_tokenizer_open_older(&older, path, err))) return st;
    if (older) {
        *out = older;
        return MICA_OK;
    }
    if ((st = mica_folder_list(&names, &n, path, "", ".gguf", err))) return st;
    if (n == 1) st = find_file(path, names[0], &file, err);
    if (!st) st = file ? open_file(out, file, err) : refuse(path, n, err);
    mica_free(file);
    mica_names_free(names, n);
    return st;
}

mica_status mica_tokenizer_open_folder(tokenizer **out, const char *path, mica_error *err) {
    return open_folder(out, path, true, err);
}

mica_status mica_tokenizer_open(tokenizer **out, const char *path, mica_error *err) {
    if (mica_path_is_folder(path)) return open_folder(out, path, true, err);
    return open_file(out, path, err);
}

mica_status mica_tokenizer_open_source(tokenizer **out, const char *path, mica_error *err) {
    if (mica_path_is_folder(path)) return open_folder(out, path, false, err);
    return open_file(out, path, err);
}
