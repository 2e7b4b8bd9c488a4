/* alloc.h: all heap allocation of mica, and arenas.
 *
 * Every allocation of the library goes through mica_malloc and its siblings, so that a test can
 * make the n-th one fail (it wraps these symbols at link time). An arena groups what dies together.
 */
#ifndef MICA_BASE_ALLOC_H
#define MICA_BASE_ALLOC_H

#include "base/status.h"

/* As malloc, calloc and realloc; n = 0 gives a pointer that can be freed. NULL when out of memory.
 */
void *mica_malloc(size_t n_bytes);
void *mica_calloc(size_t count, size_t size);
void *mica_realloc(void *p, size_t n_bytes);
void mica_free(void *p); /* NULL is fine */

/* `alignment` a power of two. Freed with mica_free. Not zeroed. */
void *mica_aligned_alloc(size_t alignment, size_t n_bytes);

/* A copy of `n` bytes of `s` with a terminating NUL; freed with mica_free. NULL: out of memory. */
char *mica_strndup(const char *s, size_t n);
char *mica_strdup(const char *s);
/* A formatted string; freed with mica_free. NULL: out of memory. */
char *mica_asprintf(const char *format, ...) MICA_PRINTF(1, 2);

/* A bump allocator: chunks that are all released together. */
typedef struct mica_arena {
    struct arena_chunk *chunks;
    size_t chunk_bytes;
    size_t used_bytes; /* sum over all chunks */
} mica_arena;

/* chunk_bytes 0 = 64 KiB. Allocates nothing yet. */
void mica_arena_init(mica_arena *arena, size_t chunk_bytes);
void mica_arena_deinit(mica_arena *arena);
/* Zeroed, aligned to 16 bytes; NULL when out of memory. Lives as long as the arena. */
void *mica_arena_alloc(mica_arena *arena, size_t n_bytes);
void *mica_arena_calloc(mica_arena *arena, size_t count, size_t size); /* checks count*size */
char *mica_arena_strndup(mica_arena *arena, const char *s, size_t n);

#endif
