/* fuzz_toolcall.c: any bytes as an answer, in any format. The first byte chooses the format, the
 * second the way of reasoning, the third the options, the fourth how the answer is cut. Whole and
 * in pieces it must give the same, every byte must be accounted for, and arguments must be JSON.
 */
#include "../text/toolcall/answer.h"
#include "text/toolcall/call_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":{\"type\":"
    "\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/properties/d\"}}}"
    "},\"d\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"object\"},{\"type\":\"null\"}]}}}}}]";

enum { MAX_BYTES = 4096 };

static void check(const toolcall_dialect *d, const toolcall_options *o, bool is_cut,
                  const char *text, size_t n, unsigned seed) {
    size_t cuts[MAX_BYTES], n_cuts = 0;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        if ((seed >> 16) % 7 < 2) cuts[n_cuts++] = i;
    }
    answer whole = answer_parse(d, o, is_cut, text, n, NULL, 0);
    answer pieces = answer_parse(d, o, is_cut, text, n, cuts, n_cuts);
    if (whole.wrong || pieces.wrong || !answer_equal(&whole, &pieces)) {
        answer_print("whole", &whole);
        answer_print("in pieces", &pieces);
        abort();
    }
    answer_free(&whole);
    answer_free(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 4 || n - 4 > MAX_BYTES) return 0;
    toolcall_dialect d = {.format = &mica_call_formats[data[0] % mica_n_call_formats]};
    size_t r = data[1] % (mica_n_reasoning_formats + 1);
    if (r < mica_n_reasoning_formats) d.reasoning = &mica_reasoning_formats[r];
    toolcall_options o = {
        .start = (toolcall_start)((data[2] & 3) % 3),
        .ignores_calls = (data[2] & 12) == 12,
        .streams_arguments = data[2] & 16,
        .tools = data[2] & 32 ? NULL : tools,
        .n_tools = sizeof(tools) - 1,
    };
    check(&d, &o, data[2] & 64, (const char *)data + 4, n - 4, data[3]);
    return 0;
}
