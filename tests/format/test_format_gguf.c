/* test_format_gguf.c: good files, every cut, every damaged byte, and files that lie.
 */
#include "build_gguf.h"
#include "thread_time.h"

#include "base/clock.h"

/* One entry of every type, arrays, and four tensors; the data end with the file. */
static void put_good(bytes *b) {
    put_gguf_head(b, 3, 4, 16);
    put_kv_string(b, "general.architecture", "llama");
    put_kv_u32(b, "general.alignment", 64);
    put_key(b, "u8", GGUF_VALUE_U8);
    put_u8(b, 200);
    put_key(b, "i8", GGUF_VALUE_I8);
    put_u8(b, 0xFE);
    put_key(b, "u16", GGUF_VALUE_U16);
    put_raw(b, &(uint16_t){65000}, 2);
    put_key(b, "i16", GGUF_VALUE_I16);
    put_raw(b, &(int16_t){-300}, 2);
    put_key(b, "i32", GGUF_VALUE_I32);
    put_raw(b, &(int32_t){-70000}, 4);
    put_key(b, "f32", GGUF_VALUE_F32);
    put_raw(b, &(float){0.5f}, 4);
    put_key(b, "bool", GGUF_VALUE_BOOL);
    put_u8(b, 1);
    put_key(b, "u64", GGUF_VALUE_U64);
    put_u64(b, UINT64_MAX);
    put_key(b, "i64", GGUF_VALUE_I64);
    put_raw(b, &(int64_t){-5}, 8);
    put_key(b, "f64", GGUF_VALUE_F64);
    put_raw(b, &(double){0.1}, 8);
    put_kv_array(b, "words", GGUF_VALUE_STRING, 3);
    put_string(b, "one");
    put_string(b, "");
    put_string(b, "three");
    put_kv_array(b, "numbers", GGUF_VALUE_I16, 2);
    put_raw(b, (int16_t[]){7, -7}, 4);
    put_kv_array(b, "flags", GGUF_VALUE_BOOL, 2);
    put_raw(b, (uint8_t[]){0, 1}, 2);
    put_kv_array(b, "none", GGUF_VALUE_F32, 0);
    put_info(b, "a.weight", 2, (uint64_t[]){64, 2}, GGUF_Q4_0, 0); /* 72 bytes */
    put_info(b, "b.weight", 1, (uint64_t[]){5}, GGUF_F32, 128);
    put_info(b, "c.weight", 3, (uint64_t[]){256, 1, 1}, GGUF_Q6_K, 192);
    put_info(b, "d", 0, NULL, GGUF_F16, 448);
    pad_to(b, 64);
    for (int i = 0; i < 450; i++)
        put_u8(b, (uint8_t)i);
}

static mica_status parse(const bytes *b, gguf_file **f, mica_error *err) {
    return mica_gguf_parse(f, b->data, b->n, "test", err);
}

static void good_tensors(void **state) {
    (void)state;
    bytes b = {0};
    gguf_file *f = NULL;
    put_good(&b);
    assert_int_equal(parse(&b, &f, NULL), MICA_OK);
    assert_int_equal(mica_gguf_version(f), 3);
    assert_string_equal(mica_gguf_name(f), "test");
    assert_null(mica_gguf_map(f));
    assert_int_equal(mica_gguf_n_tensors(f), 4);
    const file_tensor *t = mica_gguf_find_tensor(f, "a.weight");
    assert_non_null(t);
    assert_ptr_equal(t, mica_gguf_tensor(f, 0));
    assert_true(t->is_gguf);
    assert_int_equal(t->type, GGUF_Q4_0);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dim[0], 2); /* reversed: rows first */
    assert_int_equal(t->dim[1], 64);
    assert_int_equal(t->n_bytes, 2 * 2 * 18);
    assert_int_equal(t->data[1], 1);
    t = mica_gguf_find_tensor(f, "b.weight");
    assert_int_equal(t->n_bytes, 20);
    assert_int_equal(t->dtype, MICA_F32);
    assert_int_equal(t->data[0], 128);
    assert_int_equal(mica_gguf_find_tensor(f, "c.weight")->n_bytes, 210);
    assert_int_equal(mica_gguf_find_tensor(f, "c.weight")->dim[2], 256);
    assert_int_equal(mica_gguf_find_tensor(f, "d")->n_dims, 0);
    assert_int_equal(mica_gguf_find_tensor(f, "d")->n_bytes, 2);
    assert_null(mica_gguf_find_tensor(f, "e"));
    mica_gguf_close(f);
    mica_gguf_close(NULL);
    bytes_free(&b);
}

