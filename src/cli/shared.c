/* shared.c: what the verbs share (cli.h). The only place that handles signals and looks for models.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"

/* ---- options of computing verbs ---- */

void mica_compute_specs(arg_spec *specs, compute_options *o) {
    const arg_spec table[N_COMPUTE_SPECS] = {
        {"exact", 0, ARG_FLAG, &o->exact, NULL, "the reference arithmetic instead of the fast one",
         0, 0},
        {"dtype", 0, ARG_STRING, &o->dtype, "T", "activation dtype f32, bf16 or f16 (with --exact)",
         0, 0},
        {"threads", 0, ARG_INT, &o->threads, "N", "threads (default: the cores at hand)", 1, 256},
        {"ctx", 0, ARG_INT, &o->context, "N", "context window in tokens (default: the model's)", 1,
         1e9},
        {"lever", 0, ARG_LIST, &o->levers, "NAME=on|off", "switch one fast-profile lever", 0, 0},
        {"no-pack", 0, ARG_FLAG, &o->no_pack, NULL,
         "neither use nor leave re-ordered weights on disk (mica pack --help)", 0, 0},
    };
    memcpy(specs, table, sizeof(table));
}

int mica_compute_to_engine(const compute_options *o, engine_options *out) {
    memset(out, 0, sizeof(*out));
    out->exact = o->exact;
    out->n_threads = (int)o->threads;
    out->max_context = o->context;
    out->levers = o->levers.items;
    out->n_levers = o->levers.n;
    out->pack_folder = o->no_pack ? NULL : ""; /* mica_cli_open_engine finds it */
    for (int i = 0; i < o->levers.n; i++) {
        lever_set unused = {0};
        mica_error err;
        if (!mica_lever_switch(&unused, o->levers.items[i], &err)) continue;
        fprintf(stderr, "mica: --lever: %s\n", err.message);
        return EXIT_USAGE;
    }
    if (!o->dtype) return EXIT_OK;
    static const struct {
        const char *name;
        mica_dtype dtype;
    } names[] = {{"f32", MICA_F32}, {"bf16", MICA_BF16}, {"f16", MICA_F16}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(o->dtype, names[i].name)) continue;
        out->has_dtype = true;
        out->dtype = names[i].dtype;
    }
    if (!out->has_dtype) {
        fprintf(stderr, "mica: --dtype '%s': must be f32, bf16 or f16\n", o->dtype);
        return EXIT_USAGE;
    }
    if (!o->exact) {
        fprintf(stderr, "mica: --dtype goes with --exact only; the fast profile computes in f32\n");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* ---- models ---- */

/* The folder where fetched models lie; NULL with *st set when memory or HOME is missing. */
static char *models_folder(mica_error *err, mica_status *st) {
    const char *home = getenv("MICA_HOME"), *xdg = getenv("XDG_DATA_HOME"), *user = getenv("HOME");
    char *folder = NULL;
    if (home && *home) {
        folder = mica_asprintf("%s/models", home);
    } else if (xdg && *xdg) {
        folder = mica_asprintf("%s/mica/models", xdg);
    } else if (user && *user) {
        folder = mica_asprintf("%s/.local/share/mica/models", user);
    } else {
        *st = mica_fail(err, MICA_E_NOT_FOUND, "none of MICA_HOME, XDG_DATA_HOME and HOME is set");
        return NULL;
    }
    if (!folder) *st = mica_fail(err, MICA_E_NOMEM, "out of memory");
    return folder;
}

mica_status mica_cli_find_model(char **out, const char *model_name, mica_error *err) {
    if (mica_path_exists(model_name)) {
        *out = mica_strdup(model_name);
        return *out ? MICA_OK : mica_fail(err, MICA_E_NOMEM, "out of memory");
    }
    if (!*model_name) return mica_fail(err, MICA_E_NOT_FOUND, "the name of the model is empty");
    if (strchr(model_name, '/'))
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: no such file or folder", model_name);
    mica_status st = MICA_OK;
    char *folder = models_folder(err, &st);
    if (!folder) return st;
    char *path = mica_asprintf("%s/%s.gguf", folder, model_name);
    if (path && !mica_path_exists(path)) { /* some are folders */
        mica_free(path);
        path = mica_path_join(folder, model_name);
    }
    if (!path) {
        st = mica_fail(err, MICA_E_NOMEM, "out of memory");
    } else if (!mica_path_exists(path)) {
        st = mica_fail(err, MICA_E_NOT_FOUND,
                       "%s: no such file or folder, and no fetched model of that name in %s "
                       "(tools/fetch-model --help lists what can be fetched)",
                       model_name, folder);
    } else {
        *out = path;
        path = NULL;
    }
    mica_free(path);
    mica_free(folder);
    return st;
}

/* base/name, made if it is not there; frees `base`. */
static char *subfolder(char *base, const char *name, bool make) {
    char *path = base ? mica_path_join(base, name) : NULL;
    if (path && make) (void)mkdir(path, 0700); /* failing shows when something is put there */
    mica_free(base);
    return path;
}

char *mica_cli_pack_folder(bool make) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *base = NULL;
    if (cache && cache[0] == '/') {
        base = mica_strdup(cache);
        if (base && make) (void)mkdir(base, 0700);
    } else if (home && home[0] == '/') {
        base = subfolder(mica_strdup(home), ".cache", make);
    }
    return subfolder(subfolder(base, "mica", make), "packs", make);
}

