/* writer.c: output files that appear whole or not at all.
 *
 * Bytes go to a new sibling of the target, which takes the target's name once all is on the disk. A
 * symbolic link keeps pointing where it does: what it names is replaced. What exists and is no
 * plain file (a device, a pipe) is written in place, since a rename would destroy it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

static int write_fully(int fd, const char *data, size_t n_bytes) {
    while (n_bytes) {
        ssize_t n = write(fd, data, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        data += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

/* A new file beside `path`; the mode follows the user's umask, which mkstemp would not do. */
static int create_sibling(const char *path, char **name_out) {
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t salt = (uint64_t)(mica_now_s() * 1e9) + (uint64_t)attempt;
        char *name =
            mica_asprintf("%s.%ld-%llx.tmp", path, (long)getpid(), (unsigned long long)salt);
        if (!name) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            *name_out = name;
            return fd;
        }
        mica_free(name);
        if (errno != EEXIST) return -1;
    }
    return -1;
}

/* Makes the new name survive a power cut; a file system that cannot do this is no error. */
static void sync_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    char *folder = slash ? mica_strndup(path, n ? n : 1) : mica_strdup(".");
    if (!folder) return;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mica_free(folder);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* A device, a pipe, or a link to nothing yet. */
static bool must_stay(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0) return !S_ISREG(info.st_mode);
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

mica_status mica_writer_open(mica_writer *w, const char *path, mica_error *err) {
    *w = (mica_writer){.fd = -1, .path = mica_strdup(path)};
    if (!w->path) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    if (must_stay(path)) {
        w->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    } else {
        w->target = mica_path_resolve(path);
        if (!w->target) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
        w->fd = create_sibling(w->target, &w->temporary);
    }
    if (w->fd >= 0) return MICA_OK;
    mica_status code = errno == ENOMEM ? MICA_E_NOMEM : MICA_E_IO;
    return mica_fail_errno(err, code, errno, "%s: cannot be written", path);
}

mica_status mica_writer_open_fd(mica_writer *w, int fd, const char *name, mica_error *err) {
    *w = (mica_writer){.fd = -1, .path = mica_strdup(name)};
    if (!w->path) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (w->fd >= 0) return MICA_OK;
    return mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be written", name);
}

mica_status mica_writer_put(mica_writer *w, const void *data, size_t n_bytes, mica_error *err) {
    if (!write_fully(w->fd, data, n_bytes)) return MICA_OK;
    return mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be written", w->path);
}

/* errno of what failed, or 0. */
static int finish(mica_writer *w) {
    int failure = 0;
    if (w->temporary && fsync(w->fd)) failure = errno;
    if (close(w->fd) && !failure) failure = errno;
    w->fd = -1;
    if (w->temporary && !failure && rename(w->temporary, w->target)) failure = errno;
    if (w->temporary && !failure) sync_folder_of(w->target);
    return failure;
}

mica_status mica_writer_close(mica_writer *w, mica_status st, mica_error *err) {
    int failure = w->fd >= 0 && !st ? finish(w) : 0;
    if (failure) st = mica_fail_errno(err, MICA_E_IO, failure, "%s: cannot be written", w->path);
    if (w->fd >= 0) close(w->fd);
    if (st && w->temporary) unlink(w->temporary);
    mica_free(w->temporary);
    mica_free(w->target);
    mica_free(w->path);
    *w = (mica_writer){.fd = -1};
    return st;
}

mica_status mica_file_write(const char *path, const void *data, size_t n_bytes, mica_error *err) {
    mica_writer w;
    mica_status st = mica_writer_open(&w, path, err);
    if (!st) st = mica_writer_put(&w, data, n_bytes, err);
    return mica_writer_close(&w, st, err);
}
