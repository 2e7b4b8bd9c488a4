/* status.c: writes error messages.
 *
 * A message is one line of UTF-8 for people: control characters and stray bytes that came in with a
 * file name or a key are replaced, and a message that is too long loses its end.
 */
#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void keep_one_line(char *s) {
    for (size_t n = strlen(s), step; n; s += step, n -= step) {
        bool valid;
        step = mica_utf8_step(s, n, &valid);
        if (!valid || (unsigned char)*s < 0x20 || *s == 0x7F) memset(s, '?', step);
    }
}

static void MICA_PRINTF(4, 0)
    set(mica_error *err, mica_status code, uint64_t offset, const char *format, va_list args) {
    err->code = code;
    err->offset = offset;
    if (vsnprintf(err->message, sizeof(err->message), format, args) < 0) err->message[0] = '\0';
}

/* The suffix must survive: what it says is often the most useful part, so a long message is cut. */
static void append(mica_error *err, const char *suffix) {
    size_t room = sizeof(err->message) - 1;
    size_t n_suffix = strlen(suffix);
    if (n_suffix > room) n_suffix = room;
    size_t n = strlen(err->message);
    if (n > room - n_suffix) n = room - n_suffix;
    memcpy(err->message + n, suffix, n_suffix);
    err->message[n + n_suffix] = '\0';
}

mica_status mica_fail(mica_error *err, mica_status code, const char *format, ...) {
    if (!err) return code;
    va_list args;
    va_start(args, format);
    set(err, code, MICA_NO_OFFSET, format, args);
    va_end(args);
    keep_one_line(err->message);
    return code;
}

mica_status mica_fail_at(mica_error *err, mica_status code, uint64_t offset, const char *format,
                         ...) {
    if (!err) return code;
    va_list args;
    va_start(args, format);
    set(err, code, offset, format, args);
    va_end(args);
    char suffix[48];
    snprintf(suffix, sizeof(suffix), " (at byte %" PRIu64 ")", offset);
    append(err, suffix);
    keep_one_line(err->message);
    return code;
}

mica_status mica_fail_errno(mica_error *err, mica_status code, int errno_value, const char *format,
                            ...) {
    if (!err) return code;
    va_list args;
    va_start(args, format);
    set(err, code, MICA_NO_OFFSET, format, args);
    va_end(args);
    char suffix[128];
    snprintf(suffix, sizeof(suffix), ": %s", strerror(errno_value));
    append(err, suffix);
    keep_one_line(err->message);
    return code;
}

void mica_error_clear(mica_error *err) {
    if (!err) return;
    err->code = MICA_OK;
    err->offset = MICA_NO_OFFSET;
    err->message[0] = '\0';
}

const char *mica_status_name(mica_status code) {
    switch (code) {
    case MICA_OK:
        return "ok";
    case MICA_E_NOMEM:
        return "out of memory";
    case MICA_E_IO:
        return "input/output error";
    case MICA_E_FORMAT:
        return "format error";
    case MICA_E_UNSUPPORTED:
        return "unsupported";
    case MICA_E_INVALID:
        return "invalid argument";
    case MICA_E_NOT_FOUND:
        return "not found";
    case MICA_E_LIMIT:
        return "limit passed";
    case MICA_E_STATE:
        return "not allowed now";
    case MICA_E_CANCELLED:
        return "cancelled";
    case MICA_E_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}
