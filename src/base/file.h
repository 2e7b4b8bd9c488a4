/* file.h: mapped files, whole small files, atomic writes. */
#ifndef MICA_BASE_FILE_H
#define MICA_BASE_FILE_H

#include <stdbool.h>

#include "base/status.h"

/* A file mapped read-only. Reference counted: weights keep the files alive that they point into. */
typedef struct mica_map {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
    char *path;
    uint64_t mtime_ns;
    int n_refs;
} mica_map;

/* Maps `path`; on success *out has one reference. Errors name the path. A folder is MICA_E_INVALID.
 */
mica_status mica_map_open(mica_map **out, const char *path, mica_error *err);
mica_map *mica_map_ref(mica_map *map);
void mica_map_unref(mica_map *map); /* NULL is fine; the last one unmaps */
/* Tell the system that these bytes will be needed soon, or not at all soon: then resident memory
 * shrinks. Harmless. */
void mica_map_want(const mica_map *map, uint64_t offset, uint64_t n_bytes);
void mica_map_drop(const mica_map *map, uint64_t offset, uint64_t n_bytes);

/* Reads a whole file of at most `max_bytes`; *out has a NUL after the last byte; mica_free it. */
mica_status mica_file_read(char **out, size_t *out_bytes, const char *path, size_t max_bytes,
                           mica_error *err);
/* An output file that appears whole or not at all: bytes go to a temporary sibling, which takes the
 * file's name on close. What a symbolic link names is replaced, not the link; what is no plain file
 * (a device, a pipe) is written in place. */
typedef struct mica_writer {
    int fd;
    char *path;      /* as given, for messages */
    char *target;    /* links resolved; NULL: written in place */
    char *temporary; /* NULL: written in place */
} mica_writer;

/* Must be closed, also after a failure. */
mica_status mica_writer_open(mica_writer *w, const char *path, mica_error *err);
/* The same for a file that is open already: written in place from where it stands, through a copy
 * of `fd`. `name` is for messages. */
mica_status mica_writer_open_fd(mica_writer *w, int fd, const char *name, mica_error *err);
mica_status mica_writer_put(mica_writer *w, const void *data, size_t n_bytes, mica_error *err);
/* st MICA_OK: syncs and renames; else throws away what was written. Returns the first failure. */
mica_status mica_writer_close(mica_writer *w, mica_status st, mica_error *err);
/* All of it in one call. */
mica_status mica_file_write(const char *path, const void *data, size_t n_bytes, mica_error *err);

bool mica_path_exists(const char *path);
bool mica_path_is_folder(const char *path);
/* folder + "/" + name; mica_free it. NULL: out of memory. */
char *mica_path_join(const char *folder, const char *name);
/* Absolute, links followed; `path` itself where that fails. mica_free it. NULL: out of memory. */
char *mica_path_resolve(const char *path);
/* The sorted names in `folder` that start and end as given ("" = any). Free with mica_names_free.
 */
mica_status mica_folder_list(char ***out, size_t *n_out, const char *folder, const char *prefix,
                             const char *suffix, mica_error *err);
void mica_names_free(char **names, size_t n);

#endif
