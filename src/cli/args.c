/* args.c: parsing and help from option tables. */
#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const arg_spec *spec_at(const arg_verb *verb, int i) {
    return i < verb->n_specs ? &verb->specs[i] : &verb->more[i - verb->n_specs];
}

static int n_specs(const arg_verb *verb) { return verb->n_specs + verb->n_more; }

static const arg_spec *find_long(const arg_verb *verb, const char *name, size_t n) {
    for (int i = 0; i < n_specs(verb); i++) {
        const arg_spec *s = spec_at(verb, i);
        if (strlen(s->name) == n && memcmp(s->name, name, n) == 0) return s;
    }
    return NULL;
}

static const arg_spec *find_short(const arg_verb *verb, char c) {
    for (int i = 0; i < n_specs(verb); i++) {
        const arg_spec *s = spec_at(verb, i);
        if (s->short_name && s->short_name == c) return s;
    }
    return NULL;
}

static int usage_error(const arg_verb *verb, const char *what, const char *which) {
    fprintf(stderr, "mica %s: %s '%s' (mica %s --help shows what there is)\n", verb->name, what,
            which, verb->name);
    return EXIT_USAGE;
}

static int bad_value(const arg_verb *verb, const arg_spec *s, const char *expected,
                     const char *value) {
    fprintf(stderr, "mica %s: --%s: '%s' is not %s\n", verb->name, s->name, value, expected);
    return EXIT_USAGE;
}

static int out_of_bounds(const arg_verb *verb, const arg_spec *s, const char *value) {
    fprintf(stderr, "mica %s: --%s: '%s' is not in %g to %g\n", verb->name, s->name, value, s->lo,
            s->hi);
    return EXIT_USAGE;
}

static bool bounded(const arg_spec *s) { return s->lo < s->hi; }

static int store_integer(const arg_verb *verb, const arg_spec *s, const char *value) {
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (!*value || *end || errno) return bad_value(verb, s, "a whole number", value);
    if (bounded(s) && ((double)v < s->lo || (double)v > s->hi))
        return out_of_bounds(verb, s, value);
    *(int64_t *)s->target = v;
    return EXIT_OK;
}

static int store_u64(const arg_verb *verb, const arg_spec *s, const char *value) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10);
    if (!*value || *end || errno) return bad_value(verb, s, "a whole number", value);
    *(uint64_t *)s->target = v;
    return EXIT_OK;
}

static int store_float(const arg_verb *verb, const arg_spec *s, const char *value) {
    char *end;
    float v = strtof(value, &end);
    if (!*value || *end || !isfinite(v)) return bad_value(verb, s, "a number", value);
    if (bounded(s) && ((double)v < s->lo || (double)v > s->hi))
        return out_of_bounds(verb, s, value);
    *(float *)s->target = v;
    return EXIT_OK;
}

static int store_list(const arg_verb *verb, const arg_spec *s, const char *value) {
    arg_list *list = s->target;
    if (list->n == (int)(sizeof(list->items) / sizeof(list->items[0])))
        return usage_error(verb, "given too often: option", s->name);
    list->items[list->n++] = value;
    return EXIT_OK;
}

static int store(const arg_verb *verb, const arg_spec *s, const char *value) {
    switch (s->kind) {
    case ARG_FLAG:
        *(bool *)s->target = true;
        if (!strcmp(s->name, "json")) mica_cli_fail_in_json();
        return EXIT_OK;
    case ARG_STRING:
        *(const char **)s->target = value;
        return EXIT_OK;
    case ARG_INT:
        return store_integer(verb, s, value);
    case ARG_U64:
        return store_u64(verb, s, value);
    case ARG_FLOAT:
        return store_float(verb, s, value);
    case ARG_LIST:
        return store_list(verb, s, value);
    }
    return EXIT_USAGE;
}

/* One option at argv[*i]; *i moves past its value. */
static int parse_option(const arg_verb *verb, int argc, char **argv, int *i) {
    const char *arg = argv[*i];
    const arg_spec *s;
    const char *value = NULL;
    if (arg[1] == '-') {
        const char *name = arg + 2, *equals = strchr(name, '=');
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        s = find_long(verb, name, n);
        if (equals) value = equals + 1;
    } else {
        s = find_short(verb, arg[1]);
        if (s && arg[2]) value = arg[2] == '=' ? arg + 3 : arg + 2;
    }
    if (!s) return usage_error(verb, "unknown option", arg);
    if (s->kind == ARG_FLAG)
        return value ? usage_error(verb, "takes no value:", arg) : store(verb, s, NULL);
    if (!value) {
        if (*i + 1 >= argc) return usage_error(verb, "a value is missing after", arg);
        value = argv[++*i];
    }
    return store(verb, s, value);
}

int mica_args_parse(const arg_verb *verb, int argc, char **argv, const char **words, int *n_words) {
    bool options = true;
    *n_words = 0;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            mica_args_help(verb);
            return ARGS_DONE;
        } else if (options && arg[0] == '-' && arg[1]) {
            int rc = parse_option(verb, argc, argv, &i);
            if (rc) return rc;
        } else {
            if (*n_words == verb->max_words) return usage_error(verb, "one word too many:", arg);
            words[(*n_words)++] = arg;
        }
    }
    if (*n_words < verb->min_words) {
        fprintf(stderr, "usage: %s\n(mica %s --help says more)\n", verb->usage, verb->name);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static void print_specs(const arg_spec *specs, int n) {
    for (int i = 0; i < n; i++) {
        char left[64], shorts[8] = "";
        if (specs[i].short_name) snprintf(shorts, sizeof(shorts), "-%c, ", specs[i].short_name);
        snprintf(left, sizeof(left), "%s--%s%s%s", shorts, specs[i].name, specs[i].value ? " " : "",
                 specs[i].value ? specs[i].value : "");
        printf("  %-28s %s\n", left, specs[i].help);
    }
}

void mica_args_help(const arg_verb *verb) {
    printf("usage: %s\n\n%s\n", verb->usage, verb->about);
    if (n_specs(verb)) printf("\nOptions:\n");
    print_specs(verb->specs, verb->n_specs);
    print_specs(verb->more, verb->n_more);
    printf("  %-28s %s\n", "-h, --help", "this text");
    if (verb->examples) printf("\nExamples:\n%s", verb->examples);
}
