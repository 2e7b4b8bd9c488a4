/* test_weights_pack.c: the file of a pack: what was put in comes out, and a pack that was written
 * before the machine's last start is used only if every byte of it reached the disk.
 */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "weights/pack_file.h"

enum {
    N_DATA = 3 << 20,
    BOOT_AT = 8 + 8 + 24 + 16 + 8,
    CHECKSUM_AT = BOOT_AT + 40 + PACK_SOURCE_BYTES
};

static const pack_key key = {1, 2, 3};
static char folder[64], path[96];

static pack_entry *entries(void) {
    static pack_entry e[2] = {{.name = "a.weight", .off = 0, .n_bytes = 5000},
                              {.name = "b.weight", .off = 8192, .n_bytes = 2 << 20}};
    return e;
}

static void make(mica_pool *pool) {
    pack_file p;
    char *data = malloc(N_DATA);
    for (int i = 0; i < N_DATA; i++)
        data[i] = (char)(i * 7 + i / 1000);
    assert_true(mica_pack_create(&p, path, 2, N_DATA));
    for (int i = 0; i < N_DATA; i += 65536)
        assert_true(mica_pack_put(&p, (uint64_t)i, data + i, 65536));
    assert_true(mica_pack_finish(&p, &key, "/no/model", entries(), 2, N_DATA, pool));
    mica_pack_close(&p);
    free(data);
}

static bool opens(const pack_key *k, const pack_entry *e, uint64_t n) {
    pack_file p;
    bool ok = mica_pack_open(&p, path, k, e, n, NULL);
    if (ok) assert_int_equal(p.data_off % 4096, 0);
    mica_pack_close(&p);
    return ok;
}

static void change(long at, const void *data, size_t n) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

/* As if another start of the machine had written it. */
static void set_boot(const char *boot) {
    char *data;
    size_t n;
    mica_error err;
    assert_int_equal(mica_file_read(&data, &n, path, 1 << 24, &err), MICA_OK);
    char field[40] = {0};
    snprintf(field, sizeof(field), "%s", boot);
    memcpy(data + BOOT_AT, field, sizeof(field));
    uint64_t sum = mica_pack_hash(data, CHECKSUM_AT);
    change(BOOT_AT, field, sizeof(field));
    change(CHECKSUM_AT, &sum, sizeof(sum));
    mica_free(data);
}

static void boot_of(char out[40]) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, BOOT_AT, SEEK_SET);
    assert_int_equal(fread(out, 1, 40, file), 40);
    fclose(file);
}

static void what_it_fits(void **state) {
    (void)state;
    make(NULL);
    assert_true(opens(&key, entries(), 2));
    const pack_key others[] = {{9, 2, 3}, {1, 9, 3}, {1, 2, 9}};
    for (int i = 0; i < 3; i++)
        assert_false(opens(&others[i], entries(), 2));
    assert_false(opens(&key, entries(), 1));
    pack_entry other[2] = {entries()[0], entries()[1]};
    other[1].n_bytes--;
    assert_false(opens(&key, other, 2));
    other[1] = entries()[1];
    strcpy(other[0].name, "c.weight");
    assert_false(opens(&key, other, 2));
}

static void another_start(void **state) {
    (void)state;
    mica_pool *pool;
    mica_error err;
    char boot[40];
    assert_int_equal(mica_pool_new(&pool, 3, &err), MICA_OK);
    make(pool);
    assert_int_equal(mica_pack_verify(path, NULL, &err), MICA_OK);
    set_boot("another");
    assert_true(opens(&key, entries(), 2)); /* verified, and marked so */
    boot_of(boot);
    assert_int_equal(boot[0], 0);
    change(12000 + 8192, "x", 1);
    assert_true(opens(&key, entries(), 2)); /* as any pack that has been on the disk */
    assert_int_equal(mica_pack_verify(path, pool, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "b.weight"));
    set_boot("another");
    assert_false(opens(&key, entries(), 2));
    mica_pool_free(pool);
}

/* Every truncation and every changed byte of head and table is found. */
static void damage(void **state) {
    (void)state;
    make(NULL);
    for (long at = 0; at < CHECKSUM_AT + 8 + 2 * (long)sizeof(pack_entry); at += 3) {
        FILE *file = fopen(path, "r+b");
        fseek(file, at, SEEK_SET);
        int c = fgetc(file);
        fclose(file);
        char wrong = (char)(c ^ 0x41), right = (char)c;
        change(at, &wrong, 1);
        assert_false(opens(&key, entries(), 2));
        change(at, &right, 1);
    }
    assert_true(opens(&key, entries(), 2));
    assert_int_equal(truncate(path, 5000), 0);
    assert_false(opens(&key, entries(), 2));
    assert_int_equal(truncate(path, 0), 0);
    assert_false(opens(&key, entries(), 2));
    unlink(path);
    assert_false(opens(&key, entries(), 2));
}

int main(void) {
    if (!mica_pack_is_supported()) return 2; /* this test is built only where the hash is */
    strcpy(folder, "/tmp/mica-test-XXXXXX");
    if (!mkdtemp(folder)) return 2;
    snprintf(path, sizeof(path), "%s/x.pack", folder);
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_it_fits),
                                       cmocka_unit_test(another_start), cmocka_unit_test(damage)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return rc;
}
