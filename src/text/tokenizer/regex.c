/* regex.c: PCRE2 with UTF, Unicode properties and JIT, in terms of this project's memory and
 * errors.
 *
 * Line ends are LF only and `^ $` are per line, as in Oniguruma. JIT code runs on a stack of its
 * own that may grow to 64 MiB of address space, so that a million repeated groups are no error.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/regex.h"

#include <pcre2.h>

#define MAX_PATTERN_BYTES 65536
#define JIT_STACK_START_BYTES (64u << 10)
#define JIT_STACK_MAX_BYTES (64u << 20)

static void *engine_malloc(size_t n_bytes, void *user) {
    (void)user;
    return mica_malloc(n_bytes);
}

static void engine_free(void *p, void *user) {
    (void)user;
    mica_free(p);
}

void mica_regex_free(regex *re) {
    if (!re) return;
    pcre2_code_free(re->code);
    mica_free(re);
}

static mica_status fail_compile(int code, const char *pattern, size_t n, const char *name,
                                mica_error *err) {
    PCRE2_UCHAR text[120] = "";
    pcre2_get_error_message(code, text, sizeof(text));
    return mica_fail(err, MICA_E_UNSUPPORTED, "%s: the regex \"%.*s\" cannot be used: %s", name,
                     (int)(n < 200 ? n : 200), pattern, (const char *)text);
}

static mica_status compile_code(regex *re, const text_buffer *pcre, const char *pattern, size_t n,
                                const char *name, mica_error *err) {
    pcre2_general_context *general = pcre2_general_context_create(engine_malloc, engine_free, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int code = PCRE2_ERROR_NOMEMORY;
    size_t offset;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pcre2_set_max_pattern_length(context, MAX_PATTERN_BYTES);
        re->code = pcre2_compile((PCRE2_SPTR)pcre->data, pcre->n,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &code, &offset, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (!re->code) {
        bool is_memory = code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED;
        if (is_memory) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory for a regex", name);
        return fail_compile(code, pattern, n, name, err);
    }
    /* Where the system forbids JIT, the interpreter gives the same matches. */
    (void)pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE);
    return MICA_OK;
}

mica_status mica_regex_compile(regex **out, const char *pattern, size_t n, const char *name,
                               mica_error *err) {
    text_buffer pcre = {0};
    regex *re = mica_calloc(1, sizeof(*re));
    if (!re) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory for a regex", name);
    mica_status st = mica_regex_rewrite(&pcre, pattern, n, name, err);
    if (!st) st = compile_code(re, &pcre, pattern, n, name, err);
    mica_text_buffer_deinit(&pcre);
    if (st) {
        mica_regex_free(re);
        return st;
    }
    *out = re;
    return MICA_OK;
}

void mica_regex_scratch_deinit(regex_scratch *s) {
    pcre2_match_data_free(s->match_data);
    pcre2_match_context_free(s->match_context);
    pcre2_jit_stack_free(s->jit_stack);
    *s = (regex_scratch){0};
}

static mica_status scratch_init(regex_scratch *s, mica_error *err) {
    if (s->match_data && s->match_context && s->jit_stack) return MICA_OK;
    mica_regex_scratch_deinit(s);
    pcre2_general_context *general = pcre2_general_context_create(engine_malloc, engine_free, NULL);
    if (general) {
        s->match_data = pcre2_match_data_create(1, general);
        s->match_context = pcre2_match_context_create(general);
        s->jit_stack = pcre2_jit_stack_create(JIT_STACK_START_BYTES, JIT_STACK_MAX_BYTES, general);
    }
    pcre2_general_context_free(general);
    if (!s->match_data || !s->match_context || !s->jit_stack) {
        mica_regex_scratch_deinit(s);
        return mica_fail(err, MICA_E_NOMEM, "out of memory for matching a regex");
    }
    pcre2_jit_stack_assign(s->match_context, NULL, s->jit_stack);
    return MICA_OK;
}

mica_status mica_regex_find(const regex *re, regex_scratch *s, const char *text, size_t n,
                            size_t from, text_piece *out, bool *found, mica_error *err) {
    mica_status st = scratch_init(s, err);
    if (st) return st;
    int rc = pcre2_match(re->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, s->match_data,
                         s->match_context);
    *found = rc >= 0;
    if (rc >= 0) {
        const size_t *span = pcre2_get_ovector_pointer(s->match_data);
        *out = (text_piece){.begin = span[0], .end = span[1], .is_match = true};
        return MICA_OK;
    }
    if (rc == PCRE2_ERROR_NOMATCH) return MICA_OK;
    PCRE2_UCHAR message[120] = "";
    pcre2_get_error_message(rc, message, sizeof(message));
    return mica_fail(err, rc == PCRE2_ERROR_NOMEMORY ? MICA_E_NOMEM : MICA_E_LIMIT,
                     "the tokenizer's regex fails on this text at byte %zu: %s", from,
                     (const char *)message);
}
