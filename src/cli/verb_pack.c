/* verb_pack.c: `mica pack`: the re-ordered weights that starts leave on disk. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "weights/pack.h"

enum { MAX_MODELS = 32 };

typedef struct pack_args {
    const char *action;
    const char *models[MAX_MODELS];
    int n_models;
    bool all, json;
} pack_args;

/* One walk over the folder: which packs are meant, and what became of them. */
typedef struct pack_run {
    const pack_args *args;
    char *paths[MAX_MODELS]; /* of the packs of the models named */
    mica_pool *pool;
    json_writer *json; /* NULL: a table */
    int n_seen, n_bad;
    uint64_t n_bytes;
} pack_run;

static int parse(int argc, char **argv, pack_args *a) {
    const char *words[1 + MAX_MODELS];
    int n_words = 0;
    const arg_spec specs[] = {
        {"all", 0, ARG_FLAG, &a->all, NULL, "remove every pack", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "list: one JSON object", 0, 0},
    };
    const arg_verb verb = {
        .name = "pack",
        .usage = "mica pack list | verify [MODEL ...] | remove MODEL ... | remove --all",
        .about =
            "The first start with a quantized model re-orders its weights and leaves them in the "
            "cache\n"
            "folder, so that later starts only map them. list shows these packs, verify holds "
            "each\n"
            "byte against its checksum, remove deletes; without MODEL remove takes what is no\n"
            "longer of use. They can be removed at any time; --no-pack leaves none.",
        .examples = "  mica pack list\n"
                    "  mica pack verify\n"
                    "  mica pack remove smollm2\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 1,
        .max_words = 1 + MAX_MODELS,
    };
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    a->action = words[0];
    a->n_models = n_words - 1;
    for (int i = 0; i < a->n_models; i++)
        a->models[i] = words[i + 1];
    bool list = !strcmp(a->action, "list"), remove = !strcmp(a->action, "remove");
    if (!list && !remove && strcmp(a->action, "verify")) {
        fprintf(stderr, "mica pack: '%s': must be list, verify or remove\n", a->action);
        return EXIT_USAGE;
    }
    if ((list && a->n_models) || (a->json && !list) || (a->all && (!remove || a->n_models))) {
        fprintf(stderr, "mica pack: these do not go together (mica pack --help says what does)\n");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static bool is_meant(const pack_run *run, const pack_info *info) {
    if (!run->args->n_models) return true;
    for (int i = 0; i < run->args->n_models; i++)
        if (!strncmp(info->path, run->paths[i], strlen(run->paths[i]))) return true;
    return false;
}

static mica_status list_one(void *user, const pack_info *info, mica_error *err) {
    pack_run *run = user;
    (void)err;
    run->n_seen++;
    run->n_bytes += info->n_bytes;
    if (!run->json) {
        printf("%10.1f MB  %-8s %s\n", (double)info->n_bytes / 1e6,
               mica_pack_state_name(info->state), *info->source ? info->source : info->path);
        return MICA_OK;
    }
    mica_json_begin_object(run->json);
    mica_json_member_cstring(run->json, "model", info->source);
    mica_json_member_cstring(run->json, "path", info->path);
    mica_json_member_cstring(run->json, "state", mica_pack_state_name(info->state));
    mica_json_key(run->json, "bytes");
    mica_json_put_u64(run->json, info->n_bytes);
    mica_json_end_object(run->json);
    return MICA_OK;
}

static mica_status verify_one(void *user, const pack_info *info, mica_error *err) {
    pack_run *run = user;
    (void)err;
    if (!is_meant(run, info)) return MICA_OK;
    mica_error found;
    run->n_seen++;
    if (info->state == PACK_PARTIAL) return MICA_OK;
    if (!mica_pack_verify(info->path, run->pool, &found)) {
        printf("good: %s\n", info->source);
    } else {
        run->n_bad++;
        fprintf(stderr, "mica: %s\n", found.message);
    }
    return MICA_OK;
}

/* Without a name only what no start would use. */
static mica_status remove_one(void *user, const pack_info *info, mica_error *err) {
    pack_run *run = user;
    bool useless = info->state == PACK_STALE || info->state == PACK_DAMAGED;
    if (!is_meant(run, info)) return MICA_OK;
    if (!run->args->n_models && !run->args->all && !useless) return MICA_OK;
    if (unlink(info->path))
        return mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be removed", info->path);
    run->n_seen++;
    run->n_bytes += info->n_bytes;
    return MICA_OK;
}

static mica_status list_all(pack_run *run, const char *folder, mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_key(&w, "packs");
    mica_json_begin_array(&w);
    run->json = run->args->json ? &w : NULL;
    mica_status st = mica_pack_each(folder, list_one, run, err);
    mica_json_end_array(&w);
    mica_json_end_object(&w);
    if (!st && run->json && !w.failed) printf("%s\n", w.data);
    if (!st && !run->json)
        printf("%d pack%s, %.1f MB in %s\n", run->n_seen, run->n_seen == 1 ? "" : "s",
               (double)run->n_bytes / 1e6, folder);
    mica_json_writer_deinit(&w);
    return st;
}

static mica_status find_paths(pack_run *run, const char *folder, mica_error *err) {
    mica_status st = MICA_OK;
    for (int i = 0; !st && i < run->args->n_models; i++) {
        char *path = NULL;
        st = mica_cli_find_model(&path, run->args->models[i], err);
        if (!st) run->paths[i] = mica_pack_path(folder, path);
        if (!st && !run->paths[i]) st = mica_fail(err, MICA_E_NOMEM, "out of memory");
        mica_free(path);
    }
    return st;
}

static mica_status act(pack_run *run, const char *folder, mica_error *err) {
    if (!strcmp(run->args->action, "list")) return list_all(run, folder, err);
    mica_status st = find_paths(run, folder, err);
    if (st) return st;
    if (!strcmp(run->args->action, "remove")) {
        st = mica_pack_each(folder, remove_one, run, err);
        if (!st)
            printf("removed %d pack%s, %.1f MB\n", run->n_seen, run->n_seen == 1 ? "" : "s",
                   (double)run->n_bytes / 1e6);
        return st;
    }
    st = mica_pool_new(&run->pool, 0, err);
    if (!st) st = mica_pack_each(folder, verify_one, run, err);
    if (!st && run->n_bad)
        st = mica_fail(err, MICA_E_FORMAT,
                       "%d of %d packs are damaged: mica pack remove deletes them", run->n_bad,
                       run->n_seen);
    mica_pool_free(run->pool);
    return st;
}

int mica_verb_pack(int argc, char **argv) {
    pack_args args = {0};
    int rc = parse(argc, argv, &args);
    if (rc) return rc;
    pack_run run = {.args = &args};
    mica_error err;
    char *folder = mica_cli_pack_folder(false);
    mica_status st =
        folder ? act(&run, folder, &err)
               : mica_fail(&err, MICA_E_NOT_FOUND, "neither XDG_CACHE_HOME nor HOME is set");
    for (int i = 0; i < args.n_models; i++)
        mica_free(run.paths[i]);
    mica_free(folder);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
