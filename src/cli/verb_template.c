/* verb_template.c: `mica template`: a conversation as the model's chat template renders it, byte
 * for byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "text/template/chat.h"

enum { MAX_INPUT = 256 << 20 };

typedef struct template_args {
    const char *tools, *choice;
    bool no_generation_prompt, continues;
    int64_t now;
    arg_list settings;
    mica_arena arena;
    json_value *input, *tool_list, *kwargs;
} template_args;

/* A JSON file, or standard input for "-". */
static mica_status read_json(template_args *a, const char *path, json_value **out,
                             mica_error *err) {
    char *text = NULL;
    size_t n = 0;
    bool is_stdin = strcmp(path, "-") == 0;
    mica_status st = is_stdin ? mica_cli_read_stdin(&text, &n, err)
                              : mica_file_read(&text, &n, path, MAX_INPUT, err);
    if (!st)
        st =
            mica_json_parse(out, text, n, is_stdin ? "standard input" : path, true, &a->arena, err);
    mica_free(text);
    return st;
}

/* key=json. Nothing but JSON, so that no slip of the pen becomes a text, which counts as true. */
static mica_status add_setting(template_args *a, const char *setting, mica_error *err) {
    const char *equals = strchr(setting, '=');
    size_t n = equals ? (size_t)(equals - setting) : 0;
    json_member *m = &a->kwargs->members[a->kwargs->n];
    if (n == 0) return mica_fail(err, MICA_E_INVALID, "--set '%.60s': expected key=json", setting);
    const char *text = equals + 1;
    mica_error why;
    mica_status st = mica_json_parse(&m->value, text, strlen(text), "value", true, &a->arena, &why);
    if (st == MICA_E_NOMEM) return mica_fail(err, st, "out of memory");
    if (st)
        return mica_fail(
            err, MICA_E_INVALID,
            "--set '%.60s': the value is no JSON (true, false, null, 5, \"text\", [1], "
            "{\"a\": 1}); a text has quotes: --set '%.*s=\"text\"'",
            setting, (int)(n < 60 ? n : 60), setting);
    m->key = mica_arena_strndup(&a->arena, setting, n);
    m->n_key = n;
    if (!m->key) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    a->kwargs->n++;
    return MICA_OK;
}

static mica_status read_settings(template_args *a, mica_error *err) {
    a->kwargs = mica_arena_alloc(&a->arena, sizeof(*a->kwargs));
    if (!a->kwargs) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    a->kwargs->kind = JSON_KIND_OBJECT;
    a->kwargs->members =
        mica_arena_calloc(&a->arena, (size_t)a->settings.n + 1, sizeof(json_member));
    if (!a->kwargs->members) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    mica_status st = MICA_OK;
    for (int i = 0; !st && i < a->settings.n; i++)
        st = add_setting(a, a->settings.items[i], err);
    return st;
}

static void warn(const chat_template *t, const chat_request *request) {
    bool has_tools = request->tools && request->tools->n;
    const chat_capabilities *can = mica_chat_template_capabilities(t, has_tools);
    const char *warning = mica_chat_template_warning(t);
    if (warning) fprintf(stderr, "mica: warning: %s\n", warning);
    if (has_tools && !can->tools)
        fprintf(stderr, "mica: warning: the chat template does not show tools\n");
}

static mica_status run(template_args *a, const char *model_name, mica_error *err) {
    char *path = NULL;
    chat_template *t = NULL;
    rendered_text text = {0};
    mica_status st = read_settings(a, err);
    if (!st) st = mica_cli_find_model(&path, model_name, err);
    if (!st) st = mica_chat_template_open(&t, path, a->choice, err);
    if (!st) {
        const json_value *list = mica_json_find_set(a->input, "messages");
        const chat_request request = {
            .messages = list ? list : a->input,
            .tools = a->tool_list ? a->tool_list : mica_json_find_set(a->input, "tools"),
            .documents = mica_json_find_set(a->input, "documents"),
            .kwargs = a->kwargs,
            .add_generation_prompt = !a->no_generation_prompt && !a->continues,
            .continue_final = a->continues,
            .has_now = a->now >= 0,
            .now_s = a->now};
        warn(t, &request);
        st = mica_chat_render(t, &request, &text, err);
    }
    if (!st) fwrite(text.text, 1, text.n, stdout);
    mica_rendered_text_deinit(&text);
    mica_chat_template_free(t);
    mica_free(path);
    return st;
}

int mica_verb_template(int argc, char **argv) {
    template_args a = {.now = -1};
    const arg_spec specs[] = {
        {"tools", 0, ARG_STRING, &a.tools, "FILE", "a JSON array of tool definitions", 0, 0},
        {"no-generation-prompt", 0, ARG_FLAG, &a.no_generation_prompt, NULL,
         "end after the last message", 0, 0},
        {"continue", 0, ARG_FLAG, &a.continues, NULL,
         "leave the last message, an assistant's, open", 0, 0},
        {"set", 0, ARG_LIST, &a.settings, "KEY=JSON",
         "a variable of the template; texts in quotes: 'effort=\"low\"'", 0, 0},
        {"chat-template", 0, ARG_STRING, &a.choice, "FILE|NAME",
         "another template, or one of several", 0, 0},
        {"now", 0, ARG_INT, &a.now, "SECONDS", "the time that the template sees, since 1970", 0,
         1e15},
    };
    const arg_verb verb = {
        .name = "template",
        .usage = "mica template MODEL MESSAGES.json [options]",
        .about = "Prints a conversation as the model's chat template renders it, byte for byte,\n"
                 "without a newline of its own. MESSAGES.json is an array of messages, or an\n"
                 "object with \"messages\" and perhaps \"tools\"; - reads standard input.",
        .examples = "  mica template smollm2 chat.json\n"
                    "  mica template ./model chat.json --tools tools.json --set "
                    "enable_thinking=false\n"
                    "  mica template ./model chat.json --chat-template mine.jinja\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .min_words = 2,
        .max_words = 2,
    };
    const char *words[2];
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    if (a.continues && a.no_generation_prompt) {
        fprintf(stderr, "mica template: --continue already ends without a generation prompt\n");
        return EXIT_USAGE;
    }
    mica_error err;
    mica_arena_init(&a.arena, 0);
    mica_status st = read_json(&a, words[1], &a.input, &err);
    if (!st && a.tools) st = read_json(&a, a.tools, &a.tool_list, &err);
    if (!st) st = run(&a, words[0], &err);
    mica_arena_deinit(&a.arena);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
