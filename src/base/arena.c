/* arena.c: a bump allocator over a list of chunks.
 *
 * The first chunk of the list is the one being filled. A request that would waste much of a chunk
 * gets a chunk of its own, which is put behind the first so that filling goes on there.
 */
#include "base/alloc.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked.h"

enum { DEFAULT_CHUNK_BYTES = 65536, ALIGNMENT = 16 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t n_bytes; /* behind the header */
    size_t used;
    alignas(ALIGNMENT) unsigned char data[];
};

void mica_arena_init(mica_arena *arena, size_t chunk_bytes) {
    arena->chunks = NULL;
    arena->chunk_bytes = chunk_bytes ? chunk_bytes : DEFAULT_CHUNK_BYTES;
    arena->used_bytes = 0;
}

void mica_arena_deinit(mica_arena *arena) {
    struct arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        mica_free(chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->used_bytes = 0;
}

static struct arena_chunk *new_chunk(size_t n_bytes) {
    size_t total;
    if (!mica_add_size(sizeof(struct arena_chunk), n_bytes, &total)) return NULL;
    struct arena_chunk *chunk = mica_calloc(1, total);
    if (chunk) chunk->n_bytes = n_bytes;
    return chunk;
}

static struct arena_chunk *chunk_with_room(mica_arena *arena, size_t n_bytes) {
    struct arena_chunk *first = arena->chunks;
    if (first && first->n_bytes - first->used >= n_bytes) return first;
    bool is_large = n_bytes > arena->chunk_bytes / 4;
    struct arena_chunk *chunk = new_chunk(is_large ? n_bytes : arena->chunk_bytes);
    if (!chunk) return NULL;
    if (is_large && first) {
        chunk->next = first->next;
        first->next = chunk;
    } else {
        chunk->next = first;
        arena->chunks = chunk;
    }
    return chunk;
}

void *mica_arena_alloc(mica_arena *arena, size_t n_bytes) {
    if (n_bytes > SIZE_MAX - 2 * ALIGNMENT) return NULL;
    n_bytes = mica_align_up(n_bytes ? n_bytes : 1, ALIGNMENT);
    struct arena_chunk *chunk = chunk_with_room(arena, n_bytes);
    if (!chunk) return NULL;
    void *p = chunk->data + chunk->used;
    chunk->used += n_bytes;
    arena->used_bytes += n_bytes;
    return p;
}

void *mica_arena_calloc(mica_arena *arena, size_t count, size_t size) {
    size_t n_bytes;
    return mica_mul_size(count, size, &n_bytes) ? mica_arena_alloc(arena, n_bytes) : NULL;
}

char *mica_arena_strndup(mica_arena *arena, const char *s, size_t n) {
    size_t n_bytes;
    char *copy = mica_add_size(n, 1, &n_bytes) ? mica_arena_alloc(arena, n_bytes) : NULL;
    if (copy && n) memcpy(copy, s, n);
    return copy;
}
