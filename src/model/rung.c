/* rung.c: which rung of the dispatch ladder takes a file, and why, without touching a tensor: the
 * configuration is read, and every file of weights is opened and its header checked.
 */
#include "model/config.h"

#include <stdio.h>
#include <string.h>

/* What the tier means, after what the file says. */
static void explain_tier(model_rung *out, const arch *a, const model_config *c) {
    static const char *const words[] = {
        [TIER_DEDICATED] = "a family that mica targets",
        [TIER_SPECIALIZED] = "a family with layers of its own beside the common ones",
        [TIER_GENERIC] = "a row of the table of families, built from common parts"};
    size_t at = strlen(out->why);
    out->tier = mica_dispatch_tier(a, c);
    bool by_shape = mica_dispatch_is_minicpm5(a, c);
    snprintf(out->why + at, sizeof(out->why) - at, ": %s%s",
             by_shape ? "its sizes are those of MiniCPM5, " : "", words[out->tier]);
}

static mica_status of_folder(const char *path, model_rung *out, mica_arena *arena,
                             mica_error *err) {
    hf_folder *folder = NULL;
    model_kind kind;
    const arch *a;
    model_config config;
    config_facts facts;
    mica_status st = mica_folder_open(&folder, path, err);
    if (st) return st;
    const json_value *json = mica_folder_config(folder);
    config_source source = {json, mica_folder_generation_config(folder), path};
    if ((st = mica_dispatch_kind(&kind, json, path, err))) goto out;
    snprintf(out->type, sizeof(out->type), "%s", kind.file_type);
    if ((st = mica_dispatch_folder(&a, &kind, path, err))) goto out;
    snprintf(out->arch, sizeof(out->arch), "%s", a->name);
    if ((st = mica_config_read(&source, &kind, a, arena, &config, &facts, err))) goto out;
    int n = snprintf(out->why, sizeof(out->why), "model_type \"%s\"", kind.file_type);
    if (n > 0 && strcmp(kind.file_type, kind.text_type) != 0)
        n += snprintf(out->why + n, sizeof(out->why) - (size_t)n, ", whose text_config is \"%s\"",
                      kind.text_type);
    if (n > 0 && strcmp(kind.text_type, a->name) != 0)
        snprintf(out->why + n, sizeof(out->why) - (size_t)n, ", another name of \"%s\"", a->name);
    explain_tier(out, a, &config);
    if ((st = mica_folder_open_tensors(folder, err))) goto out;
    out->n_files = mica_folder_n_shards(folder);
    out->n_tensors = mica_folder_n_tensors(folder);
    out->file_bytes = mica_folder_file_bytes(folder);
out:
    mica_folder_close(folder);
    return st;
}

static mica_status of_gguf(const char *path, model_rung *out, mica_arena *arena, mica_error *err) {
    gguf_file *file = NULL;
    const arch *a;
    model_config config;
    config_facts facts;
    mica_status st = mica_dispatch_file(path, err);
    if (st) return st;
    if ((st = mica_gguf_open(&file, path, err))) return st;
    if ((st = mica_dispatch_gguf(&a, file, path, err))) goto out;
    snprintf(out->arch, sizeof(out->arch), "%s", a->name);
    if ((st = mica_config_read_gguf(file, a, arena, &config, &facts, err))) goto out;
    snprintf(out->type, sizeof(out->type), "%s", config.model_type);
    snprintf(out->why, sizeof(out->why), "general.architecture \"%s\"%s%s", config.model_type,
             a->gguf_needs ? ", with " : "", a->gguf_needs ? a->gguf_needs : "");
    explain_tier(out, a, &config);
    out->n_files = 1;
    out->n_tensors = mica_gguf_n_tensors(file);
    out->file_bytes = mica_gguf_map(file)->size;
out:
    mica_gguf_close(file);
    return st;
}

mica_status mica_model_rung(model_rung *out, const char *path, mica_error *err) {
    mica_arena arena;
    mica_arena_init(&arena, 0);
    *out = (model_rung){0};
    mica_status st = mica_path_is_folder(path) ? of_folder(path, out, &arena, err)
                                               : of_gguf(path, out, &arena, err);
    mica_arena_deinit(&arena);
    return st;
}
