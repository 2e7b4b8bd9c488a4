/* checked.h: arithmetic on sizes that come from outside. False means overflow; *out is untouched.
 */
#ifndef MICA_BASE_CHECKED_H
#define MICA_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mica_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool mica_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool mica_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool mica_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* x rounded up to a multiple of `unit` (a power of two); x must be far from SIZE_MAX. */
static inline size_t mica_align_up(size_t x, size_t unit) { return (x + unit - 1) & ~(unit - 1); }

#endif
