/* jinja_text.h: operations on text that filters and methods share (jinja_text.c). */
#ifndef MICA_TEXT_JINJA_TEXT_H
#define MICA_TEXT_JINJA_TEXT_H

#include "text/template/jinja_string.h"

typedef enum jjustify { JUSTIFY_LEFT, JUSTIFY_RIGHT, JUSTIFY_CENTER } jjustify;

bool mica_j_capitalize(jrender *r, const jstring *s, jvalue *out);
/* Without the characters of `set` (NULL: white space) at the sides. */
bool mica_j_strip(jrender *r, const jstring *s, const jstring *set, bool is_left, bool is_right,
                  jvalue *out);
/* At most `count` replacements; negative: all. An empty `from` matches between characters. */
bool mica_j_put_replaced(jrender *r, jbuffer *b, const jstring *s, const jstring *from,
                         const jstring *to, int64_t count);
/* The line that begins at `begin` ends at *end; the next one begins at *next. */
void mica_j_next_line(const jstring *s, size_t begin, size_t *end, size_t *next);
bool mica_j_justify(jrender *r, const jstring *s, int64_t width, uint32_t fill, jjustify side,
                    jvalue *out);

/* Python's int(text, base) and float(text): blanks around, single underscores between digits. */
bool mica_j_read_integer(jrender *r, const jstring *s, int base, jvalue *out, bool *is_number);
bool mica_j_read_float(const jstring *s, double *out);

#endif
