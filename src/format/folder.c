/* folder.c: a model folder: config.json, generation_config.json and the safetensors shards.
 *
 * With model.safetensors.index.json the index decides which tensor comes from which shard; without
 * it every model*.safetensors is read, and files numbered "-00001-of-00003" must all be there. The
 * result is one list of tensors with one table of names.
 */
#include "format/folder.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/name_index.h"
#include "format/safetensors.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define MAX_INDEX_BYTES ((size_t)128 << 20)
#define INDEX_NAME "model.safetensors.index.json"

struct hf_folder {
    char *path;
    mica_arena arena; /* the configs */
    json_value *config;
    json_value *generation_config, *quant_config;
    safetensors_file **shards;
    size_t n_shards, shard_capacity;
    const file_tensor **tensors;
    size_t n_tensors, tensor_capacity;
    name_index names;
    size_t n_unindexed;
};

/* The index while the shards are opened: which shard each name must come from. */
typedef struct shard_plan {
    const json_value *map;   /* weight_map: members are name -> file name */
    name_index names;        /* tensor name -> member */
    name_index files;        /* file name -> shard */
    size_t *shard_of;        /* [members] */
    bool *found;             /* [members] */
    const char **file_names; /* [shards] */
} shard_plan;

static mica_status no_memory(const hf_folder *folder, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", folder->path);
}

static mica_status read_json(const hf_folder *folder, const char *name, size_t max_bytes,
                             mica_arena *arena, json_value **out, mica_error *err) {
    char *path = mica_path_join(folder->path, name);
    if (!path) return no_memory(folder, err);
    mica_status st = mica_json_parse_file(out, path, max_bytes, true, arena, err);
    if (!st && (*out)->kind != JSON_KIND_OBJECT)
        st = mica_fail(err, MICA_E_FORMAT, "%s: the document must be an object", path);
    mica_free(path);
    return st;
}

static bool has_file(const hf_folder *folder, const char *name, bool *out) {
    char *path = mica_path_join(folder->path, name);
    if (!path) return false;
    *out = mica_path_exists(path);
    mica_free(path);
    return true;
}

static mica_status read_config(hf_folder *folder, mica_error *err) {
    bool exists = false;
    if (!mica_path_is_folder(folder->path))
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: there is no such folder", folder->path);
    if (!has_file(folder, "config.json", &exists)) return no_memory(folder, err);
    if (!exists)
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: no config.json: not a model folder",
                         folder->path);
    return read_json(folder, "config.json", MAX_CONFIG_BYTES, &folder->arena, &folder->config, err);
}

/* A file that need not be there. */
static mica_status read_optional(hf_folder *folder, const char *name, json_value **out,
                                 mica_error *err) {
    bool exists = false;
    if (!has_file(folder, name, &exists)) return no_memory(folder, err);
    if (!exists) return MICA_OK;
    return read_json(folder, name, MAX_CONFIG_BYTES, &folder->arena, out, err);
}

/* Defaults for sampling only: of what may be wrong here just a lack of memory is an error. */
static mica_status read_generation_config(hf_folder *folder, mica_error *err) {
    mica_status st =
        read_optional(folder, "generation_config.json", &folder->generation_config, err);
    if (!st || st == MICA_E_NOMEM) return st;
    mica_error_clear(err);
    return MICA_OK;
}

