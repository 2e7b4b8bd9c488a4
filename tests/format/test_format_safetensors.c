/* test_format_safetensors.c: good files, every cut, every damaged byte, and headers that lie.
 */
#include "bytes.h"
#include "thread_time.h"

#include "base/clock.h"
#include "format/safetensors.h"

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"mlx\",\"k\":\"\\u00e9\"},"                                    \
    "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[5,17]},"                   \
    "\"a.weight\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5],\"extra\":[1,{\"x\":2}]}" \
    ","                                                                                            \
    "\"scalar\":{\"data_offsets\":[17,21],\"shape\":[],\"dtype\":\"F32\"},"                        \
    "\"empty\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[21,21]}}  "
enum { GOOD_DATA = 21 };

static const file_tensor *find(const safetensors_file *f, const char *name) {
    for (size_t i = 0; i < mica_safetensors_count(f); i++)
        if (!strcmp(mica_safetensors_at(f, i)->name, name)) return mica_safetensors_at(f, i);
    return NULL;
}

static mica_status parse(const bytes *b, safetensors_file **f, mica_error *err) {
    return mica_safetensors_parse(f, b->data, b->n, "test", err);
}

static void good_file(void **state) {
    (void)state;
    bytes b = {0};
    safetensors_file *f = NULL;
    put_safetensors(&b, GOOD, GOOD_DATA);
    assert_int_equal(parse(&b, &f, NULL), MICA_OK);
    assert_int_equal(mica_safetensors_count(f), 4);
    const file_tensor *t = find(f, "b.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, MICA_BF16);
    assert_false(t->is_gguf);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dim[0], 2);
    assert_int_equal(t->dim[1], 3);
    assert_int_equal(t->n_bytes, 12);
    assert_int_equal(t->data[0], 5); /* the data are their own offsets */
    assert_int_equal(find(f, "a.weight")->data[4], 4);
    assert_int_equal(find(f, "scalar")->n_dims, 0);
    assert_int_equal(find(f, "scalar")->data[0], 17);
    assert_int_equal(find(f, "empty")->n_bytes, 0);
    assert_string_equal(mica_safetensors_metadata(f, "format"), "mlx");
    assert_string_equal(mica_safetensors_metadata(f, "k"), "\xc3\xa9");
    assert_null(mica_safetensors_metadata(f, "none"));
    assert_int_equal(mica_safetensors_bytes(f), b.n);
    mica_safetensors_close(f);
    mica_safetensors_close(NULL);
    bytes_free(&b);
}

static void cut_at_every_byte(void **state) {
    (void)state;
    bytes b = {0};
    put_safetensors(&b, GOOD, GOOD_DATA);
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *copy = exact_copy(b.data, n);
        safetensors_file *f = NULL;
        mica_error err = {0};
        assert_int_equal(mica_safetensors_parse(&f, copy, n, "cut", &err), MICA_E_FORMAT);
        assert_null(f);
        assert_int_equal(strncmp(err.message, "cut", 3), 0);
        free(copy);
    }
    bytes_free(&b);
}

