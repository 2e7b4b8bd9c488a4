/* status.h: making and passing on errors.
 *
 * A message is written once, where the fact is known; callers pass status and error up unchanged.
 */
#ifndef MICA_BASE_STATUS_H
#define MICA_BASE_STATUS_H

#include "mica.h"

#define MICA_NO_OFFSET UINT64_MAX

/* Fills *err (NULL is fine) and returns `code`, so that `return mica_fail(...)` reads well. */
mica_status mica_fail(mica_error *err, mica_status code, const char *format, ...) MICA_PRINTF(3, 4);

/* The same with the byte offset at which the input is wrong; the message gets " (at byte N)". */
mica_status mica_fail_at(mica_error *err, mica_status code, uint64_t offset, const char *format,
                         ...) MICA_PRINTF(4, 5);

/* The same, followed by the text of `errno_value` ("No such file or directory"). */
mica_status mica_fail_errno(mica_error *err, mica_status code, int errno_value, const char *format,
                            ...) MICA_PRINTF(4, 5);

/* Resets *err (NULL is fine) to "no error"; for a layer that handles an error. */
void mica_error_clear(mica_error *err);

/* "format error", "out of memory": a name for a status, never NULL. */
const char *mica_status_name(mica_status code);

#endif