mica_status mica_folder_open(hf_folder **out, const char *path, mica_error *err) {
    mica_status st = MICA_OK;
    hf_folder *folder = mica_calloc(1, sizeof(*folder));
    if (!folder) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    mica_arena_init(&folder->arena, 0);
    if (!(folder->path = mica_strdup(path))) {
        st = mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    if ((st = read_config(folder, err))) goto out;
    if ((st = read_generation_config(folder, err))) goto out;
    st = read_optional(folder, "hf_quant_config.json", &folder->quant_config, err);
    if (st) goto out;
    *out = folder;
    folder = NULL;
out:
    mica_folder_close(folder);
    return st;
}

static void close_tensors(hf_folder *folder) {
    for (size_t i = 0; i < folder->n_shards; i++)
        mica_safetensors_close(folder->shards[i]);
    mica_free(folder->shards);
    mica_free(folder->tensors);
    mica_name_index_deinit(&folder->names);
    folder->shards = NULL;
    folder->tensors = NULL;
    folder->n_shards = folder->shard_capacity = 0;
    folder->n_tensors = folder->tensor_capacity = 0;
    folder->n_unindexed = 0;
}

void mica_folder_close(hf_folder *folder) {
    if (!folder) return;
    close_tensors(folder);
    mica_arena_deinit(&folder->arena);
    mica_free(folder->path);
    mica_free(folder);
}

/* Room for one more element of `size` bytes. The array moves; NULL leaves it as it was. */
static void *grow(void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return array;
    size_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = mica_realloc(array, wanted * size);
    if (grown) *capacity = wanted;
    return grown;
}

static mica_status open_shard(hf_folder *folder, const char *file_name, mica_error *err) {
    char *path = mica_path_join(folder->path, file_name);
    void *shards =
        grow(folder->shards, folder->n_shards, &folder->shard_capacity, sizeof(*folder->shards));
    if (shards) folder->shards = shards;
    mica_status st = MICA_OK;
    if (path && shards) {
        st = mica_safetensors_open(&folder->shards[folder->n_shards], path, err);
        if (!st) folder->n_shards++;
    } else {
        st = no_memory(folder, err);
    }
    mica_free(path);
    return st;
}

static mica_status add_tensor(hf_folder *folder, const file_tensor *t, const char *file_name,
                              mica_error *err) {
    bool was_there = false;
    mica_status st = mica_name_index_add(&folder->names, t->name, strlen(t->name),
                                         folder->n_tensors, &was_there, err);
    if (st) return st;
    if (was_there)
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: tensor '%.80s' of %.80s is in an earlier shard as well; remove the "
                         "files that do not belong to the model",
                         folder->path, t->name, file_name);
    void *tensors = grow(folder->tensors, folder->n_tensors, &folder->tensor_capacity,
                         sizeof(*folder->tensors));
    if (!tensors) return no_memory(folder, err);
    folder->tensors = tensors;
    folder->tensors[folder->n_tensors++] = t;
    return MICA_OK;
}

/* "model-00002-of-00003.safetensors": 2 and 3; other names belong to no numbered set. */
static bool shard_number(const char *name, int *i, int *n, int *n_prefix) {
    const char *dash = strstr(name, "-of-");
    int end = 0;
    if (!dash || dash - name < 6 || dash[-6] != '-') return false;
    *n_prefix = (int)(dash - name) - 5;
    return sscanf(dash - 5, "%5d-of-%5d.safetensors%n", i, n, &end) == 2 && end && !dash[end - 5];
}

static bool has_name(char *const *files, size_t n_files, const char *name) {
    for (size_t i = 0; i < n_files; i++)
        if (!strcmp(files[i], name)) return true;
    return false;
}

/* Numbered files say how many they are: each needs the one before it and the one after it. */
static mica_status check_numbers(const hf_folder *folder, char *const *files, size_t n_files,
                                 mica_error *err) {
    for (size_t f = 0; f < n_files; f++) {
        int i, n, n_prefix;
        if (!shard_number(files[f], &i, &n, &n_prefix)) continue;
        for (int other = i - 1; other <= i + 1; other++) {
            char name[300];
            if (other < 1 || other > n) continue;
            snprintf(name, sizeof(name), "%.*s%05d-of-%05d.safetensors", n_prefix, files[f], other,
                     n);
            if (has_name(files, n_files, name)) continue;
            return mica_fail(err, MICA_E_NOT_FOUND,
                             "%s: the file %.80s, which belongs to %.80s by its name, is missing; "
                             "fetch the model again",
                             folder->path, name, files[f]);
        }
    }
    return MICA_OK;
}

