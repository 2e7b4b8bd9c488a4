/* cache.c: compiled copies of tokenizer.json: made, used, equal to the source, dropped when the
 * source changed or a byte of the copy did; and nothing but time is lost when memory runs out, the
 * disk is full, the folder cannot be used, or many programs write at once.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "fault_alloc.h"
#include "text/tokenizer/token_cache.h"

#define N_WORDS 90000

static char root[512], folder[544], source_path[576], cache_root[544];
static text_buffer json;

static void put(const char *s) {
    assert_int_equal(mica_text_buffer_append(&json, s, strlen(s), NULL), MICA_OK);
}

/* Letters, then words made of them: "ab" is a + b, "abc" is ab + c ... */
static void word(char *out, unsigned i) {
    size_t n = 0;
    do {
        out[n++] = (char)('a' + i % 26);
        i /= 26;
    } while (i);
    out[n] = '\0';
}

static void build(const char *kind, const char *added) {
    char w[16], line[96];
    bool is_bpe = strcmp(kind, "BPE") == 0;
    json.n = 0;
    put("{\"version\":\"1.0\",\"added_tokens\":[{\"id\":100000,\"content\":\"");
    put(added);
    put("\",\"special\":true}],\"model\":{\"type\":\"");
    put(kind);
    put(is_bpe ? "\",\"continuing_subword_prefix\":null,\"unk_token\":\"a\",\"vocab\":{"
               : "\",\"unk_id\":0,\"vocab\":[");
    for (unsigned i = 0; i < N_WORDS; i++) {
        word(w, i);
        if (is_bpe) snprintf(line, sizeof(line), "%s\"%s\":%u", i ? "," : "", w, i);
        if (!is_bpe) {
            snprintf(line, sizeof(line), "%s[\"%s\",-%.2f]", i ? "," : "", w, 3 + (i % 977) / 50.0);
        }
        put(line);
    }
    put(is_bpe ? "},\"merges\":[" : "]");
    bool is_first = true;
    for (unsigned i = 26; i < N_WORDS && is_bpe; i++) {
        word(w, i);
        size_t n = strlen(w);
        if (n > 2 && w[n - 2] == 'a') continue; /* a number does not end with the digit 0 */
        snprintf(line, sizeof(line), "%s[\"%.*s\",\"%s\"]", is_first ? "" : ",", (int)n - 1, w,
                 w + n - 1);
        is_first = false;
        put(line);
    }
    put(is_bpe ? "]}}" : "}}");
    mica_error err = {0};
    if (mica_file_write(source_path, json.data, json.n, &err)) fail_msg("%s", err.message);
}

static char *cache_path(cache_stamp *stamp) {
    mica_map *map;
    assert_int_equal(mica_map_open(&map, source_path, NULL), MICA_OK);
    char *path = mica_cache_path(map);
    *stamp = mica_cache_stamp(map);
    mica_map_unref(map);
    assert_non_null(path);
    return path;
}

/* Whether there is a copy that counts. */
static bool has_copy(void) {
    cache_stamp stamp;
    char *path = cache_path(&stamp);
    token_cache *c = mica_token_cache_open(path, stamp);
    bool is_there = c != NULL;
    mica_token_cache_close(c);
    mica_free(path);
    return is_there;
}

static void remove_copy(void) {
    cache_stamp stamp;
    char *path = cache_path(&stamp);
    unlink(path);
    mica_free(path);
}

static void encode(const tokenizer *t, token_list *ids) {
    static const char text[] = "abcabcabc zebra qqq the quick brown fox <x> jumps\xC3\xA9 <y> over";
    mica_error err = {0};
    const encode_options options = {.add_special = true, .parse_special = true};
    if (mica_tokenizer_encode(t, text, sizeof(text) - 1, options, ids, &err)) {
        fail_msg("%s", err.message);
    }
}

/* Opens with the cache and without; both must do the same. */
static void check_same(void) {
    tokenizer *a = NULL, *b = NULL;
    mica_error err = {0};
    token_list x = {0}, y = {0};
    if (mica_tokenizer_open(&a, folder, &err)) fail_msg("%s", err.message);
    if (mica_tokenizer_open_source(&b, folder, &err)) fail_msg("%s", err.message);
    assert_int_equal(mica_tokenizer_vocab_size(a), mica_tokenizer_vocab_size(b));
    for (int32_t id = 0; (size_t)id < mica_tokenizer_vocab_size(a); id++) {
        size_t n = 0, m = 0;
        const char *s = mica_tokenizer_token(a, id, &n), *r = mica_tokenizer_token(b, id, &m);
        assert_true(n == m && !s == !r && (!s || memcmp(s, r, n) == 0));
        if (s && n) assert_int_equal(mica_tokenizer_find(a, s, n), mica_tokenizer_find(b, s, n));
    }
    assert_string_equal(mica_tokenizer_warnings(a), mica_tokenizer_warnings(b));
    encode(a, &x);
    encode(b, &y);
    assert_true(x.n > 5);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.ids, y.ids, x.n * sizeof(*x.ids));
    mica_free(x.ids);
    mica_free(y.ids);
    mica_tokenizer_free(a);
    mica_tokenizer_free(b);
}