/* What every accepted file promises. */
static void check_ranges(const safetensors_file *f, const uint8_t *data, size_t n) {
    for (size_t i = 0; i < mica_safetensors_count(f); i++) {
        const file_tensor *t = mica_safetensors_at(f, i);
        assert_true(t->data >= data && t->n_bytes <= (uint64_t)(data + n - t->data));
        uint64_t n_bytes = mica_dtype_bytes(t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            n_bytes *= t->dim[d];
        assert_int_equal(n_bytes, t->n_bytes);
        assert_true(t->name[0]);
    }
}

static void damage_every_byte(void **state) {
    (void)state;
    static const uint8_t values[] = {0,   1,   '"', '0',  '1', '9', '-', ']', '}',
                                     '{', '[', ',', '\\', ':', ' ', 'e', 127, 255};
    bytes b = {0};
    size_t n_refused = 0;
    put_safetensors(&b, GOOD, GOOD_DATA);
    for (size_t i = 0; i < b.n - GOOD_DATA; i++) {
        for (size_t v = 0; v < sizeof(values); v++) {
            uint8_t *copy = exact_copy(b.data, b.n);
            safetensors_file *f = NULL;
            mica_error err = {0};
            copy[i] = values[v];
            mica_status st = mica_safetensors_parse(&f, copy, b.n, "damaged", &err);
            assert_true(st == MICA_OK || st == MICA_E_FORMAT || st == MICA_E_UNSUPPORTED);
            assert_int_equal(st, err.code);
            if (st == MICA_OK) check_ranges(f, copy, b.n);
            n_refused += st != MICA_OK;
            mica_safetensors_close(f);
            free(copy);
        }
    }
    assert_true(n_refused > 1000);
    bytes_free(&b);
}

typedef struct bad_header {
    const char *header;
    mica_status status;
    const char *message; /* a part of it */
} bad_header;

#define T(name, rest) "\"" name "\":{" rest "}"
#define U8(n, a, b) "\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":[" a "," b "]"

static const bad_header bad_headers[] = {
    {"", MICA_E_FORMAT, ""},
    {"[]", MICA_E_FORMAT, "an object"},
    {"{} {}", MICA_E_FORMAT, ""},
    {"{" T("", U8("1", "0", "1")) "}", MICA_E_FORMAT, "empty"},
    {"{" T("a\\u0000b", U8("1", "0", "1")) "}", MICA_E_FORMAT, "NUL"},
    {"{" T("a", U8("1", "0", "1")) "," T("a", U8("1", "1", "2")) "}", MICA_E_FORMAT, "twice"},
    {"{" T("a", U8("2", "0", "2")) "," T("b", U8("2", "1", "3")) "}", MICA_E_FORMAT, "overlap"},
    {"{" T("a", U8("4", "0", "4")) "," T("b", U8("1", "2", "3")) "}", MICA_E_FORMAT, "overlap"},
    {"{" T("a", U8("9", "0", "9")) "}", MICA_E_FORMAT, "cut short"},
    {"{" T("a", U8("1", "8", "9")) "}", MICA_E_FORMAT, "cut short"},
    {"{" T("a", U8("2", "0", "1")) "}", MICA_E_FORMAT, "need 2 bytes"},
    {"{" T("a", U8("2", "4", "2")) "}", MICA_E_FORMAT, "backwards"},
    {"{" T("a", U8("-1", "0", "1")) "}", MICA_E_FORMAT, "integer"},
    {"{" T("a", U8("1.0", "0", "1")) "}", MICA_E_FORMAT, "integer"},
    {"{" T("a", U8("\"1\"", "0", "1")) "}", MICA_E_FORMAT, "integer"},
    {"{" T("a", U8("1", "0", "18446744073709551616")) "}", MICA_E_FORMAT, "integer"},
    {"{" T("a", U8("4294967296,4294967296", "0", "0")) "}", MICA_E_FORMAT, "overflow"},
    {"{" T("a", U8("1,1,1,1,1,1,1", "0", "1")) "}", MICA_E_FORMAT, "too many"},
    {"{" T("a", U8("1", "0,0", "1")) "}", MICA_E_FORMAT, "too many"},
    {"{" T("a", "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]") "}", MICA_E_FORMAT, "two"},
    {"{" T("a", "\"dtype\":\"U8\",\"shape\":[1]") "}", MICA_E_FORMAT, "no data_offsets"},
    {"{" T("a", "\"dtype\":\"U8\",\"data_offsets\":[0,1]") "}", MICA_E_FORMAT, "no shape"},
    {"{" T("a", "\"shape\":[1],\"data_offsets\":[0,1]") "}", MICA_E_FORMAT, "no dtype"},
    {"{" T("a", "\"dtype\":\"U8\"," U8("1", "0", "1")) "}", MICA_E_FORMAT, "twice"},
    {"{" T("a", "\"shape\":[1]," U8("1", "0", "1")) "}", MICA_E_FORMAT, "twice"},
    {"{" T("a", "\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,1]") "}", MICA_E_UNSUPPORTED,
     "'Q9'"},
    {"{" T("a", "\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]") "}", MICA_E_FORMAT, "dtype"},
    {"{\"a\":[]}", MICA_E_FORMAT, "an object"},
    {"{\"__metadata__\":{\"a\":1}}", MICA_E_FORMAT, "a string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", MICA_E_FORMAT, "twice"},
};

static void headers_that_lie(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(bad_headers) / sizeof(*bad_headers); i++) {
        bytes b = {0};
        safetensors_file *f = NULL;
        mica_error err = {0};
        put_safetensors(&b, bad_headers[i].header, 4);
        mica_status st = parse(&b, &f, &err);
        if (st != bad_headers[i].status || !strstr(err.message, bad_headers[i].message))
            fail_msg("%s: status %d, message '%s'", bad_headers[i].header, (int)st, err.message);
        bytes_free(&b);
    }
}

