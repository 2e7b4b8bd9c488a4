/* char_class.h: the few classes of characters that tokenizer files name.
 *
 * They follow the Unicode character database, never the C locale.
 */
#ifndef MICA_TEXT_TOKENIZER_CHAR_CLASS_H
#define MICA_TEXT_TOKENIZER_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

bool mica_char_is_space(uint32_t c);       /* White_Space */
bool mica_char_is_word(uint32_t c);        /* alphabetic, mark, decimal digit, connector, joiner */
bool mica_char_is_numeric(uint32_t c);     /* Nd, Nl, No */
bool mica_char_is_mark(uint32_t c);        /* Mn, Mc, Me */
bool mica_char_is_punctuation(uint32_t c); /* ASCII punctuation and symbols, or category P */

#endif
