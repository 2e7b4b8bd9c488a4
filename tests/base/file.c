/* Files: maps, whole reads with a limit, atomic writes, folders; every error names its path. */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "fault_alloc.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/mica-test-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char **names = NULL;
    size_t n = 0;
    if (mica_folder_list(&names, &n, folder, "", "", NULL)) return -1;
    for (size_t i = 0; i < n; i++) {
        char *path = mica_path_join(folder, names[i]);
        remove(path);
        mica_free(path);
    }
    mica_names_free(names, n);
    return rmdir(folder);
}

/* A path in the test's folder, valid until the fourth call after. */
static const char *in_folder(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void write_and_read_back(void **state) {
    (void)state;
    const char *path = in_folder("data");
    mica_error err;
    assert_int_equal(mica_file_write(path, "first", 5, &err), MICA_OK);
    assert_int_equal(mica_file_write(path, "sec\0nd", 6, &err), MICA_OK);
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(mica_file_read(&text, &n, path, 6, &err), MICA_OK);
    assert_int_equal(n, 6);
    assert_memory_equal(text, "sec\0nd", 7);
    mica_free(text);
    char **names = NULL;
    assert_int_equal(mica_folder_list(&names, &n, folder, "data", "", &err), MICA_OK);
    assert_int_equal(n, 1); /* no temporary file is left */
    mica_names_free(names, n);
}

static void read_limits(void **state) {
    (void)state;
    const char *path = in_folder("large");
    static char large[100000];
    memset(large, 'x', sizeof(large));
    assert_int_equal(mica_file_write(path, large, sizeof(large), NULL), MICA_OK);
    char *text = NULL;
    size_t n = 0;
    mica_error err;
    assert_int_equal(mica_file_read(&text, &n, path, sizeof(large) - 1, &err), MICA_E_LIMIT);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "99999"));
    assert_null(text);
    assert_int_equal(mica_file_read(&text, &n, path, sizeof(large), &err), MICA_OK);
    assert_int_equal(n, sizeof(large));
    mica_free(text);
    /* A file whose size the system gives as 0. */
    assert_int_equal(mica_file_read(&text, &n, "/proc/self/maps", 1 << 24, &err), MICA_OK);
    assert_true(n > 100 && strlen(text) == n);
    mica_free(text);
    assert_int_equal(mica_file_write(path, "", 0, NULL), MICA_OK);
    assert_int_equal(mica_file_read(&text, &n, path, 0, &err), MICA_OK);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    mica_free(text);
}

