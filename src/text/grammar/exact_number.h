/* exact_number.h: the numbers of a schema as they are written, without rounding.
 *
 * A value is +-0.d1d2d3... * 10^point with neither zeros at the ends. The digits stay where they
 * were read, so nothing is as long as a number may be.
 */
#ifndef MICA_TEXT_GRAMMAR_EXACT_NUMBER_H
#define MICA_TEXT_GRAMMAR_EXACT_NUMBER_H

#include "base/decimal.h"
#include "base/json.h"

typedef struct exact_number {
    const char *digits; /* may hold a point, to be passed over */
    size_t n_digits;    /* 0: the number is zero */
    int64_t point;
    bool is_negative;
    char text[MICA_DECIMAL_BYTES]; /* of a number that was not read as text */
} exact_number;

/* `v` is a finite number and outlives *out, which is not to be moved. */
void mica_exact_number(exact_number *out, const json_value *v);
/* Below, equal to or above 0, as a is to b; both finite numbers. */
int mica_exact_compare(const json_value *a, const json_value *b);
bool mica_exact_is_integer(const json_value *v);
/* Writes all digits, without an exponent; false: that takes `capacity` bytes or more. */
bool mica_exact_write(char *out, size_t capacity, const json_value *v);

#endif
