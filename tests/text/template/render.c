/* render.c: templates from the command line, for differential runs against other engines.
 *
 * Usage: render TEMPLATE CONTEXT.json [NOW]   prints the rendering, byte for byte
 *        render --lines [NOW]                 standard input has a JSON object a line, with
 *                                             "template" and "context"; prints one a line, with
 *                                             "text" or "error" and "stage" ("compile", "render")
 * NOW: seconds since 1970 for strftime_now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/template/template.h"

static mica_status render(const char *source, size_t n, const json_value *context, const char *now,
                          rendered_text *out, const char **stage, mica_error *err) {
    jinja_template *t = NULL;
    render_options options = {.has_now = now != NULL, .now_s = now ? atoll(now) : 0};
    *stage = "compile";
    mica_status st = mica_template_compile(&t, source, n, "template", err);
    if (!st) {
        *stage = "render";
        st = mica_template_render(t, context, &options, out, err);
    }
    mica_template_free(t);
    return st;
}

static int one(const char *template_path, const char *context_path, const char *now) {
    char *source = NULL;
    size_t n = 0;
    json_value *context = NULL;
    rendered_text out = {0};
    const char *stage;
    mica_arena arena;
    mica_error err;
    mica_arena_init(&arena, 0);
    mica_status st = mica_file_read(&source, &n, template_path, 1 << 26, &err);
    if (!st) st = mica_json_parse_file(&context, context_path, 1 << 28, true, &arena, &err);
    if (!st) st = render(source, n, context, now, &out, &stage, &err);
    if (st)
        fprintf(stderr, "%s\n", err.message);
    else
        fwrite(out.text, 1, out.n, stdout);
    mica_rendered_text_deinit(&out);
    mica_arena_deinit(&arena);
    mica_free(source);
    return st ? 1 : 0;
}

static void answer(const json_value *line, const char *now) {
    const json_value *source = mica_json_find(line, "template");
    rendered_text out = {0};
    const char *stage;
    mica_error err;
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    if (render(source->string, source->n, mica_json_find(line, "context"), now, &out, &stage,
               &err)) {
        mica_json_key(&w, "error");
        mica_json_put_cstring(&w, err.message);
        mica_json_key(&w, "stage");
        mica_json_put_cstring(&w, stage);
    } else {
        mica_json_key(&w, "text");
        mica_json_put_string(&w, out.text, out.n);
    }
    mica_json_end_object(&w);
    puts(w.data);
    mica_json_writer_deinit(&w);
    mica_rendered_text_deinit(&out);
}

static int lines(const char *now) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        json_value *v = NULL;
        mica_arena arena;
        mica_error err;
        mica_arena_init(&arena, 0);
        bool is_good = !mica_json_parse(&v, line, (size_t)n, "line", true, &arena, &err);
        if (is_good)
            answer(v, now);
        else
            printf("{\"error\": \"bad line\"}\n");
        fflush(stdout);
        mica_arena_deinit(&arena);
    }
    free(line);
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "--lines") == 0) return lines(argc > 2 ? argv[2] : NULL);
    if (argc >= 3) return one(argv[1], argv[2], argc > 3 ? argv[3] : NULL);
    fprintf(stderr, "usage: render TEMPLATE CONTEXT.json [NOW] | render --lines [NOW]\n");
    return 2;
}
