/* alloc.c: the only calls of malloc and its siblings in mica.
 *
 * Nothing in this file calls another function of it, and nothing else is defined here: a test that
 * makes the n-th allocation fail wraps these symbols when it links, which reaches only calls from
 * other objects.
 */
#include "base/alloc.h"

#include <stdlib.h>

#include "base/checked.h"

void *mica_malloc(size_t n_bytes) { return malloc(n_bytes ? n_bytes : 1); }

void *mica_calloc(size_t count, size_t size) {
    size_t n_bytes;
    if (!mica_mul_size(count, size, &n_bytes)) return NULL;
    return calloc(n_bytes ? n_bytes : 1, 1);
}

void *mica_realloc(void *p, size_t n_bytes) { return realloc(p, n_bytes ? n_bytes : 1); }

void mica_free(void *p) { free(p); }

void *mica_aligned_alloc(size_t alignment, size_t n_bytes) {
    void *p = NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&p, alignment, n_bytes ? n_bytes : 1)) return NULL;
    return p;
}