static void test_made_and_used(void **state) {
    (void)state;
    static const char *const kinds[] = {"BPE", "Unigram"};
    for (int i = 0; i < 2; i++) {
        build(kinds[i], "<x>");
        remove_copy();
        assert_false(has_copy());
        check_same();
        assert_true(has_copy());
        check_same();
    }
}

static void test_stale(void **state) {
    (void)state;
    struct stat st;
    build("BPE", "<x>");
    check_same();
    assert_true(has_copy());
    /* Same size and time, other bytes. */
    assert_int_equal(stat(source_path, &st), 0);
    build("BPE", "<y>");
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, source_path, times, 0), 0);
    assert_false(has_copy());
    check_same();
    assert_true(has_copy());
    /* Another time alone is enough. */
    times[1].tv_sec++;
    assert_int_equal(utimensat(AT_FDCWD, source_path, times, 0), 0);
    assert_false(has_copy());
}

static void test_broken(void **state) {
    (void)state;
    cache_stamp stamp;
    char *data;
    size_t n;
    build("BPE", "<x>");
    check_same();
    char *path = cache_path(&stamp);
    assert_int_equal(mica_file_read(&data, &n, path, 1u << 30, NULL), MICA_OK);
    for (size_t at = 0; at < n; at += at < 200 ? 1 : n / 61) {
        data[at] ^= 0x10;
        assert_int_equal(mica_file_write(path, data, n, NULL), MICA_OK);
        assert_false(has_copy());
        data[at] ^= 0x10;
    }
    for (size_t cut = 0; cut < n; cut += cut < 250 || n - cut < 20 ? 1 : (n - cut) / 9 + 1) {
        assert_int_equal(mica_file_write(path, data, cut, NULL), MICA_OK);
        assert_false(has_copy());
    }
    char *longer = mica_realloc(data, n + 8);
    assert_non_null(longer);
    memset(longer + n, 0, 8);
    data = longer;
    assert_int_equal(mica_file_write(path, data, n + 8, NULL), MICA_OK);
    assert_false(has_copy());
    check_same(); /* and repaired */
    assert_true(has_copy());
    mica_free(data);
    mica_free(path);
}

/* Files in the cache folder: at most the copy, never a half-written one. */
static int count_files(void) {
    char path[576];
    int n = 0;
    snprintf(path, sizeof(path), "%s/mica", cache_root);
    DIR *listing = opendir(path);
    assert_non_null(listing);
    while (readdir(listing))
        n++;
    closedir(listing);
    return n - 2;
}

static void test_no_folder(void **state) {
    (void)state;
    char path[576];
    build("Unigram", "<x>");
    static const char *const names[] = {"/proc/none", "relative", "", "/dev/null"};
    for (int i = 0; i < 4; i++) {
        setenv("XDG_CACHE_HOME", names[i], 1);
        setenv("HOME", "/dev/null", 1);
        check_same();
    }
    setenv("XDG_CACHE_HOME", source_path, 1); /* a file where a folder should be */
    check_same();
    setenv("XDG_CACHE_HOME", cache_root, 1);
    /* A folder where the copy should be. */
    cache_stamp stamp;
    char *copy = cache_path(&stamp);
    unlink(copy);
    assert_int_equal(mkdir(copy, 0700), 0);
    check_same();
    assert_false(has_copy());
    assert_int_equal(rmdir(copy), 0);
    snprintf(path, sizeof(path), "%s/mica", cache_root);
    assert_int_equal(chmod(path, 0500), 0); /* root writes all the same */
    check_same();
    assert_int_equal(chmod(path, 0700), 0);
    check_same();
    assert_true(has_copy());
    mica_free(copy);
}