static void good_entries(void **state) {
    (void)state;
    bytes b = {0};
    gguf_file *f = NULL;
    put_good(&b);
    assert_int_equal(parse(&b, &f, NULL), MICA_OK);
    assert_int_equal(mica_gguf_n_entries(f), 16);
    gguf_string s = mica_gguf_string(f, "general.architecture");
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.data, "llama", 5);
    assert_int_equal(mica_gguf_integer(f, "u8", 0), 200);
    assert_int_equal(mica_gguf_integer(f, "i8", 0), -2);
    assert_int_equal(mica_gguf_integer(f, "u16", 0), 65000);
    assert_int_equal(mica_gguf_integer(f, "i16", 0), -300);
    assert_int_equal(mica_gguf_integer(f, "i32", 0), -70000);
    assert_int_equal(mica_gguf_integer(f, "i64", 0), -5);
    assert_int_equal(mica_gguf_integer(f, "u64", 9), 9); /* does not fit */
    assert_true(mica_gguf_number(f, "u64", 0) == 18446744073709551615.0);
    assert_true(mica_gguf_number(f, "f32", 0) == 0.5);
    assert_true(mica_gguf_number(f, "f64", 0) == 0.1);
    assert_true(mica_gguf_number(f, "i8", 0) == -2);
    assert_true(mica_gguf_number(f, "general.architecture", 3) == 3);
    assert_true(mica_gguf_bool(f, "bool", false));
    assert_true(mica_gguf_bool(f, "absent", true));
    assert_int_equal(mica_gguf_integer(f, "absent", 42), 42);
    assert_null(mica_gguf_string(f, "u8").data);
    assert_null(mica_gguf_find(f, "absent"));
    mica_gguf_close(f);
    bytes_free(&b);
}

static void good_arrays(void **state) {
    (void)state;
    static const char *const words[] = {"one", "", "three"};
    bytes b = {0};
    gguf_file *f = NULL;
    put_good(&b);
    assert_int_equal(parse(&b, &f, NULL), MICA_OK);
    const gguf_entry *e = mica_gguf_find(f, "words");
    assert_int_equal(e->n, 3);
    uint64_t pos = 0;
    gguf_string s;
    for (int i = 0; i < 3; i++) {
        assert_true(mica_gguf_next_string(e, &pos, &s));
        assert_int_equal(s.n, strlen(words[i]));
        assert_memory_equal(s.data, words[i], s.n);
    }
    assert_false(mica_gguf_next_string(e, &pos, &s));
    e = mica_gguf_find(f, "numbers");
    assert_int_equal(e->element, GGUF_VALUE_I16);
    assert_true(mica_gguf_array_number(e, 0) == 7);
    assert_true(mica_gguf_array_number(e, 1) == -7);
    pos = 0;
    assert_false(mica_gguf_next_string(e, &pos, &s));
    e = mica_gguf_find(f, "flags");
    assert_true(mica_gguf_array_number(e, 0) == 0);
    assert_true(mica_gguf_array_number(e, 1) == 1);
    assert_int_equal(mica_gguf_find(f, "none")->n, 0);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void cut_at_every_byte(void **state) {
    (void)state;
    bytes b = {0};
    put_good(&b);
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *copy = exact_copy(b.data, n);
        gguf_file *f = NULL;
        mica_error err = {0};
        assert_int_equal(mica_gguf_parse(&f, copy, n, "cut", &err), MICA_E_FORMAT);
        assert_null(f);
        assert_true(err.offset <= n);
        free(copy);
    }
    bytes_free(&b);
}

static void check_ranges(const gguf_file *f, const uint8_t *data, size_t n) {
    for (size_t i = 0; i < mica_gguf_n_tensors(f); i++) {
        const file_tensor *t = mica_gguf_tensor(f, i);
        assert_true(t->data >= data && t->n_bytes <= (uint64_t)(data + n - t->data));
        assert_ptr_equal(mica_gguf_find_tensor(f, t->name), t);
    }
    for (size_t i = 0; i < mica_gguf_n_entries(f); i++) {
        const gguf_entry *e = mica_gguf_entry(f, i);
        gguf_string s;
        uint64_t n_strings = 0, pos = 0;
        while (mica_gguf_next_string(e, &pos, &s)) {
            assert_true((const uint8_t *)s.data >= data && s.n <= n);
            n_strings++;
        }
        if (e->type != GGUF_VALUE_ARRAY) continue;
        if (e->element == GGUF_VALUE_STRING)
            assert_int_equal(n_strings, e->n);
        else if (e->n)
            (void)mica_gguf_array_number(e, e->n - 1);
    }
}

