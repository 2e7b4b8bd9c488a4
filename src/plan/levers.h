/* levers.h: the table of named deviations from the exact profile. Each has one switch
 * (--lever NAME=on|off) and one gate in the tests that holds its distance from exact.
 */
#ifndef MICA_PLAN_LEVERS_H
#define MICA_PLAN_LEVERS_H

#include "base/status.h"
#include <stdbool.h>

typedef enum lever {
    LEVER_SWIGLU,    /* gate, up, silu and product as one kernel */
    LEVER_GEGLU,     /* gate, up, gelu (either form) and product as one kernel */
    LEVER_FLASH,     /* attention in blocks of rows, with fused multiply-adds */
    LEVER_INT16,     /* quantized weights times rows quantized to two bytes */
    LEVER_INT8,      /* to one byte, where that is enough: gated pairs, after attention */
    LEVER_INT8_DOWN, /* in prompts also for what reads a gated pair's product */
    LEVER_BF16,      /* prompt rows and weights rounded to bf16, on machines with tiles */
    LEVER_PARTS,     /* attention over parts of the keys, with fused multiply-adds */
    LEVER_NORM_ROWS, /* norms that quantized matmuls alone read write the quantized rows */
    LEVER_GLU_ROWS,  /* so do gated pairs */
    LEVER_RESIDUAL,  /* residuals and biases are added where a matmul or a norm is stored */
    LEVER_N
} lever;

typedef struct lever_set {
    uint32_t on; /* bit i: lever i */
} lever_set;

/* The rows in whose plans a lever may act. */
typedef enum lever_rows {
    LEVER_ALL_ROWS,
    LEVER_PROMPT_ROWS,
    LEVER_DECODE_ROWS /* never where one plan serves both roles, as under --exact */
} lever_rows;

typedef struct lever_info {
    const char *name;
    const char *what;
    bool fast_default;
    lever_rows rows;
} lever_info;

extern const lever_info mica_levers[LEVER_N];

lever_set mica_levers_exact(void); /* none */
lever_set mica_levers_fast(void);  /* the defaults */
/* Without those that are for other rows only. */
lever_set mica_levers_for(lever_set set, lever_rows rows);
static inline bool mica_lever_on(lever_set set, lever l) { return (set.on >> l) & 1u; }
/* Applies "NAME=on" or "NAME=off" (also 1|true, 0|false). MICA_E_INVALID lists the names. */
mica_status mica_lever_switch(lever_set *set, const char *assignment, mica_error *err);

#endif
