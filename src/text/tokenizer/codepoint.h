/* codepoint.h: reading UTF-8 that is known to be well-formed, character by character. */
#ifndef MICA_TEXT_TOKENIZER_CODEPOINT_H
#define MICA_TEXT_TOKENIZER_CODEPOINT_H

#include "base/utf8.h"

/* The number of bytes of the character whose first byte is `lead`. */
static inline size_t utf8_width(char lead) {
    unsigned char b = (unsigned char)lead;
    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

/* The character at s, which must be well-formed; *n is its length. */
static inline uint32_t utf8_read(const char *s, size_t *n) {
    const unsigned char *p = (const unsigned char *)s;
    *n = utf8_width(s[0]);
    switch (*n) {
    case 1:
        return p[0];
    case 2:
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3:
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    default:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
               (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
}

/* The length of the longest well-formed prefix of s[0..n). */
static inline size_t utf8_valid_prefix(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        bool is_valid;
        size_t width = mica_utf8_step(s + i, n - i, &is_valid);
        if (!is_valid) break;
        i += width;
    }
    return i;
}

/* Start of the character that ends just before s + end (end > 0, well-formed text). */
static inline size_t utf8_back(const char *s, size_t end) {
    size_t i = end - 1;
    while (i > 0 && ((unsigned char)s[i] & 0xC0) == 0x80) {
        i--;
    }
    return i;
}

#endif
