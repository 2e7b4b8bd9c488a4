/* synth_folder.c: a synthetic MLX folder: config, tokenizer, shards of at most 5 GB with an index.
 *
 * A quantized matrix is three tensors: packed codes, scales, biases. The folder is made beside its
 * place and takes its name when all is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "format/safetensors_writer.h"
#include "quant/synth_config.h"

#define SHARD_BYTES ((uint64_t)5000000000)

static synth_matrix matrix_of(const synth_tensor *t, const synth_options *o) {
    return t->is_router ? mica_synth_matrix(t, SYNTH_ROUTER_BITS, SYNTH_ROUTER_GROUP, o->seed)
                        : mica_synth_matrix(t, o->bits, o->group, o->seed);
}

static int64_t n_rows_of(const synth_tensor *t) {
    return (t->n_experts ? t->n_experts : 1) * t->n_out;
}

/* ---- headers ---- */

static void name_of(const synth_tensor *t, const char *suffix, char out[128]) {
    snprintf(out, 128, "%s.%s", t->name, suffix);
}

/* Describes a tensor; gives its bytes. */
static uint64_t describe(safetensors_writer *w, const synth_tensor *t, const synth_options *o) {
    char name[128];
    name_of(t, "weight", name);
    if (t->is_vector) {
        const uint64_t n = (uint64_t)t->n_in;
        return mica_safetensors_add(w, name, MICA_BF16, 1, &n);
    }
    synth_matrix m = matrix_of(t, o);
    uint64_t dim[3] = {(uint64_t)t->n_experts, (uint64_t)t->n_out,
                       (uint64_t)(t->n_in * m.bits / 32)};
    int skip = t->n_experts == 0;
    uint64_t n_bytes = mica_safetensors_add(w, name, MICA_U32, 3 - skip, dim + skip);
    dim[2] = (uint64_t)(t->n_in / m.group);
    name_of(t, "scales", name);
    n_bytes += mica_safetensors_add(w, name, MICA_BF16, 3 - skip, dim + skip);
    name_of(t, "biases", name);
    return n_bytes + mica_safetensors_add(w, name, MICA_BF16, 3 - skip, dim + skip);
}

static uint64_t bytes_of(const synth_tensor *t, const synth_options *o) {
    safetensors_writer w; /* sizes alone are wanted: running out of memory changes none */
    mica_safetensors_writer_init(&w, "mlx");
    uint64_t n_bytes = describe(&w, t, o);
    mica_safetensors_writer_deinit(&w);
    return n_bytes;
}

/* ---- data ---- */

/* Eight codes fill `bits` bytes, lowest bit first. */
static void pack(const uint8_t *q, int64_t n, int bits, uint8_t *out) {
    for (int64_t i = 0; i < n; i += 8, out += bits) {
        uint64_t v = 0;
        for (int k = 0; k < 8; k++)
            v |= (uint64_t)q[i + k] << (bits * k);
        memcpy(out, &v, (size_t)bits);
    }
}

static mica_status put_codes(synth_out *out, const synth_matrix *m, int64_t n_rows, uint8_t *row,
                             mica_error *err) {
    uint8_t *packed = row + m->n_in;
    mica_status st = MICA_OK;
    for (int64_t r = 0; !st && r < n_rows; r++) {
        mica_synth_codes(m, r, row);
        pack(row, m->n_in, m->bits, packed);
        st = mica_synth_put(out, packed, (size_t)(m->n_in * m->bits / 8), err);
    }
    return st;
}

/* factor 1: scales; minus the zero point: biases. Both are exact in bf16. */
static mica_status put_scales(synth_out *out, const synth_matrix *m, int64_t n_rows, float factor,
                              uint8_t *row, mica_error *err) {
    int64_t n = m->n_in / m->group;
    mica_status st = MICA_OK;
    for (int64_t r = 0; !st && r < n_rows; r++) {
        for (int64_t g = 0; g < n; g++) {
            float scale = m->unit * (float)mica_synth_scale(m, r, g);
            mica_store_f(row, MICA_BF16, (size_t)g, factor * scale);
        }
        st = mica_synth_put(out, row, (size_t)n * 2, err);
    }
    return st;
}

static mica_status put_vector(synth_out *out, const synth_tensor *t, uint8_t *row,
                              mica_error *err) {
    for (int64_t i = 0; i < t->n_in; i++)
        mica_store_f(row, MICA_BF16, (size_t)i, mica_synth_element(t, out->options->seed, i));
    return mica_synth_put(out, row, (size_t)t->n_in * 2, err);
}

static mica_status put_tensor(synth_out *out, const synth_tensor *t, mica_error *err) {
    uint8_t *row = mica_malloc((size_t)t->n_in * 2 + 64); /* codes, and packed ones behind */
    if (!row) return mica_fail(err, MICA_E_NOMEM, "out of memory for a row of %s", t->name);
    mica_status st;
    if (t->is_vector) {
        st = put_vector(out, t, row, err);
    } else {
        synth_matrix m = matrix_of(t, out->options);
        int64_t n_rows = n_rows_of(t);
        st = put_codes(out, &m, n_rows, row, err);
        if (!st) st = put_scales(out, &m, n_rows, 1.0f, row, err);
        if (!st) st = put_scales(out, &m, n_rows, -(float)(1 << (m.bits - 1)), row, err);
    }
    mica_free(row);
    return st;
}

