/* utf8.h: the smallest step of reading UTF-8 (Unicode 15, table 3-7). */
#ifndef MICA_BASE_UTF8_H
#define MICA_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks at the sequence that begins at s[0], n >= 1. Well-formed: *valid is true and the result its
 * length, 1 to 4. Else the result is the length of the maximal subpart, the bytes that one U+FFFD
 * replaces; it ends the text (s + result == s + n) if more bytes could have made it well-formed. */
static inline size_t mica_utf8_step(const char *s, size_t n, bool *valid) {
    const unsigned char *p = (const unsigned char *)s;
    *valid = p[0] < 0x80;
    if (*valid) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 1;
    size_t n_want = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    unsigned low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < n_want; i++) {
        if (i == n || p[i] < low || p[i] > high) return i;
        low = 0x80;
        high = 0xBF;
    }
    *valid = true;
    return n_want;
}

/* Writes code point `c` (at most U+10FFFF, no surrogate) and gives the number of bytes, 1 to 4. */
static inline size_t mica_utf8_put(char *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[n] | c);
    return n;
}

#endif
