/* jinja_string.h: text with provenance: building, cutting, searching, Unicode.
 *
 * Positions are bytes unless a name says chars. Cutting a string cuts its spans; a builder joins
 * spans of one origin that touch.
 */
#ifndef MICA_TEXT_JINJA_STRING_H
#define MICA_TEXT_JINJA_STRING_H

#include "text/template/jinja_run.h"

/* ---- building ---- */

bool mica_j_put(jrender *r, jbuffer *to, const char *text, size_t n, text_origin origin);
bool mica_j_put_text(jrender *r, jbuffer *to, const char *text); /* the template's own */
bool mica_j_put_slice(jrender *r, jbuffer *to, const jstring *s, size_t begin, size_t end);
bool mica_j_put_string(jrender *r, jbuffer *to, const jstring *s);
bool mica_j_put_char(jrender *r, jbuffer *to, uint32_t c, text_origin origin);
/* n times the character. */
bool mica_j_put_fill(jrender *r, jbuffer *to, uint32_t c, size_t n);
/* & < > ' " as entities. */
bool mica_j_put_escaped(jrender *r, jbuffer *to, const jstring *s);
/* The text as a string that may be continued in place by mica_j_concat. The buffer must be from
 * mica_j_buffer_new and not be written to any more. */
bool mica_j_finish(jrender *r, jbuffer *b, bool is_markup, const jstring **out);
jbuffer *mica_j_buffer_new(jrender *r);

/* ---- strings ---- */

const jstring *mica_j_string(jrender *r, const char *text, size_t n, text_origin origin);
const jstring *mica_j_cstring(jrender *r, const char *text); /* text must outlive the render */
const jstring *mica_j_cut(jrender *r, const jstring *s, size_t begin, size_t end);
const jstring *mica_j_mark(jrender *r, const jstring *s, bool is_markup);
bool mica_j_concat(jrender *r, const jstring *a, const jstring *b, bool is_markup,
                   const jstring **out);
bool mica_j_escape(jrender *r, const jstring *s, const jstring **out); /* marked text as it is */
text_origin mica_j_origin_at(const jstring *s, size_t at);
bool mica_j_string_is(const jstring *s, const char *text);
bool mica_j_string_equal(const jstring *a, const jstring *b);
int mica_j_string_order(const jstring *a, const jstring *b); /* by code points */

/* ---- code points ---- */

size_t mica_j_n_chars(const jstring *s);
/* The byte where character `index` begins; n for index >= n_chars. */
size_t mica_j_char_offset(const jstring *s, size_t index);
size_t mica_j_chars_between(const jstring *s, size_t begin, size_t end);
/* The code point at byte `at` and the bytes it takes (text is valid UTF-8). */
uint32_t mica_j_char_at(const char *text, size_t n, size_t at, size_t *n_bytes);
/* The beginning of the character that ends at `end` > 0. */
size_t mica_j_char_before(const char *text, size_t end);

/* The first or last place of `needle` in [begin, end), or SIZE_MAX. */
size_t mica_j_find(const jstring *s, size_t begin, size_t end, const jstring *needle);
size_t mica_j_find_last(const jstring *s, size_t begin, size_t end, const jstring *needle);
/* [begin, end) without characters of `set` (NULL: white space) at the sides asked for. */
void mica_j_strip_bounds(const jstring *s, const jstring *set, bool is_left, bool is_right,
                         size_t *begin, size_t *end);

/* ---- Unicode as Python sees it (jinja_unicode.c) ---- */

bool mica_j_is_space(uint32_t c);
bool mica_j_is_line_end(uint32_t c); /* of splitlines */
bool mica_j_is_alpha(uint32_t c);
bool mica_j_is_decimal(uint32_t c);
bool mica_j_is_digit(uint32_t c);
bool mica_j_is_alnum(uint32_t c);
bool mica_j_is_printable(uint32_t c);
bool mica_j_is_lower(uint32_t c);
bool mica_j_is_upper(uint32_t c);
bool mica_j_is_title(uint32_t c);
bool mica_j_is_cased(uint32_t c);
bool mica_j_is_name_char(uint32_t c, bool is_first);

typedef enum jcase { CASE_UPPER, CASE_LOWER, CASE_TITLE } jcase;
/* Full mapping of one character: 1 to 3 code points. */
int mica_j_map_case(uint32_t c, jcase to, uint32_t out[3]);
/* Appends [begin, end) in another case, with the final sigma in lower case. */
bool mica_j_put_case(jrender *r, jbuffer *to, const jstring *s, size_t begin, size_t end,
                     jcase kind);
/* s.lower() and the like; the mark is kept. */
bool mica_j_change_case(jrender *r, const jstring *s, jcase kind, const jstring **out);

#endif