/* ---- files ---- */

/* Tensors [begin, end) of a shard are those that fit SHARD_BYTES, at least one. */
static size_t shard_end(const synth_model *m, const synth_options *o, size_t begin) {
    uint64_t n_bytes = 0;
    size_t i = begin;
    for (; i < m->n_tensors; i++) {
        n_bytes += bytes_of(&m->tensors[i], o);
        if (n_bytes > SHARD_BYTES && i > begin) break;
    }
    return i;
}

static mica_status put_shard(synth_out *out, const synth_model *m, size_t begin, size_t end,
                             mica_error *err) {
    safetensors_writer w;
    uint8_t *head = NULL;
    size_t n_head;
    mica_safetensors_writer_init(&w, "mlx");
    for (size_t i = begin; i < end; i++)
        describe(&w, &m->tensors[i], out->options);
    mica_status st = mica_safetensors_writer_head(&w, &head, &n_head, err);
    if (!st) st = mica_synth_put(out, head, n_head, err);
    for (size_t i = begin; !st && i < end; i++)
        st = put_tensor(out, &m->tensors[i], err);
    if (!st) st = mica_synth_flush(out, err);
    mica_free(head);
    mica_safetensors_writer_deinit(&w);
    return st;
}

static void shard_name(size_t i, size_t n, char out[64]) {
    if (n == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05zu-of-%05zu.safetensors", i + 1, n);
}

static void index_shard(json_writer *w, const synth_model *m, size_t begin, size_t end,
                        const char *file) {
    static const char *const suffixes[] = {"weight", "scales", "biases"};
    for (size_t i = begin; i < end; i++)
        for (int k = 0; k < (m->tensors[i].is_vector ? 1 : 3); k++) {
            char name[128];
            name_of(&m->tensors[i], suffixes[k], name);
            mica_json_member_cstring(w, name, file);
        }
}

static mica_status write_json(json_writer *w, const char *folder, const char *name,
                              mica_error *err) {
    char *path = w->failed ? NULL : mica_path_join(folder, name);
    if (!path) return mica_fail(err, MICA_E_NOMEM, "out of memory for %s", name);
    mica_status st = mica_file_write(path, w->data, w->n, err);
    mica_free(path);
    return st;
}

static mica_status write_shard(synth_out *out, const synth_model *m, const char *folder,
                               const char *file, size_t begin, size_t end, mica_error *err) {
    char *path = mica_path_join(folder, file);
    if (!path) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    mica_status st = mica_writer_open(&out->writer, path, err);
    if (!st) st = put_shard(out, m, begin, end, err);
    st = mica_writer_close(&out->writer, st, err);
    mica_free(path);
    return st;
}

static mica_status write_shards(synth_out *out, const synth_model *m, const char *folder,
                                mica_error *err) {
    size_t n_shards = 0;
    for (size_t i = 0; i < m->n_tensors; i = shard_end(m, out->options, i))
        n_shards++;
    json_writer index;
    mica_json_writer_init(&index, true);
    mica_json_begin_object(&index);
    mica_json_key(&index, "weight_map");
    mica_json_begin_object(&index);
    mica_status st = MICA_OK;
    size_t begin = 0;
    for (size_t k = 0; !st && k < n_shards; k++) {
        char file[64];
        size_t end = shard_end(m, out->options, begin);
        shard_name(k, n_shards, file);
        st = write_shard(out, m, folder, file, begin, end, err);
        index_shard(&index, m, begin, end, file);
        begin = end;
    }
    mica_json_end_object(&index);
    mica_json_end_object(&index);
    if (!st && n_shards > 1) st = write_json(&index, folder, "model.safetensors.index.json", err);
    mica_json_writer_deinit(&index);
    return st;
}

static mica_status write_all(synth_out *out, const synth_model *m, const char *folder,
                             mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, true);
    mica_synth_fill_config(&w, m, out->options);
    mica_status st = write_json(&w, folder, "config.json", err);
    mica_json_writer_deinit(&w);
    if (!st) st = mica_synth_write_tokenizer(m, folder, err);
    return st ? st : write_shards(out, m, folder, err);
}

/* A folder of ours and the files in it. */
static void remove_folder(const char *folder) {
    char **names = NULL;
    size_t n = 0;
    if (!mica_folder_list(&names, &n, folder, "", "", NULL)) {
        for (size_t i = 0; i < n; i++) {
            char *path = mica_path_join(folder, names[i]);
            if (path) unlink(path);
            mica_free(path);
        }
        mica_names_free(names, n);
    }
    rmdir(folder);
}

mica_status mica_synth_write_folder(const synth_model *m, const synth_options *options,
                                    const char *path, mica_error *err) {
    synth_out out = {.options = options, .writer.fd = -1};
    for (size_t i = 0; i < m->n_tensors; i++)
        out.total += bytes_of(&m->tensors[i], options);
    char *temporary = mica_asprintf("%s.%ld.tmp", path, (long)getpid());
    if (!temporary) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    mica_status st = mica_synth_check_room(path, out.total, err);
    if (!st && mkdir(temporary, 0777))
        st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be made", temporary);
    if (!st) {
        st = write_all(&out, m, temporary, err);
        if (!st && rename(temporary, path))
            st = mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be made", path);
        if (st) remove_folder(temporary);
    }
    mica_free(out.buffer);
    mica_free(temporary);
    return st;
}
