/* file.c: mapped files, whole files and folders, on POSIX.
 *
 * Every error names the path. Calls that a signal interrupted are repeated.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"

static mica_status fail_open(const char *path, int errno_value, mica_error *err) {
    bool is_absent = errno_value == ENOENT || errno_value == ENOTDIR;
    return mica_fail_errno(err, is_absent ? MICA_E_NOT_FOUND : MICA_E_IO, errno_value,
                           "%s: cannot be opened", path);
}

/* O_NONBLOCK: a pipe without a writer must not hang us; it has no effect on regular files. */
static mica_status open_to_map(const char *path, int *fd_out, struct stat *info, mica_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_open(path, errno, err);
    mica_status st = MICA_OK;
    if (fstat(fd, info)) {
        st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be examined", path);
    } else if (S_ISDIR(info->st_mode)) {
        st = mica_fail(err, MICA_E_INVALID, "%s: is a folder, expected a file", path);
    } else if (!S_ISREG(info->st_mode)) {
        st = mica_fail(err, MICA_E_INVALID, "%s: is no regular file and cannot be mapped", path);
    }
    if (st) {
        close(fd);
        return st;
    }
    *fd_out = fd;
    return MICA_OK;
}

mica_status mica_map_open(mica_map **out, const char *path, mica_error *err) {
    int fd = -1;
    struct stat info;
    mica_status st = open_to_map(path, &fd, &info, err);
    if (st) return st;
    mica_map *map = mica_calloc(1, sizeof(*map));
    if (map) map->path = mica_strdup(path);
    if (!map || !map->path) {
        st = mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    map->n_refs = 1;
    map->mtime_ns = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be mapped", path);
            goto out;
        }
        map->data = data;
        map->size = (uint64_t)info.st_size;
    }
    *out = map;
    map = NULL;
out:
    mica_map_unref(map);
    close(fd);
    return st;
}

mica_map *mica_map_ref(mica_map *map) {
    __atomic_fetch_add(&map->n_refs, 1, __ATOMIC_RELAXED);
    return map;
}

void mica_map_unref(mica_map *map) {
    if (!map || __atomic_fetch_sub(&map->n_refs, 1, __ATOMIC_ACQ_REL) > 1) return;
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    mica_free(map->path);
    mica_free(map);
}

