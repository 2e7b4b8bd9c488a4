/* stop_strings.h: ends a stream of bytes before the first of some strings.
 *
 * Text is released as it comes, except the longest suffix that may still become a stop string; the
 * result does not depend on how the bytes were cut. The stream stops at the byte that completes a
 * stop string, the longest one if several end there; neither it nor what follows is released.
 */
#ifndef MICA_TEXT_STOP_STRINGS_H
#define MICA_TEXT_STOP_STRINGS_H

#include <stdbool.h>

#include "base/alloc.h"

typedef struct stop_string {
    const char *bytes; /* owned by the matcher; not empty */
    size_t n;
    size_t *fallback; /* [k]: bytes of the longest proper prefix that ends bytes[0..k] */
    size_t n_matched; /* the stream's last bytes are this much of it */
} stop_string;

typedef struct stop_matcher {
    stop_string *strings;
    size_t n_strings;
    bool is_stopped;
    size_t which; /* the string that stopped it */
    char *text;   /* what the last call released; owned */
    size_t n_text;
    size_t n_held; /* bytes withheld; they lie behind the released ones */
    size_t capacity;
} stop_matcher;

/* Copies the strings. n_strings 0 is fine: everything is released at once. MICA_E_INVALID: a string
 * is empty. */
mica_status mica_stop_matcher_init(stop_matcher *m, const char *const *strings,
                                   const size_t *lengths, size_t n_strings, mica_error *err);
void mica_stop_matcher_deinit(stop_matcher *m);

/* m->text[0..n_text) is what these bytes released, valid until the next call. After a failure the
 * matcher is as it was. */
mica_status mica_stop_matcher_push(stop_matcher *m, const char *bytes, size_t n, mica_error *err);
/* The stream is over: releases what is withheld. */
void mica_stop_matcher_finish(stop_matcher *m);

#endif
