/* strings.c: copies of strings on the heap. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

char *mica_strndup(const char *s, size_t n) {
    size_t n_bytes;
    char *copy = mica_add_size(n, 1, &n_bytes) ? mica_malloc(n_bytes) : NULL;
    if (!copy) return NULL;
    if (n) memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *mica_strdup(const char *s) { return mica_strndup(s, strlen(s)); }

char *mica_asprintf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) return NULL;
    char *s = mica_malloc((size_t)n + 1);
    if (!s) return NULL;
    va_start(args, format);
    vsnprintf(s, (size_t)n + 1, format, args);
    va_end(args);
    return s;
}
