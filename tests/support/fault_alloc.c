/* fault_alloc.c: stands between mica and its allocator; the linker's --wrap redirects the calls. */
#include "fault_alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_mica_malloc(size_t n_bytes);
void *__real_mica_calloc(size_t count, size_t size);
void *__real_mica_realloc(void *p, size_t n_bytes);
void *__real_mica_aligned_alloc(size_t alignment, size_t n_bytes);
void __real_mica_free(void *p);
void *__wrap_mica_malloc(size_t n_bytes);
void *__wrap_mica_calloc(size_t count, size_t size);
void *__wrap_mica_realloc(void *p, size_t n_bytes);
void *__wrap_mica_aligned_alloc(size_t alignment, size_t n_bytes);
void __wrap_mica_free(void *p);

static atomic_long n_calls, n_live, failing_call;

void fault_alloc_arm(long fail_at) {
    n_calls = 0;
    failing_call = fail_at;
}

long fault_alloc_calls(void) { return n_calls; }

long fault_alloc_live(void) { return n_live; }

static bool must_fail(void) { return atomic_fetch_add(&n_calls, 1) + 1 == failing_call; }

static void *count(void *p) {
    if (p) atomic_fetch_add(&n_live, 1);
    return p;
}

void *__wrap_mica_malloc(size_t n_bytes) {
    return must_fail() ? NULL : count(__real_mica_malloc(n_bytes));
}

void *__wrap_mica_calloc(size_t n, size_t size) {
    return must_fail() ? NULL : count(__real_mica_calloc(n, size));
}

void *__wrap_mica_realloc(void *p, size_t n_bytes) {
    if (must_fail()) return NULL;
    void *grown = __real_mica_realloc(p, n_bytes);
    return p ? grown : count(grown);
}

void *__wrap_mica_aligned_alloc(size_t alignment, size_t n_bytes) {
    return must_fail() ? NULL : count(__real_mica_aligned_alloc(alignment, n_bytes));
}

void __wrap_mica_free(void *p) {
    if (p) atomic_fetch_sub(&n_live, 1);
    __real_mica_free(p);
}