static void damage_every_byte(void **state) {
    (void)state;
    static const uint8_t values[] = {0, 1, 2, 3, 8, 9, 13, 31, 64, 127, 128, 255};
    bytes b = {0};
    size_t n_refused = 0;
    put_good(&b);
    for (size_t i = 0; i < b.n - 450; i++) {
        for (size_t v = 0; v < sizeof(values); v++) {
            uint8_t *copy = exact_copy(b.data, b.n);
            gguf_file *f = NULL;
            mica_error err = {0};
            copy[i] = values[v];
            mica_status st = mica_gguf_parse(&f, copy, b.n, "damaged", &err);
            assert_int_equal(st, err.code);
            assert_true(st == MICA_OK || st == MICA_E_FORMAT || st == MICA_E_UNSUPPORTED ||
                        st == MICA_E_LIMIT);
            if (st == MICA_OK) check_ranges(f, copy, b.n);
            n_refused += st != MICA_OK;
            mica_gguf_close(f);
            free(copy);
        }
    }
    assert_true(n_refused > 1000);
    bytes_free(&b);
}

/* Parses what `make` writes, expects `status` and a message that holds `part`. */
static void expect_bad(void (*make)(bytes *b), mica_status status, const char *part) {
    bytes b = {0};
    gguf_file *f = NULL;
    mica_error err = {0};
    make(&b);
    mica_status st = parse(&b, &f, &err);
    if (st != status || !strstr(err.message, part))
        fail_msg("expected '%s': status %d, message '%s'", part, (int)st, err.message);
    bytes_free(&b);
}

static void put_one(bytes *b, const char *name, uint32_t n_dims, const uint64_t *dim, uint32_t type,
                    uint64_t offset) {
    put_gguf_head(b, 3, 1, 0);
    put_info(b, name, n_dims, dim, type, offset);
    pad_to(b, 32);
    put_fill(b, 0, 64);
}

static void wrong_magic(bytes *b) { put_fill(b, 'X', 64); }
static void version_1(bytes *b) { put_gguf_head(b, 1, 0, 0); }
static void version_4(bytes *b) { put_gguf_head(b, 4, 0, 0); }
static void big_endian(bytes *b) { put_gguf_head(b, 0x03000000, 0, 0); }
static void many_tensors(bytes *b) { put_gguf_head(b, 3, UINT64_MAX, 0); }
static void many_entries(bytes *b) { put_gguf_head(b, 3, 0, UINT64_MAX); }
static void too_many_tensors(bytes *b) {
    put_gguf_head(b, 3, 300000, 0);
    put_fill(b, 0, 300000 * 25);
}
static void too_many_entries(bytes *b) {
    put_gguf_head(b, 3, 0, 70000);
    put_fill(b, 0, 70000 * 14);
}
static void put_alignment(bytes *b, uint32_t alignment) {
    put_gguf_head(b, 3, 0, 1);
    put_kv_u32(b, "general.alignment", alignment);
}
static void alignment_0(bytes *b) { put_alignment(b, 0); }
static void alignment_24(bytes *b) { put_alignment(b, 24); }
static void alignment_type(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_key(b, "general.alignment", GGUF_VALUE_U64);
    put_u64(b, 32);
}
static void part_of_three(bytes *b) {
    put_gguf_head(b, 3, 0, 2);
    put_kv_u32(b, "split.no", 1);
    put_kv_u32(b, "split.count", 3);
}
static void duplicate_key(bytes *b) {
    put_gguf_head(b, 3, 0, 2);
    put_kv_u32(b, "key", 1);
    put_kv_u32(b, "key", 1);
}
static void empty_key(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_kv_u32(b, "", 1);
    put_fill(b, 0, 8);
}
static void nested_array(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_kv_array(b, "k", GGUF_VALUE_ARRAY, 1);
    put_fill(b, 0, 32);
}
static void value_type(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_key(b, "k", (gguf_value_type)13);
    put_fill(b, 0, 8);
}
static void long_array(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_kv_array(b, "k", GGUF_VALUE_F64, (uint64_t)1 << 61);
    put_fill(b, 0, 8);
}
static void long_strings(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_kv_array(b, "k", GGUF_VALUE_STRING, UINT64_MAX);
    put_fill(b, 0, 8);
}
static void long_string(bytes *b) {
    put_gguf_head(b, 3, 0, 1);
    put_key(b, "k", GGUF_VALUE_STRING);
    put_u64(b, UINT64_MAX - 8);
}
static void empty_name(bytes *b) { put_one(b, "", 1, (uint64_t[]){1}, GGUF_F32, 0); }
static void nul_name(bytes *b) {
    put_gguf_head(b, 3, 1, 0);
    put_u64(b, 3);
    put_raw(b, "a\0b", 3);
    put_fill(b, 0, 64);
}
static void five_dims(bytes *b) { put_one(b, "t", 5, (uint64_t[]){1, 1, 1, 1, 1}, GGUF_F32, 0); }
static void type_iq1(bytes *b) { put_one(b, "t", 1, (uint64_t[]){256}, 19, 0); }
static void type_99(bytes *b) { put_one(b, "t", 1, (uint64_t[]){256}, 99, 0); }
static void part_block(bytes *b) { put_one(b, "t", 1, (uint64_t[]){48}, GGUF_Q4_0, 0); }
static void part_block_k(bytes *b) { put_one(b, "t", 2, (uint64_t[]){128, 2}, GGUF_Q4_K, 0); }
static void scalar_block(bytes *b) { put_one(b, "t", 0, NULL, GGUF_Q4_0, 0); }
static void size_overflow(bytes *b) {
    put_one(b, "t", 3, (uint64_t[]){(uint64_t)1 << 31, (uint64_t)1 << 31, 1}, GGUF_F32, 0);
}
static void size_wraps(bytes *b) {
    put_one(b, "t", 2, (uint64_t[]){(uint64_t)1 << 32, (uint64_t)1 << 30}, GGUF_F32, 0);
}
static void out_of_range(bytes *b) { put_one(b, "t", 1, (uint64_t[]){16}, GGUF_F32, 32); }
static void far_offset(bytes *b) {
    put_one(b, "t", 1, (uint64_t[]){16}, GGUF_F32, UINT64_MAX - 31);
}
static void odd_offset(bytes *b) { put_one(b, "t", 1, (uint64_t[]){1}, GGUF_F32, 4); }
static void put_two(bytes *b, const char *second, uint64_t offset) {
    put_gguf_head(b, 3, 2, 0);
    put_info(b, "t", 1, (uint64_t[]){16}, GGUF_F32, 0);
    put_info(b, second, 1, (uint64_t[]){8}, GGUF_F32, offset);
    pad_to(b, 32);
    put_fill(b, 0, 96);
}
static void same_name(bytes *b) { put_two(b, "t", 64); }
static void overlapping(bytes *b) { put_two(b, "u", 32); }

