/* fuzz_schema.c: any bytes as a JSON schema, a pattern, a GBNF grammar or the parameters of a tool
 * in some format of calls (the first byte chooses).
 *
 * What compiles is walked: each step takes a byte that the mask allows. Masks must say what
 * accepting says, the walk may never get stuck, and taking it back must lead to the first mask
 * again.
 */
#include <stdlib.h>
#include <string.h>

#include "text/toolcall/call_format.h"
#include "text/toolcall/call_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N_TOKENS = 256, N_WORDS = N_TOKENS / 64, MAX_STEPS = 48, MAX_TEXT = 4096 };

static void check(bool holds) {
    if (!holds) abort();
}

static grammar_vocab *all_bytes(void) {
    static char bytes[N_TOKENS];
    const char *tokens[N_TOKENS];
    size_t lengths[N_TOKENS];
    grammar_vocab *v;
    for (int c = 0; c < N_TOKENS; c++) {
        bytes[c] = (char)c;
        tokens[c] = &bytes[c];
        lengths[c] = 1;
    }
    check(!mica_grammar_vocab_from_bytes(&v, tokens, lengths, N_TOKENS, NULL));
    return v;
}

static int pick(const uint64_t *mask, unsigned from) {
    for (unsigned i = 0; i < N_TOKENS; i++) {
        unsigned id = (from + i) % N_TOKENS;
        if (mask[id >> 6] >> (id & 63) & 1) return (int)id;
    }
    return -1;
}

static void walk(grammar_matcher *x, const uint8_t *data, size_t n) {
    uint64_t first[N_WORDS], mask[N_WORDS];
    size_t n_taken = 0;
    bool ok;
    if (mica_grammar_mask(x, first, N_WORDS, NULL)) return;
    while (n_taken < MAX_STEPS) {
        if (mica_grammar_mask(x, mask, N_WORDS, NULL)) return; /* too ambiguous */
        unsigned probe = data[n_taken % n] * 7u % N_TOKENS;
        if (mica_grammar_accept(x, (int32_t)probe, &ok, NULL)) return;
        check(ok == (mask[probe >> 6] >> (probe & 63) & 1));
        if (ok) check(!mica_grammar_rollback(x, 1, NULL));
        int id = pick(mask, data[n_taken % n]);
        check(id >= 0 || mica_grammar_is_complete(x));
        if (id < 0) break;
        if (mica_grammar_accept(x, id, &ok, NULL)) return;
        check(ok);
        n_taken++;
    }
    check(!mica_grammar_rollback(x, n_taken, NULL));
    check(!mica_grammar_mask(x, mask, N_WORDS, NULL));
    check(!memcmp(mask, first, sizeof(mask)));
}

/* A call of a tool with these parameters, in format number `kind`. */
static mica_status compile_call(grammar **out, const char *schema, size_t n, unsigned kind) {
    static const char head[] = "[{\"name\":\"f\",\"parameters\":", tail[] = "}]";
    char tools[MAX_TEXT + sizeof(head) + sizeof(tail)];
    size_t n_head = sizeof(head) - 1, n_tail = sizeof(tail) - 1;
    memcpy(tools, head, n_head);
    memcpy(tools + n_head, schema, n);
    memcpy(tools + n_head + n, tail, n_tail);
    const toolcall_dialect d = {.format = &mica_call_formats[kind % mica_n_call_formats]};
    const toolcall_choice choice = {.tools = tools,
                                    .n_tools = n_head + n + n_tail,
                                    .is_strict = n % 2,
                                    .is_parallel = n % 3 == 0};
    return mica_toolcall_grammar(out, &d, &choice, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2 || n > MAX_TEXT) return 0;
    const char *text = (const char *)data + 1;
    const schema_options options = {
        .is_compact = data[0] & 4, .any_order = data[0] & 8, .ignores_unknown = data[0] & 16};
    grammar *g;
    static grammar_vocab *v; /* made once */
    if (!v) v = all_bytes();
    mica_status st;
    if (data[0] % 4 == 1)
        st = mica_grammar_compile_regex(&g, text, n - 1, NULL);
    else if (data[0] % 4 == 2)
        st = mica_grammar_compile_gbnf(&g, text, n - 1, v, NULL);
    else if (data[0] % 4 == 3)
        st = compile_call(&g, text, n - 1, data[0] / 4u);
    else
        st = mica_grammar_compile_schema_text(&g, text, n - 1, &options, NULL);
    if (st) return 0;
    grammar_machine *m;
    grammar_matcher *x;
    check(!mica_grammar_machine_new(&m, g, v, NULL, 0, NULL));
    if (!mica_grammar_matcher_new(&x, m, NULL)) {
        walk(x, data, n);
        mica_grammar_matcher_free(x);
    }
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    return 0;
}