typedef struct load_state {
    cli_progress progress;
    char warnings[4][256]; /* shown once the model is there: a failure has one line of its own */
    int n_warnings;
} load_state;

static void load_progress(void *user, uint64_t done, uint64_t total) {
    mica_progress_step(&((load_state *)user)->progress, done, total);
}

static void load_warning(void *user, const char *message) {
    load_state *state = user;
    if (state->n_warnings == (int)(sizeof(state->warnings) / sizeof(state->warnings[0]))) return;
    snprintf(state->warnings[state->n_warnings++], sizeof(state->warnings[0]), "%s", message);
}

mica_status mica_cli_open_engine(engine **out, char **path, const char *model_name,
                                 engine_options *options, mica_error *err) {
    mica_status st = mica_cli_find_model(path, model_name, err);
    if (st) return st;
    load_state state = {0};
    mica_progress_begin(&state.progress, "loading");
    options->model = (model_options){load_progress, load_warning, &state, false};
    char *folder = options->pack_folder ? mica_cli_pack_folder(true) : NULL;
    options->pack_folder = folder;
    st = mica_engine_open(out, *path, options, err);
    options->pack_folder = NULL;
    mica_free(folder);
    mica_progress_end(&state.progress);
    for (int i = 0; !st && i < state.n_warnings; i++)
        fprintf(stderr, "mica: warning: %s\n", state.warnings[i]);
    return st;
}

int mica_cli_parse_ids(const char *verb, const char *option, const char *text, token_list *out) {
    const char *p = text;
    while (*p) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        mica_error err;
        if (end == p || errno || v < 0 || v > INT32_MAX) {
            fprintf(stderr, "mica %s: --%s: not a list of token ids such as 1,2,3: '%.40s'\n", verb,
                    option, p);
            return EXIT_USAGE;
        }
        if (mica_token_list_push(out, (int32_t)v, &err)) return mica_cli_fail(&err);
        p = end + strspn(end, " \t\n");
        if (*p == ',') {
            p++;
        } else if (*p) {
            fprintf(stderr, "mica %s: --%s: a comma is missing before '%.40s'\n", verb, option, p);
            return EXIT_USAGE;
        }
        p += strspn(p, " \t\n");
    }
    return EXIT_OK;
}

/* ---- output ---- */

/* Whether the verb was asked for JSON, so that its failure is JSON too. */
static bool fails_in_json;

void mica_cli_fail_in_json(void) { fails_in_json = true; }

static void print_error(const mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_cstring(&w, "error", err->message);
    mica_json_end_object(&w);
    if (!w.failed) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
}

int mica_cli_fail(const mica_error *err) {
    fprintf(stderr, "mica: %s\n", err->message);
    if (fails_in_json) print_error(err);
    return EXIT_FAILED;
}

int mica_cli_finish_output(int rc) {
    if ((fflush(stdout) || ferror(stdout)) && rc == EXIT_OK) {
        fprintf(stderr, "mica: standard output: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return rc;
}

/* Version 1.0 header: magic, length, a Python literal padded with spaces to 64 bytes. */
mica_status mica_cli_open_npy(mica_writer *out, const char *path, int64_t n_rows, int64_t n_columns,
                              mica_error *err) {
    char text[118];
    int n = snprintf(text, sizeof(text),
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                     (long long)n_rows, (long long)n_columns);
    memset(text + n, ' ', sizeof(text) - (size_t)n);
    text[sizeof(text) - 1] = '\n';
    static const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof(text), 0};
    mica_status st = strcmp(path, "-")
                         ? mica_writer_open(out, path, err)
                         : mica_writer_open_fd(out, STDOUT_FILENO, "standard output", err);
    if (!st) st = mica_writer_put(out, magic, sizeof(magic), err);
    return st ? st : mica_writer_put(out, text, sizeof(text), err);
}

mica_status mica_cli_read_stdin(char **out, size_t *n_out, mica_error *err) {
    size_t n = 0, capacity = 1 << 16;
    char *data = mica_malloc(capacity);
    while (data) {
        size_t got = fread(data + n, 1, capacity - n - 1, stdin);
        n += got;
        if (!got) break;
        if (n + 1 < capacity) continue;
        char *bigger = mica_realloc(data, capacity *= 2);
        if (!bigger) mica_free(data);
        data = bigger;
    }
    if (!data) return mica_fail(err, MICA_E_NOMEM, "standard input: out of memory");
    if (ferror(stdin)) {
        mica_free(data);
        return mica_fail_errno(err, MICA_E_IO, errno, "standard input");
    }
    data[n] = 0;
    *out = data;
    *n_out = n;
    return MICA_OK;
}

/* ---- progress ---- */

void mica_progress_begin(cli_progress *p, const char *what) {
    *p = (cli_progress){.what = what, .start_s = mica_now_s()};
}

void mica_progress_step(cli_progress *p, uint64_t done, uint64_t total) {
    double now = mica_now_s();
    if (now - p->start_s < 0.5 || now - p->last_s < 0.1 || !total || !isatty(STDERR_FILENO)) return;
    p->last_s = now;
    p->shown = true;
    fprintf(stderr, "\r%s %3d %%", p->what, (int)(100.0 * (double)done / (double)total));
}

void mica_progress_end(cli_progress *p) {
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

/* ---- interrupt ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
    if (interrupted) _exit(128 + sig);
    interrupted = 1;
}

void mica_cli_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
}

bool mica_cli_interrupted(void) { return interrupted != 0; }