static mica_status open_without_index(hf_folder *folder, mica_error *err) {
    char **files = NULL;
    size_t n_files = 0;
    mica_status st = mica_folder_list(&files, &n_files, folder->path, "model", ".safetensors", err);
    if (!st && !n_files)
        st = mica_fail(err, MICA_E_NOT_FOUND, "no safetensors found in %s", folder->path);
    if (!st) st = check_numbers(folder, files, n_files, err);
    for (size_t s = 0; s < n_files && !st; s++) {
        if ((st = open_shard(folder, files[s], err))) break;
        const safetensors_file *shard = folder->shards[s];
        for (size_t i = 0; i < mica_safetensors_count(shard) && !st; i++)
            st = add_tensor(folder, mica_safetensors_at(shard, i), files[s], err);
    }
    mica_names_free(files, n_files);
    return st;
}

/* A shard must be a plain file name: an index reaches nothing outside its folder. */
static mica_status check_file_name(const hf_folder *folder, const json_member *m, mica_error *err) {
    const json_value *v = m->value;
    bool good = v->kind == JSON_KIND_STRING && v->n && strlen(v->string) == v->n &&
                !strchr(v->string, '/') && strcmp(v->string, "..") != 0 &&
                strcmp(v->string, ".") != 0;
    if (good) return MICA_OK;
    return mica_fail(err, MICA_E_FORMAT, "%s/" INDEX_NAME ": '%.80s' has no plain file name",
                     folder->path, m->key);
}

/* Numbers the files in the order in which the index names them first. */
static mica_status plan_shards(const hf_folder *folder, shard_plan *plan, mica_error *err) {
    size_t n = plan->map->n, n_files = 0;
    plan->shard_of = mica_calloc(n, sizeof(*plan->shard_of));
    plan->found = mica_calloc(n, sizeof(*plan->found));
    plan->file_names = mica_calloc(n, sizeof(*plan->file_names));
    if (!plan->shard_of || !plan->found || !plan->file_names) return no_memory(folder, err);
    for (size_t i = 0; i < n; i++) {
        const json_member *m = &plan->map->members[i];
        bool was_there = false;
        mica_status st = check_file_name(folder, m, err);
        if (!st) st = mica_name_index_add(&plan->names, m->key, m->n_key, i, &was_there, err);
        if (st) return st;
        const char *file = m->value->string;
        st = mica_name_index_add(&plan->files, file, m->value->n, n_files, &was_there, err);
        if (st) return st;
        if (!was_there) plan->file_names[n_files++] = file;
        plan->shard_of[i] = mica_name_index_find(&plan->files, file, m->value->n);
    }
    return MICA_OK;
}

static mica_status open_planned_shard(hf_folder *folder, const shard_plan *plan, size_t s,
                                      mica_error *err) {
    mica_status st = open_shard(folder, plan->file_names[s], err);
    if (st) return st;
    const safetensors_file *shard = folder->shards[s];
    for (size_t i = 0; i < mica_safetensors_count(shard) && !st; i++) {
        const file_tensor *t = mica_safetensors_at(shard, i);
        size_t member = mica_name_index_find(&plan->names, t->name, strlen(t->name));
        if (member == MICA_NAME_ABSENT || plan->shard_of[member] != s) {
            folder->n_unindexed++;
            continue;
        }
        plan->found[member] = true;
        st = add_tensor(folder, t, plan->file_names[s], err);
    }
    return st;
}

