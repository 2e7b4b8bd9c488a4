/* byte_alphabet.h: the printable characters that stand for bytes in byte-level vocabularies.
 *
 * Bytes 21-7E, A1-AC and AE-FF stand for the code point of the same number; the other 68 bytes, in
 * ascending order, for U+0100, U+0101, ...
 */
#ifndef MICA_TEXT_TOKENIZER_BYTE_ALPHABET_H
#define MICA_TEXT_TOKENIZER_BYTE_ALPHABET_H

#include "text/tokenizer/text_buffer.h"

uint32_t mica_byte_char(uint8_t byte);
int mica_char_byte(uint32_t c); /* -1: not in the alphabet */

/* Appends the characters of n bytes. */
mica_status mica_byte_alphabet_map(text_buffer *out, const char *bytes, size_t n, mica_error *err);
/* Appends the bytes of a text; false, and nothing is appended, if a character is not in the
 * alphabet. Room for n bytes must be reserved. */
bool mica_byte_alphabet_unmap(text_buffer *out, const char *text, size_t n);

#endif
