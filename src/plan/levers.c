/* levers.c: the lever table and its switch.
 *
 * A row here comes with a gate in the tests that holds the lever's distance from the exact profile;
 * a lever that fails its gate is off by default.
 */
#include "plan/levers.h"

#include <stdio.h>
#include <string.h>

const lever_info mica_levers[LEVER_N] = {
    [LEVER_SWIGLU] = {"swiglu", "gate, up, silu and product as one kernel", true, LEVER_ALL_ROWS},
    [LEVER_GEGLU] = {"geglu", "gate, up, gelu and product as one kernel", true, LEVER_ALL_ROWS},
    [LEVER_FLASH] = {"flash", "attention of prompts in blocks of rows, with fused multiply-adds",
                     true, LEVER_PROMPT_ROWS},
    [LEVER_INT16] = {"int16", "quantized weights times rows quantized to two bytes", true,
                     LEVER_ALL_ROWS},
    [LEVER_INT8] = {"int8", "to one byte, where that is enough: gated pairs, after attention", true,
                    LEVER_ALL_ROWS},
    [LEVER_INT8_DOWN] = {"int8-down", "in prompts also for what reads a gated pair's product", true,
                         LEVER_PROMPT_ROWS},
    [LEVER_BF16] = {"bf16", "prompt matmuls in bf16 on machines with tiles", true,
                    LEVER_PROMPT_ROWS},
    [LEVER_PARTS] = {"parts", "attention of decoded rows over parts of the keys, fused likewise",
                     true, LEVER_DECODE_ROWS},
    [LEVER_NORM_ROWS] = {"norm-rows", "norms write quantized rows where nothing else reads them",
                         true, LEVER_ALL_ROWS},
    [LEVER_GLU_ROWS] = {"glu-rows", "gated pairs likewise", true, LEVER_ALL_ROWS},
    [LEVER_RESIDUAL] = {"residual",
                        "residuals and biases are added as matmuls and norms are stored", true,
                        LEVER_ALL_ROWS},
};

lever_set mica_levers_exact(void) { return (lever_set){0}; }

lever_set mica_levers_fast(void) {
    lever_set set = {0};
    for (int i = 0; i < LEVER_N; i++) {
        if (mica_levers[i].fast_default) set.on |= 1u << i;
    }
    return set;
}

lever_set mica_levers_for(lever_set set, lever_rows rows) {
    for (int i = 0; i < LEVER_N; i++) {
        lever_rows own = mica_levers[i].rows;
        if (own != LEVER_ALL_ROWS && own != rows) set.on &= ~(1u << i);
    }
    return set;
}

static bool equals(const char *s, size_t n, const char *word) {
    return strlen(word) == n && memcmp(s, word, n) == 0;
}

static bool parse_switch(const char *value, bool *on) {
    static const char *const words[2][3] = {{"off", "0", "false"}, {"on", "1", "true"}};
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 3; i++) {
            if (strcmp(value, words[b][i]) != 0) continue;
            *on = b;
            return true;
        }
    }
    return false;
}

static mica_status unknown(const char *assignment, mica_error *err) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < LEVER_N && used < sizeof(names); i++) {
        int w = snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
                         mica_levers[i].name);
        if (w > 0) used += (size_t)w;
    }
    return mica_fail(err, MICA_E_INVALID, "lever '%s': expected NAME=on or NAME=off; names: %s",
                     assignment, names);
}

mica_status mica_lever_switch(lever_set *set, const char *assignment, mica_error *err) {
    const char *equal = strchr(assignment, '=');
    bool on;
    if (!equal || !parse_switch(equal + 1, &on)) return unknown(assignment, err);
    for (int i = 0; i < LEVER_N; i++) {
        if (!equals(assignment, (size_t)(equal - assignment), mica_levers[i].name)) continue;
        if (on) set->on |= 1u << i;
        if (!on) set->on &= ~(1u << i);
        return MICA_OK;
    }
    return unknown(assignment, err);
}
