/* mica.h: the public interface of libmica, a local runtime for language models.
 *
 * Every function that can fail returns a mica_status and takes a `mica_error *` last, which the
 * caller owns and may leave NULL. The library never prints, never exits and keeps no global state.
 */
#ifndef MICA_H
#define MICA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MICA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MICA_PRINTF(fmt, args)
#endif

typedef enum mica_status {
    MICA_OK = 0,
    MICA_E_NOMEM,       /* memory could not be had */
    MICA_E_IO,          /* the system refused to read, write or map */
    MICA_E_FORMAT,      /* a file's bytes are not what its format demands */
    MICA_E_UNSUPPORTED, /* well-formed, but not something this build can do right */
    MICA_E_INVALID,     /* an argument or a request is wrong */
    MICA_E_NOT_FOUND,   /* no such file, tensor, key or model */
    MICA_E_LIMIT,       /* a stated limit (context, size, depth) would be passed */
    MICA_E_STATE,       /* not allowed now */
    MICA_E_CANCELLED,   /* a callback asked to stop */
    MICA_E_INTERNAL     /* a broken invariant of mica itself */
} mica_status;

/* What went wrong: one line for people. `offset` is a byte offset in the input or UINT64_MAX. */
typedef struct mica_error {
    mica_status code;
    uint64_t offset;
    char message[1024];
} mica_error;

#ifdef __cplusplus
}
#endif
#endif
