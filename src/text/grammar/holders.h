/* holders.h: the plain tokens that hold a character, to be followed in order.
 *
 * A mask of text without some characters (slices.c) tries the tokens that hold one of those. They
 * lie sorted by their bytes, and each has only what it does not share with the one before: a try
 * reads ascending memory and follows shared beginnings once.
 */
#ifndef MICA_TEXT_GRAMMAR_HOLDERS_H
#define MICA_TEXT_GRAMMAR_HOLDERS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { HOLDERS_N_CHARS = 128 };

typedef struct holder {
    int32_t id;
    uint8_t n_shared, n_bytes; /* of n_bytes as many as n_shared are those of the one before */
} holder;

typedef struct token_holders {
    holder *items;
    char *text; /* the bytes that are not shared, one item's after the other's */
    uint32_t first[HOLDERS_N_CHARS + 1], text_first[HOLDERS_N_CHARS + 1]; /* of each character */
} token_holders;

struct grammar_vocab;

/* Those of v->all that are in v->slices[SLICE_NO_LIMIT], of each character that few hold
 * (holders_max). */
mica_status mica_holders_init(token_holders *h, const struct grammar_vocab *v, mica_error *err);
void mica_holders_deinit(token_holders *h);

/* More tokens than this are walked rather than tried. */
static inline size_t holders_max(size_t n_ids) { return n_ids / 16 + 64; }

#endif
