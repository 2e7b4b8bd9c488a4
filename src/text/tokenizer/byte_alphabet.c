/* byte_alphabet.c: bytes to printable characters and back; see the header for the rule. */
#include "text/tokenizer/byte_alphabet.h"

#include "text/tokenizer/codepoint.h"

/* The bytes 00-20, 7F-A0 and AD are 33 + 34 + 1 = 68 that get U+0100 and up. */
uint32_t mica_byte_char(uint8_t byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143u : byte;
}

int mica_char_byte(uint32_t c) {
    if (c >= 0x144 || c <= 0x20 || c == 0xAD) return -1;
    if (c < 0x100) return c >= 0x7F && c <= 0xA0 ? -1 : (int)c;
    if (c <= 0x120) return (int)(c - 0x100);
    return c == 0x143 ? 0xAD : (int)(c - 0x121 + 0x7F);
}

mica_status mica_byte_alphabet_map(text_buffer *out, const char *bytes, size_t n, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, 2 * n, err);
    if (st) return st;
    for (size_t i = 0; i < n; i++) {
        text_put_char(out, mica_byte_char((uint8_t)bytes[i]));
    }
    return MICA_OK;
}

bool mica_byte_alphabet_unmap(text_buffer *out, const char *text, size_t n) {
    size_t n_before = out->n;
    for (size_t i = 0; i < n;) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid), n_read;
        int byte = is_valid && width <= 2 ? mica_char_byte(utf8_read(text + i, &n_read)) : -1;
        if (byte < 0) {
            out->n = n_before;
            return false;
        }
        out->data[out->n++] = (char)byte;
        i += width;
    }
    return true;
}
