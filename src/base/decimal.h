/* decimal.h: decimal text to binary floating point and back, exact and independent of the locale.
 */
#ifndef MICA_BASE_DECIMAL_H
#define MICA_BASE_DECIMAL_H

#include <stddef.h>

enum { MICA_DECIMAL_BYTES = 32 };

/* `text` is a number of JSON's grammar (more leading zeros are fine); the nearest double, ties to
 * even, infinity beyond the largest. */
double mica_decimal_parse(const char *text, size_t n);

/* The shortest text that reads back as `v` and of those the nearest, laid out as Python's repr
 * does: "0.1", "1.0", "1e+22", "1e-05", "inf", "nan". NUL-terminated; gives the length. */
size_t mica_decimal_format(char out[MICA_DECIMAL_BYTES], double v);
/* The same for reading back as float. */
size_t mica_decimal_format_float(char out[MICA_DECIMAL_BYTES], float v);

#endif
