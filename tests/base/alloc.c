/* Allocation, arenas, checked sizes: overflow, alignment, zeroing, failure. */
#include "cmocka_base.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fault_alloc.h"

static void checked_arithmetic(void **state) {
    (void)state;
    uint64_t u = 7;
    assert_false(mica_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &u));
    assert_false(mica_add_u64(UINT64_MAX, 1, &u));
    assert_int_equal(u, 7);
    assert_true(mica_mul_u64(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &u));
    assert_true(u == UINT64_MAX - UINT32_MAX);
    size_t s = 7;
    assert_false(mica_mul_size(SIZE_MAX, 2, &s));
    assert_false(mica_add_size(SIZE_MAX, 1, &s));
    assert_int_equal(s, 7);
    assert_true(mica_add_size(SIZE_MAX - 1, 1, &s));
    assert_true(s == SIZE_MAX);
    assert_int_equal(mica_align_up(0, 16), 0);
    assert_int_equal(mica_align_up(17, 16), 32);
    assert_int_equal(mica_align_up(32, 16), 32);
}

static void edges_of_malloc(void **state) {
    (void)state;
    void *p = mica_malloc(0), *q = mica_calloc(0, 5);
    assert_non_null(p);
    assert_non_null(q);
    p = mica_realloc(p, 0);
    assert_non_null(p);
    mica_free(p);
    mica_free(q);
    mica_free(NULL);
    assert_null(mica_calloc(SIZE_MAX / 2, 3));
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *a = mica_aligned_alloc(alignment, 10);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % alignment, 0);
        mica_free(a);
    }
}

static void strings(void **state) {
    (void)state;
    char *a = mica_strndup("abcdef", 3), *b = mica_strdup(""), *c = mica_strndup("a\0b", 3);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "");
    assert_memory_equal(c, "a\0b", 4);
    char *d = mica_asprintf("%s-%05d-%300s", a, 42, "x");
    assert_int_equal(strlen(d), 310);
    assert_memory_equal(d, "abc-00042-  ", 12);
    mica_free(a);
    mica_free(b);
    mica_free(c);
    mica_free(d);
    assert_null(mica_strndup("a", SIZE_MAX));
}

/* Blocks of many sizes: aligned, zeroed, apart from each other, still there at the end. */
static void arena_blocks(void **state) {
    (void)state;
    enum { N = 2000 };
    static unsigned char *blocks[N];
    static size_t sizes[N];
    mica_arena arena;
    mica_arena_init(&arena, 1024);
    uint32_t random = 1;
    size_t total = 0;
    for (int i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u;
        sizes[i] = (random >> 16) % (i % 10 ? 100 : 3000);
        blocks[i] = mica_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(blocks[i][j], 0);
        }
        memset(blocks[i], i & 0xFF, sizes[i]);
        total += sizes[i];
    }
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(blocks[i][j], i & 0xFF);
        }
    }
    assert_true(arena.used_bytes >= total && arena.used_bytes <= total + 16 * N);
    mica_arena_deinit(&arena);
    assert_int_equal(arena.used_bytes, 0);
    mica_arena_deinit(&arena);
}

static void arena_limits(void **state) {
    (void)state;
    mica_arena arena;
    mica_arena_init(&arena, 0);
    assert_null(mica_arena_alloc(&arena, SIZE_MAX));
    assert_null(mica_arena_alloc(&arena, SIZE_MAX - 40));
    assert_null(mica_arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(mica_arena_strndup(&arena, "a", SIZE_MAX));
    assert_string_equal(mica_arena_strndup(&arena, "abcdef", 2), "ab");
    mica_arena_deinit(&arena);
}

static void arena_makes_few_calls_and_survives_failure(void **state) {
    (void)state;
    long live = fault_alloc_live();
    mica_arena arena;
    fault_alloc_arm(2);
    mica_arena_init(&arena, 4096);
    int n_failures = 0;
    for (int i = 0; i < 1000; i++) {
        n_failures += mica_arena_alloc(&arena, 32) == NULL;
    }
    assert_int_equal(n_failures, 1);
    assert_true(fault_alloc_calls() <= 10);
    mica_arena_deinit(&arena);
    assert_int_equal(fault_alloc_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(edges_of_malloc),
        cmocka_unit_test(strings),
        cmocka_unit_test(arena_blocks),
        cmocka_unit_test(arena_limits),
        cmocka_unit_test(arena_makes_few_calls_and_survives_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