static void files_that_lie(void **state) {
    (void)state;
    expect_bad(wrong_magic, MICA_E_FORMAT, "GGUF");
    expect_bad(version_1, MICA_E_UNSUPPORTED, "version 1");
    expect_bad(version_4, MICA_E_UNSUPPORTED, "version 4");
    expect_bad(big_endian, MICA_E_UNSUPPORTED, "big-endian");
    expect_bad(many_tensors, MICA_E_FORMAT, "too short");
    expect_bad(many_entries, MICA_E_FORMAT, "too short");
    expect_bad(too_many_tensors, MICA_E_LIMIT, "300000");
    expect_bad(too_many_entries, MICA_E_LIMIT, "70000");
    expect_bad(alignment_0, MICA_E_FORMAT, "power of two");
    expect_bad(alignment_24, MICA_E_FORMAT, "power of two");
    expect_bad(alignment_type, MICA_E_FORMAT, "u32");
    expect_bad(part_of_three, MICA_E_UNSUPPORTED, "part 2 of a model in 3 files (split.count)");
    expect_bad(duplicate_key, MICA_E_FORMAT, "twice");
    expect_bad(empty_key, MICA_E_FORMAT, "empty key");
    expect_bad(nested_array, MICA_E_FORMAT, "array of arrays");
    expect_bad(value_type, MICA_E_FORMAT, "13");
    expect_bad(long_array, MICA_E_FORMAT, "overflows");
    expect_bad(long_strings, MICA_E_FORMAT, "left");
    expect_bad(long_string, MICA_E_FORMAT, "left");
}

static void tensors_that_lie(void **state) {
    (void)state;
    expect_bad(empty_name, MICA_E_FORMAT, "empty");
    expect_bad(nul_name, MICA_E_FORMAT, "not a text");
    expect_bad(five_dims, MICA_E_FORMAT, "5 dimensions");
    expect_bad(type_iq1, MICA_E_UNSUPPORTED, "type 19 (IQ1_S)");
    expect_bad(type_99, MICA_E_UNSUPPORTED, "type 99");
    expect_bad(part_block, MICA_E_FORMAT, "multiple of 32");
    expect_bad(part_block_k, MICA_E_FORMAT, "multiple of 256");
    expect_bad(scalar_block, MICA_E_FORMAT, "multiple of 32");
    expect_bad(size_overflow, MICA_E_FORMAT, "overflows");
    expect_bad(size_wraps, MICA_E_FORMAT, "overflows");
    expect_bad(out_of_range, MICA_E_FORMAT, "cut short");
    expect_bad(far_offset, MICA_E_FORMAT, "cut short");
    expect_bad(odd_offset, MICA_E_FORMAT, "alignment");
    expect_bad(same_name, MICA_E_FORMAT, "twice");
    expect_bad(overlapping, MICA_E_FORMAT, "overlap");
}