static void errors_name_the_path(void **state) {
    (void)state;
    mica_error err;
    char *text = NULL;
    size_t n = 0;
    mica_map *map = NULL;
    char **names = NULL;
    const char *absent = in_folder("absent");
    assert_int_equal(mica_map_open(&map, absent, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, absent));
    assert_int_equal(mica_file_read(&text, &n, absent, 10, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, absent));
    assert_int_equal(mica_folder_list(&names, &n, absent, "", "", &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, absent));
    assert_int_equal(mica_map_open(&map, folder, &err), MICA_E_INVALID);
    assert_non_null(strstr(err.message, folder));
    assert_int_equal(mica_file_read(&text, &n, folder, 10, &err), MICA_E_INVALID);
    assert_int_equal(mica_file_write(in_folder("absent/x"), "a", 1, &err), MICA_E_IO);
    assert_non_null(strstr(err.message, "absent/x"));
    assert_int_equal(mica_file_write(folder, "a", 1, &err), MICA_E_IO);
    const char *pipe = in_folder("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(mica_map_open(&map, pipe, &err), MICA_E_INVALID);
}

static void map_counts_references(void **state) {
    (void)state;
    const char *path = in_folder("mapped");
    enum { N = 5 * 4096 + 17 };
    static char data[N];
    for (int i = 0; i < N; i++) {
        data[i] = (char)(i * 7);
    }
    assert_int_equal(mica_file_write(path, data, N, NULL), MICA_OK);
    mica_map *map = NULL;
    assert_int_equal(mica_map_open(&map, path, NULL), MICA_OK);
    assert_int_equal(map->size, N);
    assert_string_equal(map->path, path);
    assert_true(map->mtime_ns > 0);
    assert_ptr_equal(mica_map_ref(map), map);
    mica_map_unref(map);
    assert_memory_equal(map->data, data, N);
    mica_map_drop(map, 0, N);
    mica_map_drop(map, 100, 5000);
    mica_map_drop(map, N, 1);
    mica_map_drop(map, UINT64_MAX - 3, 2);
    mica_map_drop(map, 5, UINT64_MAX);
    assert_memory_equal(map->data, data, N); /* what was dropped comes back from the file */
    mica_map_unref(map);
    mica_map_unref(NULL);
    assert_int_equal(mica_file_write(path, "", 0, NULL), MICA_OK);
    assert_int_equal(mica_map_open(&map, path, NULL), MICA_OK);
    assert_int_equal(map->size, 0);
    assert_null(map->data);
    mica_map_drop(map, 0, 1);
    mica_map_unref(map);
}

static void drop_shrinks_resident_memory(void **state) {
    (void)state;
    const char *path = in_folder("big");
    const size_t n_bytes = 32u << 20;
    char *data = mica_malloc(n_bytes);
    memset(data, 1, n_bytes);
    assert_int_equal(mica_file_write(path, data, n_bytes, NULL), MICA_OK);
    mica_free(data);
    mica_map *map = NULL;
    assert_int_equal(mica_map_open(&map, path, NULL), MICA_OK);
    unsigned sum = 0;
    for (size_t i = 0; i < n_bytes; i += 4096) {
        sum += map->data[i];
    }
    assert_int_equal(sum, n_bytes / 4096);
    uint64_t before = mica_rss_bytes();
    mica_map_drop(map, 0, n_bytes);
    uint64_t after = mica_rss_bytes();
    if (before) assert_true(after + (n_bytes - (4u << 20)) < before);
    assert_true(mica_peak_rss_bytes() + (1u << 20) > before); /* the system's counts are batched */
    mica_map_unref(map);
}

static void folders_are_listed_in_order(void **state) {
    (void)state;
    const char *made[] = {"m-3.st", "m-1.st", "m-2.st", "m-1.json", "x.st", "m-"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(mica_file_write(in_folder(made[i]), "", 0, NULL), MICA_OK);
    }
    char **names = NULL;
    size_t n = 0;
    assert_int_equal(mica_folder_list(&names, &n, folder, "m-", ".st", NULL), MICA_OK);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "m-1.st");
    assert_string_equal(names[1], "m-2.st");
    assert_string_equal(names[2], "m-3.st");
    mica_names_free(names, n);
    assert_int_equal(mica_folder_list(&names, &n, folder, "nothing", "", NULL), MICA_OK);
    assert_int_equal(n, 0);
    mica_names_free(names, n);
    assert_true(mica_path_exists(in_folder("x.st")));
    assert_false(mica_path_exists(in_folder("y.st")));
    assert_true(mica_path_is_folder(folder));
    assert_false(mica_path_is_folder(in_folder("x.st")));
}

static void joined_paths(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    for (int i = 0; i < 4; i++) {
        char *path = mica_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        mica_free(path);
    }
}

/* Runs each operation with its n-th allocation failing until one run has no failure. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    const char *path = in_folder("fault");
    assert_int_equal(mica_file_write(path, "abc", 3, NULL), MICA_OK);
    long live = fault_alloc_live();
    int n_failed = 0;
    for (long fail_at = 1, done = 0; !done; fail_at++) {
        mica_map *map = NULL;
        char *text = NULL, **names = NULL;
        size_t n = 0, n_names = 0;
        fault_alloc_arm(fail_at);
        mica_status st[4] = {mica_map_open(&map, path, NULL),
                             mica_file_read(&text, &n, path, 10, NULL),
                             mica_folder_list(&names, &n_names, folder, "", "", NULL),
                             mica_file_write(path, "abc", 3, NULL)};
        done = fault_alloc_calls() < fail_at;
        fault_alloc_arm(0);
        for (int i = 0; i < 4; i++) {
            assert_true(st[i] == MICA_OK || st[i] == MICA_E_NOMEM);
            n_failed += st[i] != MICA_OK;
        }
        mica_map_unref(map);
        mica_free(text);
        mica_names_free(names, n_names);
        assert_int_equal(fault_alloc_live(), live);
    }
    assert_true(n_failed >= 5);
}

static void clock_goes_forward(void **state) {
    (void)state;
    double a = mica_now_s();
    usleep(2000);
    double b = mica_now_s();
    assert_true(b - a >= 0.0019 && b - a < 5.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read_back),
        cmocka_unit_test(read_limits),
        cmocka_unit_test(errors_name_the_path),
        cmocka_unit_test(map_counts_references),
        cmocka_unit_test(drop_shrinks_resident_memory),
        cmocka_unit_test(folders_are_listed_in_order),
        cmocka_unit_test(joined_paths),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
