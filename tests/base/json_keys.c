/* Twins among keys that were chosen to collide. The source is included to reach its hash. */
#include "cmocka_base.h"

#include <stdio.h>

#include "base/json_keys.c"

enum { N_KEYS = 64, N_SLOTS = 128 };

static char names[N_KEYS][16];
static json_entry entries[N_KEYS];

/* Keys that all begin at the same slot. */
static void make_colliding_keys(void) {
    unsigned n = 0; /* about 8000 tries */
    for (unsigned i = 0; n < N_KEYS; i++) {
        int n_name = snprintf(names[n], sizeof(names[n]), "k%u", i);
        if ((hash_key(names[n], (size_t)n_name) & (N_SLOTS - 1)) != 5) continue;
        entries[n] = (json_entry){.key = names[n], .n_key = (size_t)n_name, .key_off = n};
        n++;
    }
}

static void collisions_end_the_hashing(void **state) {
    (void)state;
    make_colliding_keys();
    static key_slot slots[N_SLOTS];
    const json_entry *twin = &entries[3];
    assert_false(find_by_hashing(entries, N_KEYS, slots, N_SLOTS - 1, &twin));
    assert_true(mica_json_find_twin(entries, N_KEYS, &twin));
    assert_null(twin);
}

static void twins_are_found_by_sorting(void **state) {
    (void)state;
    make_colliding_keys();
    for (size_t later = 1; later < N_KEYS; later++) {
        for (size_t earlier = 0; earlier < later; earlier++) {
            const json_entry before = entries[later];
            entries[later].key = entries[earlier].key;
            entries[later].n_key = entries[earlier].n_key;
            const json_entry *twin = NULL;
            assert_true(find_by_sorting(entries, N_KEYS, &twin));
            assert_ptr_equal(twin, &entries[later]);
            assert_true(mica_json_find_twin(entries, N_KEYS, &twin));
            assert_ptr_equal(twin, &entries[later]);
            entries[later] = before;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collisions_end_the_hashing),
        cmocka_unit_test(twins_are_found_by_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
