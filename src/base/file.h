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
/* Tells the system that these bytes will not be needed soon: resident memory shrinks. Harmless. */
void mica_map_drop(const mica_map *map, uint64_t offset, uint64_t n_bytes);

/* Reads a whole file of at most `max_bytes`; *out has a NUL after the last byte; mica_free it. */
mica_status mica_file_read(char **out, size_t *out_bytes, const char *path, size_t max_bytes,
                           mica_error *err);
/* Writes to a temporary sibling, syncs, renames: readers see the old file or the new one. */
mica_status mica_file_write(const char *path, const void *data, size_t n_bytes, mica_error *err);

bool mica_path_exists(const char *path);
bool mica_path_is_folder(const char *path);
/* folder + "/" + name; mica_free it. NULL: out of memory. */
char *mica_path_join(const char *folder, const char *name);
/* The sorted names in `folder` that start and end as given ("" = any). Free with mica_names_free.
 */
mica_status mica_folder_list(char ***out, size_t *n_out, const char *folder, const char *prefix,
                             const char *suffix, mica_error *err);
void mica_names_free(char **names, size_t n);

#endif
