/* Error messages: what they hold, that they stay one line and keep their suffix. */
#include "cmocka_base.h"

#include <errno.h>
#include <string.h>

#include "base/status.h"

static void fail_fills_the_error(void **state) {
    (void)state;
    mica_error err;
    assert_int_equal(mica_fail(&err, MICA_E_FORMAT, "%s: %d", "a", 7), MICA_E_FORMAT);
    assert_int_equal(err.code, MICA_E_FORMAT);
    assert_true(err.offset == MICA_NO_OFFSET);
    assert_string_equal(err.message, "a: 7");
    assert_int_equal(mica_fail(NULL, MICA_E_IO, "x"), MICA_E_IO);
    mica_error_clear(&err);
    assert_int_equal(err.code, MICA_OK);
    assert_string_equal(err.message, "");
    mica_error_clear(NULL);
}

static void offset_and_errno_are_appended(void **state) {
    (void)state;
    mica_error err;
    mica_fail_at(&err, MICA_E_FORMAT, 12345678901u, "f: bad");
    assert_true(err.offset == 12345678901u);
    assert_string_equal(err.message, "f: bad (at byte 12345678901)");
    mica_fail_errno(&err, MICA_E_IO, ENOENT, "f: gone");
    assert_string_equal(err.message, "f: gone: No such file or directory");
}

static void long_messages_keep_their_suffix(void **state) {
    (void)state;
    char name[2000];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    mica_error err;
    mica_fail_at(&err, MICA_E_FORMAT, 42, "%s", name);
    const char *suffix = " (at byte 42)";
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_string_equal(err.message + strlen(err.message) - strlen(suffix), suffix);
}

static void messages_are_one_line(void **state) {
    (void)state;
    mica_error err;
    mica_fail(&err, MICA_E_IO, "a\nb\x1b[31mc\x7f\xC3\xA9");
    assert_string_equal(err.message, "a?b?[31mc?\xC3\xA9");
}

static void every_status_has_its_name(void **state) {
    (void)state;
    for (int i = 0; i <= MICA_E_INTERNAL; i++) {
        assert_string_not_equal(mica_status_name((mica_status)i), "unknown status");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(mica_status_name((mica_status)i),
                                    mica_status_name((mica_status)j));
        }
    }
    assert_string_equal(mica_status_name((mica_status)999), "unknown status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_the_error),
        cmocka_unit_test(offset_and_errno_are_appended),
        cmocka_unit_test(long_messages_keep_their_suffix),
        cmocka_unit_test(messages_are_one_line),
        cmocka_unit_test(every_status_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
