/* walk.h: random texts that a grammar allows, byte by byte, for tests. */
#ifndef MICA_TESTS_WALK_H
#define MICA_TESTS_WALK_H

#include "answer.h"
#include "text/grammar/machine.h"

static inline uint32_t walk_random(uint64_t *seed, uint32_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

/* The bytes of text that fit (the mark of special tokens is none). Line ends come last, and other
 * white space where nothing else does or in text; with `is_short` what opens a container in the
 * same way. */
static inline int walk_live_bytes(lazy *l, uint32_t state, bool is_short, uint8_t *out) {
    int n = 0, n_open = 0;
    uint8_t open[2];
    for (unsigned c = '!'; c < 0xFF; c++) {
        if (lazy_step(l, state, (uint8_t)c) == STATE_DEAD) continue;
        if (is_short && (c == '[' || c == '{'))
            open[n_open++] = (uint8_t)c;
        else
            out[n++] = (uint8_t)c;
    }
    for (int i = 0; !n && i < n_open; i++) {
        out[n++] = open[i];
    }
    bool is_text = n > 85, is_only = !n;
    for (unsigned c = 1; c <= ' '; c++) {
        if (c != '\n' && !is_only && !(is_text && c == ' ')) continue;
        if (lazy_step(l, state, (uint8_t)c) != STATE_DEAD) out[n++] = (uint8_t)c;
    }
    return n;
}

typedef struct walk_found {
    uint32_t state, parent;
    uint8_t byte;
} walk_found;

typedef enum walk_end { WALK_DEAD, WALK_ENDS, WALK_TOO_FAR } walk_end;

/* Appends a shortest text that completes what was written. DEAD: there is none; TOO_FAR: it lies
 * behind too many states. */
static inline walk_end walk_search(lazy *l, uint32_t from, bool is_short, bytes *text) {
    enum { MAX_FOUND = 200000 };
    static walk_found found[MAX_FOUND];
    static uint32_t *seen, n_seen, mark;
    uint32_t n = 1, at = 0;
    mark++;
    found[0] = (walk_found){.state = from};
    for (; !(*lazy_flags(l, found[at].state) & STATE_ACCEPTS); at++) {
        uint8_t live[256];
        int n_live = walk_live_bytes(l, found[at].state, is_short, live);
        for (int i = 0; i < n_live; i++) {
            uint32_t to = lazy_step(l, found[at].state, live[i]);
            if (to >= n_seen) {
                seen = realloc(seen, (2 * (size_t)to + 1) * sizeof(*seen));
                if (!seen) abort();
                memset(seen + n_seen, 0, (2 * (size_t)to + 1 - n_seen) * sizeof(*seen));
                n_seen = 2 * to + 1;
            }
            if (seen[to] == mark || n == MAX_FOUND) continue;
            seen[to] = mark;
            found[n++] = (walk_found){to, at, live[i]};
        }
        if (at + 1 == n) return n == MAX_FOUND ? WALK_TOO_FAR : WALK_DEAD;
    }
    size_t n_old = text->n, length = 0;
    for (uint32_t k = at; k; k = found[k].parent) {
        length++;
    }
    for (size_t i = 0; i < length; i++) {
        bytes_append(text, "?", 1);
    }
    for (uint32_t k = at; k; k = found[k].parent) {
        text->data[n_old + --length] = (char)found[k].byte;
    }
    return WALK_ENDS;
}

static inline walk_end walk_complete(lazy *l, uint32_t from, bytes *text) {
    walk_end end = walk_search(l, from, true, text);
    return end == WALK_ENDS ? end : walk_search(l, from, false, text);
}

/* At most `steps` random bytes and a shortest end. */
static inline walk_end walk_write(grammar_machine *m, uint64_t *seed, uint32_t steps, bytes *text) {
    uint32_t state = mica_lazy_start(&m->lazy);
    for (uint32_t n = walk_random(seed, steps); n > 0; n--) {
        uint8_t live[256];
        int n_live = walk_live_bytes(&m->lazy, state, false, live);
        if (!n_live) break;
        uint8_t c = live[walk_random(seed, (uint32_t)n_live)];
        if (n_live > 90 && walk_random(seed, 4)) c = live[0];
        bytes_append(text, (const char[]){(char)c}, 1);
        state = lazy_step(&m->lazy, state, c);
    }
    return walk_complete(&m->lazy, state, text);
}

#endif