void mica_map_want(const mica_map *map, uint64_t offset, uint64_t n_bytes) {
    if (offset >= map->size) return;
    uint64_t begin = offset - offset % (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t n = map->size - begin;
    if (n_bytes < n - (offset - begin)) n = n_bytes + (offset - begin);
    madvise((void *)(uintptr_t)(map->data + begin), n, MADV_WILLNEED);
}

/* Only whole pages inside the range: their neighbours may still be wanted. */
void mica_map_drop(const mica_map *map, uint64_t offset, uint64_t n_bytes) {
    uint64_t end;
    if (offset >= map->size || !mica_add_u64(offset, n_bytes, &end)) return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (end >= map->size) {
        end = map->size;
    } else {
        end -= end % page;
    }
    uint64_t begin = offset / page * page + (offset % page ? page : 0);
    if (begin < end) madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
}

/* Bytes read into `buffer` until it is full or the file ends; -1 with errno set. */
static ssize_t read_fully(int fd, char *buffer, size_t n_bytes) {
    size_t n = 0;
    while (n < n_bytes) {
        ssize_t n_read = read(fd, buffer + n, n_bytes - n);
        if (n_read < 0 && errno == EINTR) continue;
        if (n_read < 0) return -1;
        if (n_read == 0) break;
        n += (size_t)n_read;
    }
    return (ssize_t)n;
}

/* `capacity` is a first guess; the size that the system reports may be wrong (0 for /proc). */
static mica_status read_growing(int fd, char **buffer, size_t *n_out, size_t capacity,
                                size_t max_bytes, const char *path, mica_error *err) {
    size_t n = 0;
    for (;;) {
        char *grown = mica_realloc(*buffer, capacity + 1);
        if (!grown) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
        *buffer = grown;
        ssize_t n_read = read_fully(fd, grown + n, capacity + 1 - n);
        if (n_read < 0) return mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be read", path);
        n += (size_t)n_read;
        if (n <= capacity) break;
        if (n > max_bytes) {
            return mica_fail(err, MICA_E_LIMIT, "%s: is larger than the limit of %zu bytes", path,
                             max_bytes);
        }
        capacity = capacity > max_bytes / 2 ? max_bytes : 2 * capacity;
    }
    (*buffer)[n] = '\0';
    *n_out = n;
    return MICA_OK;
}

mica_status mica_file_read(char **out, size_t *out_bytes, const char *path, size_t max_bytes,
                           mica_error *err) {
    if (max_bytes > SIZE_MAX / 4) max_bytes = SIZE_MAX / 4;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_open(path, errno, err);
    mica_status st = MICA_OK;
    char *buffer = NULL;
    size_t n = 0, capacity = 4096;
    struct stat info;
    if (fstat(fd, &info)) {
        st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be examined", path);
        goto out;
    }
    if (S_ISDIR(info.st_mode)) {
        st = mica_fail(err, MICA_E_INVALID, "%s: is a folder, expected a file", path);
        goto out;
    }
    if (S_ISREG(info.st_mode) && info.st_size > 0) capacity = (size_t)info.st_size;
    if (capacity > max_bytes) capacity = max_bytes;
    if ((st = read_growing(fd, &buffer, &n, capacity, max_bytes, path, err))) goto out;
    *out = buffer;
    *out_bytes = n;
    buffer = NULL;
out:
    mica_free(buffer);
    close(fd);
    return st;
}

bool mica_path_exists(const char *path) { return access(path, F_OK) == 0; }

bool mica_path_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *mica_path_resolve(const char *path) {
    char *resolved = realpath(path, NULL);
    char *out = mica_strdup(resolved ? resolved : path);
    free(resolved); /* made by realpath */
    return out;
}

char *mica_path_join(const char *folder, const char *name) {
    size_t n = strlen(folder);
    bool has_slash = n == 0 || folder[n - 1] == '/';
    return mica_asprintf("%s%s%s", folder, has_slash ? "" : "/", name);
}

static bool matches(const char *name, const char *prefix, const char *suffix) {
    size_t n = strlen(name), n_prefix = strlen(prefix), n_suffix = strlen(suffix);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
    return n >= n_prefix && n >= n_suffix && memcmp(name, prefix, n_prefix) == 0 &&
           memcmp(name + n - n_suffix, suffix, n_suffix) == 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends a copy of `name`; the array has room for a power of two of names. False: out of memory.
 */
static bool append_name(char ***names, size_t *n, const char *name) {
    if ((*n & (*n - 1)) == 0) {
        char **grown = mica_realloc(*names, (*n ? 2 * *n : 1) * sizeof(**names));
        if (!grown) return false;
        *names = grown;
    }
    char *copy = mica_strdup(name);
    if (!copy) return false;
    (*names)[(*n)++] = copy;
    return true;
}

mica_status mica_folder_list(char ***out, size_t *n_out, const char *folder, const char *prefix,
                             const char *suffix, mica_error *err) {
    DIR *dir = opendir(folder);
    if (!dir) return fail_open(folder, errno, err);
    mica_status st = MICA_OK;
    char **names = NULL;
    size_t n = 0;
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        if (!matches(entry->d_name, prefix, suffix)) continue;
        if (!append_name(&names, &n, entry->d_name)) {
            st = mica_fail(err, MICA_E_NOMEM, "%s: out of memory", folder);
            goto out;
        }
    }
    if (errno) {
        st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be listed", folder);
        goto out;
    }
    if (n) qsort(names, n, sizeof(*names), compare_names);
    *out = names;
    *n_out = n;
    names = NULL;
    n = 0;
out:
    mica_names_free(names, n);
    closedir(dir);
    return st;
}

void mica_names_free(char **names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mica_free(names[i]);
    }
    mica_free(names);
}