/* All files are looked for before one is opened, so that the message is about what is missing. */
static mica_status check_shards_exist(const hf_folder *folder, const shard_plan *plan,
                                      mica_error *err) {
    for (size_t s = 0; s < plan->files.n_used; s++) {
        bool exists = false;
        if (!has_file(folder, plan->file_names[s], &exists)) return no_memory(folder, err);
        if (exists) continue;
        size_t i = 0;
        while (plan->shard_of[i] != s)
            i++;
        return mica_fail(err, MICA_E_NOT_FOUND,
                         "%s: the file %.80s, in which the index puts tensor '%.80s', is missing; "
                         "fetch the model again",
                         folder->path, plan->file_names[s], plan->map->members[i].key);
    }
    return MICA_OK;
}

static mica_status open_planned(hf_folder *folder, shard_plan *plan, mica_error *err) {
    mica_status st = plan_shards(folder, plan, err);
    if (!st) st = check_shards_exist(folder, plan, err);
    for (size_t s = 0; s < plan->files.n_used && !st; s++)
        st = open_planned_shard(folder, plan, s, err);
    for (size_t i = 0; i < plan->map->n && !st; i++)
        if (!plan->found[i])
            st = mica_fail(err, MICA_E_FORMAT,
                           "%s: tensor '%.80s' is not in %.80s, where the index "
                           "puts it",
                           folder->path, plan->map->members[i].key,
                           plan->file_names[plan->shard_of[i]]);
    return st;
}

static mica_status open_with_index(hf_folder *folder, mica_error *err) {
    mica_arena arena;
    json_value *index = NULL;
    shard_plan plan = {0};
    mica_arena_init(&arena, 0);
    mica_status st = read_json(folder, INDEX_NAME, MAX_INDEX_BYTES, &arena, &index, err);
    if (!st) {
        plan.map = mica_json_find(index, "weight_map");
        if (plan.map && plan.map->kind == JSON_KIND_OBJECT && plan.map->n)
            st = open_planned(folder, &plan, err);
        else
            st = mica_fail(err, MICA_E_FORMAT,
                           "%s/" INDEX_NAME ": weight_map must be an object "
                           "with entries",
                           folder->path);
    }
    mica_name_index_deinit(&plan.names);
    mica_name_index_deinit(&plan.files);
    mica_free(plan.shard_of);
    mica_free(plan.found);
    mica_free(plan.file_names);
    mica_arena_deinit(&arena);
    return st;
}

mica_status mica_folder_open_tensors(hf_folder *folder, mica_error *err) {
    bool indexed = false;
    if (folder->n_shards)
        return mica_fail(err, MICA_E_STATE, "%s: the tensors are open already", folder->path);
    if (!has_file(folder, INDEX_NAME, &indexed)) return no_memory(folder, err);
    mica_status st = indexed ? open_with_index(folder, err) : open_without_index(folder, err);
    if (st) close_tensors(folder);
    return st;
}

const char *mica_folder_path(const hf_folder *folder) { return folder->path; }
const json_value *mica_folder_config(const hf_folder *folder) { return folder->config; }
const json_value *mica_folder_generation_config(const hf_folder *folder) {
    return folder->generation_config;
}
const json_value *mica_folder_quant_config(const hf_folder *folder) { return folder->quant_config; }
size_t mica_folder_n_tensors(const hf_folder *folder) { return folder->n_tensors; }
const file_tensor *mica_folder_tensor(const hf_folder *folder, size_t i) {
    return folder->tensors[i];
}

const file_tensor *mica_folder_find_tensor(const hf_folder *folder, const char *name) {
    size_t i = mica_name_index_find(&folder->names, name, strlen(name));
    return i == MICA_NAME_ABSENT ? NULL : folder->tensors[i];
}

size_t mica_folder_n_unindexed(const hf_folder *folder) { return folder->n_unindexed; }

size_t mica_folder_n_shards(const hf_folder *folder) { return folder->n_shards; }

uint64_t mica_folder_file_bytes(const hf_folder *folder) {
    uint64_t sum = 0;
    for (size_t i = 0; i < folder->n_shards; i++)
        sum += mica_safetensors_bytes(folder->shards[i]);
    return sum;
}