/* No file may grow beyond a limit, as on a full disk. */
static void test_disk_full(void **state) {
    (void)state;
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    build("BPE", "<x>");
    remove_copy();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    for (rlim_t limit = 0; limit < 1 << 22; limit = 3 * limit + 100) {
        small.rlim_cur = limit;
        setrlimit(RLIMIT_FSIZE, &small);
        tokenizer *t = NULL;
        mica_error err = {0};
        mica_status st = mica_tokenizer_open(&t, folder, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        if (st) fail_msg("%s", err.message);
        mica_tokenizer_free(t);
        assert_int_equal(count_files(), has_copy() ? 1 : 0);
        remove_copy();
    }
    check_same();
    assert_true(has_copy());
}

/* Opens with the n-th allocation failing; without a copy it is made, if `has_one` it is used. */
static void fail_allocation(long n, bool has_one) {
    tokenizer *t = NULL;
    mica_error err = {0};
    if (!has_one) remove_copy();
    long before = fault_alloc_live();
    fault_alloc_arm(n);
    mica_status st = mica_tokenizer_open(&t, folder, &err);
    fault_alloc_arm(0);
    bool is_fine = st == MICA_OK || (st == MICA_E_NOMEM && err.code == st && err.message[0]);
    if (!is_fine) fail_msg("allocation %ld: status %d, '%s'", n, (int)st, err.message);
    token_list ids = {0};
    if (!st) {
        encode(t, &ids);
        assert_true(ids.n > 5);
    }
    mica_free(ids.ids);
    mica_tokenizer_free(st ? NULL : t);
    assert_int_equal(fault_alloc_live(), before);
    assert_int_equal(count_files(), has_copy() ? 1 : 0);
}

static void test_no_memory(void **state) {
    (void)state;
    build("BPE", "<x>");
    for (int has_one = 0; has_one < 2; has_one++) {
        fail_allocation(0, false);
        assert_true(has_copy());
        if (!has_one) remove_copy();
        tokenizer *t = NULL;
        fault_alloc_arm(0);
        assert_int_equal(mica_tokenizer_open(&t, folder, NULL), MICA_OK);
        long n_calls = fault_alloc_calls();
        mica_tokenizer_free(t);
        assert_true(n_calls > 20);
        for (long i = 1; i <= n_calls; i += i > 40 && !has_one ? 3 : 1) {
            fail_allocation(i, has_one);
        }
        print_message("%ld allocations %s a copy\n", n_calls, has_one ? "with" : "without");
    }
    check_same();
}

/* A copy that another program cuts short while it is in use. */
static void test_cut_short(void **state) {
    (void)state;
    build("BPE", "<x>");
    fail_allocation(0, false);
    cache_stamp stamp;
    char *path = cache_path(&stamp);
    token_cache *c = mica_token_cache_open(path, stamp);
    assert_non_null(c);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(c->small[0], '{');
    mica_token_cache_close(c);
    mica_free(path);
    check_same();
}

/* Programs that open, and drop and damage the copy, all at once: each gets the same tokenizer. */
static void test_many_writers(void **state) {
    (void)state;
    enum { N_PROGRAMS = 6, N_ROUNDS = 4 };
    build("BPE", "<x>");
    cache_stamp stamp;
    char *path = cache_path(&stamp);
    for (int i = 0; i < N_PROGRAMS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        for (int k = 0; k < N_ROUNDS; k++) {
            tokenizer *t = NULL;
            if (mica_tokenizer_open(&t, folder, NULL)) _exit(1);
            bool is_right = mica_tokenizer_vocab_size(t) == 100001 &&
                            mica_tokenizer_find(t, "abc", 3) == 26 * 26 * 2 + 26;
            mica_tokenizer_free(t);
            if (!is_right) _exit(2);
            if (k + i == 3) unlink(path);
            if (k + i == 5 && truncate(path, 5000)) unlink(path);
        }
        _exit(0);
    }
    for (int i = 0; i < N_PROGRAMS; i++) {
        int status = -1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    check_same();
    assert_true(has_copy());
    assert_int_equal(count_files(), 1);
    mica_free(path);
}

static int begin(void **state) {
    (void)state;
    char here[32] = "cache-XXXXXX", *full;
    if (!mkdtemp(here) || !(full = realpath(here, NULL)) || strlen(full) >= sizeof(root)) return 1;
    strcpy(root, full);
    free(full);
    snprintf(folder, sizeof(folder), "%s/model", root);
    snprintf(source_path, sizeof(source_path), "%s/tokenizer.json", folder);
    snprintf(cache_root, sizeof(cache_root), "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache_root, 1);
    return mkdir(folder, 0700);
}

static int end(void **state) {
    (void)state;
    char path[576];
    remove_copy();
    unlink(source_path);
    rmdir(folder);
    snprintf(path, sizeof(path), "%s/mica", cache_root);
    rmdir(path);
    rmdir(cache_root);
    mica_text_buffer_deinit(&json);
    return rmdir(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_and_used), cmocka_unit_test(test_stale),
        cmocka_unit_test(test_broken),        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_disk_full),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cut_short),     cmocka_unit_test(test_many_writers)};
    return cmocka_run_group_tests(tests, begin, end);
}