static void header_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {3, 1000, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        bytes b = {0};
        safetensors_file *f = NULL;
        mica_error err = {0};
        put_u64(&b, lengths[i]);
        put_text(&b, "{}");
        assert_int_equal(parse(&b, &f, &err), MICA_E_FORMAT);
        assert_int_equal(err.offset, 0);
        bytes_free(&b);
    }
}

static void open_files(void **state) {
    (void)state;
    static const char *const names[] = {"big", "long", "empty"};
    scratch s;
    bytes b = {0};
    safetensors_file *f = NULL;
    mica_error err = {0};
    const uint64_t ten_gb = (uint64_t)10 << 30;
    make_scratch(&s);
    put_safetensors(
        &b, "{\"w\":{\"dtype\":\"F32\",\"shape\":[2684354560],\"data_offsets\":[0,10737418240]}}",
        0);
    uint64_t rss = mica_rss_bytes();
    double start = thread_seconds();
    const char *path = write_scratch(&s, "big", b.data, b.n, b.n + ten_gb);
    assert_int_equal(mica_safetensors_open(&f, path, &err), MICA_OK);
    assert_int_equal(mica_safetensors_at(f, 0)->n_bytes, ten_gb);
    assert_non_null(mica_safetensors_at(f, 0)->map);
    assert_true(thread_seconds() - start < 0.5);
    assert_true(mica_rss_bytes() < rss + ((uint64_t)8 << 20));
    mica_safetensors_close(f);
    f = NULL;
    uint64_t n_header = 120000000; /* more than is read; the file is long enough for it */
    path = write_scratch(&s, "long", &n_header, 8, 8 + n_header);
    assert_int_equal(mica_safetensors_open(&f, path, &err), MICA_E_LIMIT);
    path = write_scratch(&s, "empty", "", 0, 0);
    assert_int_equal(mica_safetensors_open(&f, path, &err), MICA_E_FORMAT);
    assert_int_equal(mica_safetensors_open(&f, "/nonexistent/file", &err), MICA_E_NOT_FOUND);
    assert_null(f);
    remove_scratch(&s, names, 3);
    bytes_free(&b);
}

static void flood_of_entries(void **state) {
    (void)state;
    bytes header = {0}, b = {0};
    safetensors_file *f = NULL;
    mica_error err = {0};
    put_text(&header, "{");
    for (int i = 0; i < 1500000; i++) {
        char entry[80];
        snprintf(entry, sizeof(entry), "%s" T("%x", U8("0", "0", "0")), i ? "," : "", i);
        put_text(&header, entry);
    }
    put_text(&header, "}");
    put_u64(&b, header.n);
    put_raw(&b, header.data, header.n);
    double start = thread_seconds();
    assert_int_equal(parse(&b, &f, &err), MICA_E_LIMIT);
    assert_true(thread_seconds() - start < 3); /* a tenth of a second; sanitizers are slow */
    bytes_free(&header);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_file),         cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(damage_every_byte), cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(header_lengths),    cmocka_unit_test(open_files),
        cmocka_unit_test(flood_of_entries),
    };
    return cmocka_run_group_tests_name("format_safetensors", tests, NULL, NULL);
}
