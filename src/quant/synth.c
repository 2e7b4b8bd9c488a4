/* synth.c: checks what is asked for, and puts out bytes with progress.
 */
#include "quant/synth_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#define BUFFER_BYTES ((size_t)1 << 20)

mica_status mica_synth_flush(synth_out *out, mica_error *err) {
    const synth_options *o = out->options;
    mica_status st = mica_writer_put(&out->writer, out->buffer, out->n, err);
    out->done += out->n;
    out->n = 0;
    if (!st && o->progress && !o->progress(o->user, out->done, out->total))
        st = mica_fail(err, MICA_E_CANCELLED, "interrupted");
    return st;
}

mica_status mica_synth_put(synth_out *out, const void *data, size_t n_bytes, mica_error *err) {
    const char *p = data;
    if (!out->buffer) out->buffer = mica_malloc(BUFFER_BYTES);
    if (!out->buffer) return mica_fail(err, MICA_E_NOMEM, "out of memory for a buffer");
    while (n_bytes) {
        size_t n = BUFFER_BYTES - out->n < n_bytes ? BUFFER_BYTES - out->n : n_bytes;
        memcpy(out->buffer + out->n, p, n);
        out->n += n;
        p += n;
        n_bytes -= n;
        mica_status st = out->n == BUFFER_BYTES ? mica_synth_flush(out, err) : MICA_OK;
        if (st) return st;
    }
    return MICA_OK;
}

mica_status mica_synth_check_room(const char *path, uint64_t n_bytes, mica_error *err) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    char *folder = slash ? mica_strndup(path, n ? n : 1) : mica_strdup(".");
    if (!folder) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    struct statvfs disk;
    mica_status st = MICA_OK;
    if (statvfs(folder, &disk)) {
        st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be written to", folder);
    } else {
        uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
        if (room < n_bytes)
            st = mica_fail(err, MICA_E_LIMIT, "%s: %llu bytes are free, %llu are needed", folder,
                           (unsigned long long)room, (unsigned long long)n_bytes);
    }
    mica_free(folder);
    return st;
}

static mica_status check_mlx(const synth_options *o, mica_error *err) {
    bool bits = o->bits >= 2 && o->bits <= 8 && o->bits != 7;
    if (!bits) return mica_fail(err, MICA_E_INVALID, "%d bits: use 2, 3, 4, 5, 6 or 8", o->bits);
    if (o->group != 32 && o->group != 64 && o->group != 128)
        return mica_fail(err, MICA_E_INVALID, "groups of %d: use 32, 64 or 128", o->group);
    return MICA_OK;
}

static mica_status check_rows(const synth_model *m, const synth_options *o, mica_error *err) {
    for (size_t i = 0; i < m->n_tensors; i++) {
        const synth_tensor *t = &m->tensors[i];
        if (t->is_vector || t->is_router || t->n_in % o->group == 0) continue;
        return mica_fail(err, MICA_E_INVALID,
                         "groups of %d do not divide the rows of %s, which have %lld elements",
                         o->group, t->name, (long long)t->n_in);
    }
    return MICA_OK;
}

mica_status mica_synth_write(const synth_options *options, const char *path, mica_error *err) {
    mica_status st = check_mlx(options, err);
    if (st) return st;
    if (mica_path_exists(path))
        return mica_fail(err, MICA_E_STATE, "%s: exists already; remove it or give another name",
                         path);
    synth_model m = {0};
    st = mica_synth_list(&m, options, err);
    if (!st) st = check_rows(&m, options, err);
    if (!st)
        st = options->form == SYNTH_MLX ? mica_synth_write_folder(&m, options, path, err)
                                        : mica_synth_write_gguf(&m, options, path, err);
    mica_free(m.tensors);
    return st;
}