/* The message names the other parts as far as their names follow from this one's. */
static void parts(void **state) {
    (void)state;
    static const struct {
        const char *name, *others;
    } rows[] = {
        {"dir/m-00002-of-00003.gguf", "The others: m-00001-of-00003.gguf, m-00003-of-00003.gguf"},
        {"m-00001-of-00003.gguf", "The others are not named after this one"},
        {"-00002-of-00003.gguf", "The others: -00001-of-00003.gguf"},
        {"m.gguf", "The others are not named after this one"},
    };
    bytes b = {0};
    part_of_three(&b);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        gguf_file *f = NULL;
        mica_error err = {0};
        assert_int_equal(mica_gguf_parse(&f, b.data, b.n, rows[i].name, &err), MICA_E_UNSUPPORTED);
        if (!strstr(err.message, rows[i].others)) fail_msg("row %zu: %s", i, err.message);
    }
    b.n = 0;
    put_gguf_head(&b, 3, 0, 2);
    put_kv_u32(&b, "split.no", 0);
    put_kv_u32(&b, "split.count", 1); /* one part is a whole */
    gguf_file *whole = NULL;
    assert_int_equal(parse(&b, &whole, NULL), MICA_OK);
    mica_gguf_close(whole);
    bytes_free(&b);
}

static void no_tensors(void **state) {
    (void)state;
    bytes b = {0};
    gguf_file *f = NULL;
    put_gguf_head(&b, 2, 0, 1); /* version 2, a vocabulary file, and no padding at its end */
    put_kv_u32(&b, "k", 1);
    assert_int_equal(parse(&b, &f, NULL), MICA_OK);
    assert_int_equal(mica_gguf_version(f), 2);
    assert_int_equal(mica_gguf_n_tensors(f), 0);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void open_large(void **state) {
    (void)state;
    static const char *const names[] = {"big.gguf", "entries.gguf"};
    scratch s;
    bytes b = {0};
    gguf_file *f = NULL;
    mica_error err = {0};
    const uint64_t ten_gb = (uint64_t)10 << 30;
    make_scratch(&s);
    put_gguf_head(&b, 3, 1, 0);
    put_info(&b, "w", 2, (uint64_t[]){ten_gb / 4 / 1024, 1024}, GGUF_F32, 0);
    pad_to(&b, 32);
    double start = thread_seconds();
    uint64_t rss = mica_rss_bytes();
    const char *path = write_scratch(&s, "big.gguf", b.data, b.n, b.n + ten_gb);
    assert_int_equal(mica_gguf_open(&f, path, &err), MICA_OK);
    assert_int_equal(mica_gguf_tensor(f, 0)->n_bytes, ten_gb);
    assert_ptr_equal(mica_gguf_tensor(f, 0)->map, mica_gguf_map(f));
    assert_true(thread_seconds() - start < 0.5);
    assert_true(mica_rss_bytes() < rss + ((uint64_t)8 << 20));
    mica_gguf_close(f);
    f = NULL;
    /* A string array that would fill the 10 GB with empty strings is refused early. */
    b.n = 0;
    put_gguf_head(&b, 3, 0, 1);
    put_kv_array(&b, "k", GGUF_VALUE_STRING, ten_gb / 8 - 64);
    path = write_scratch(&s, "entries.gguf", b.data, b.n, ten_gb);
    start = thread_seconds();
    assert_int_equal(mica_gguf_open(&f, path, &err), MICA_E_LIMIT);
    assert_true(thread_seconds() - start < 5);
    assert_int_equal(mica_gguf_open(&f, "/nonexistent/x.gguf", &err), MICA_E_NOT_FOUND);
    remove_scratch(&s, names, 2);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_tensors),      cmocka_unit_test(good_entries),
        cmocka_unit_test(good_arrays),       cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(damage_every_byte), cmocka_unit_test(files_that_lie),
        cmocka_unit_test(tensors_that_lie),  cmocka_unit_test(parts),
        cmocka_unit_test(no_tensors),        cmocka_unit_test(open_large),
    };
    return cmocka_run_group_tests_name("format_gguf", tests, NULL, NULL);
}
