/* gguf.c: reads the metadata and the tensor descriptions of a GGUF file (docs/numerics.md 3.1).
 *
 * Layout: "GGUF", version, counts, key-value entries, tensor infos, padding, data. Every length is
 * held against what is left of the file before it is believed, and limits on counts and on the size
 * of everything before the data bound time and memory. No byte of tensor data is read.
 */
#include "format/gguf_file.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "format/overlap.h"

#define MAX_ENTRIES (1u << 16)
#define MAX_TENSORS (1u << 18)
#define MAX_HEAD_BYTES (128u << 20) /* entries and infos; vocabularies reach some 20 MB */
#define DEFAULT_ALIGNMENT 32
#define GGUF_MAX_DIMS 4

/* The least bytes of an entry (key length, 1 byte of key, type, 1 byte) and of a tensor info (name
 * length, 1 byte of name, n_dims, type, offset). */
enum { MIN_ENTRY_BYTES = 14, MIN_INFO_BYTES = 25 };

/* A place in the file from which things are read in order. */
typedef struct cursor {
    gguf_file *file;
    uint64_t pos;
    uint64_t end; /* no byte at or after it is read */
    mica_error *err;
} cursor;

static mica_status bad(const cursor *c, const char *what) {
    return mica_fail_at(c->err, MICA_E_FORMAT, c->pos, "%s: %s", c->file->name, what);
}

static mica_status no_memory(const cursor *c) {
    return mica_fail(c->err, MICA_E_NOMEM, "%s: out of memory for the file's header",
                     c->file->name);
}

static mica_status take(cursor *c, uint64_t n, const uint8_t **out, const char *what) {
    if (n <= c->end - c->pos) {
        *out = c->file->data + c->pos;
        c->pos += n;
        return MICA_OK;
    }
    if (n <= c->file->n_bytes - c->pos)
        return mica_fail_at(c->err, MICA_E_LIMIT, c->pos,
                            "%s: %s lies past the first %u bytes, where metadata must end",
                            c->file->name, what, MAX_HEAD_BYTES);
    return mica_fail_at(c->err, MICA_E_FORMAT, c->pos,
                        "%s: %s needs %llu bytes, %llu are left: the file is cut short or damaged",
                        c->file->name, what, (unsigned long long)n,
                        (unsigned long long)(c->file->n_bytes - c->pos));
}

static mica_status take_u32(cursor *c, uint32_t *out, const char *what) {
    const uint8_t *p = NULL;
    mica_status st = take(c, sizeof(*out), &p, what);
    if (!st) memcpy(out, p, sizeof(*out));
    return st;
}

static mica_status take_u64(cursor *c, uint64_t *out, const char *what) {
    const uint8_t *p = NULL;
    mica_status st = take(c, sizeof(*out), &p, what);
    if (!st) memcpy(out, p, sizeof(*out));
    return st;
}

static mica_status take_string(cursor *c, gguf_string *out, const char *what) {
    const uint8_t *p = NULL;
    uint64_t n = 0;
    mica_status st = take_u64(c, &n, what);
    if (!st) st = take(c, n, &p, what);
    if (!st) *out = (gguf_string){(const char *)p, n};
    return st;
}

static mica_status take_type(cursor *c, gguf_value_type *out, const char *what) {
    uint32_t type = 0;
    mica_status st = take_u32(c, &type, what);
    if (st) return st;
    if (type > GGUF_VALUE_F64)
        return mica_fail_at(c->err, MICA_E_FORMAT, c->pos - 4, "%s: %s is %u, known are 0 to 12",
                            c->file->name, what, type);
    *out = (gguf_value_type)type;
    return MICA_OK;
}

static mica_status take_array(cursor *c, gguf_entry *e) {
    mica_status st = take_type(c, &e->element, "the element type of an array");
    if (st) return st;
    if (e->element == GGUF_VALUE_ARRAY) return bad(c, "an array of arrays is not allowed");
    if ((st = take_u64(c, &e->n, "the length of an array"))) return st;
    uint64_t start = c->pos;
    if (e->element == GGUF_VALUE_STRING) {
        gguf_string s;
        for (uint64_t i = 0; i < e->n && !st; i++)
            st = take_string(c, &s, "a string of an array");
    } else {
        uint64_t n_bytes = 0;
        if (!mica_mul_u64(e->n, mica_gguf_value_bytes(e->element), &n_bytes))
            return bad(c, "the length of an array overflows");
        st = take(c, n_bytes, &e->data, "an array");
    }
    e->data = c->file->data + start;
    e->n_bytes = c->pos - start;
    return st;
}

static mica_status take_value(cursor *c, gguf_entry *e) {
    const uint8_t *p = NULL;
    mica_status st = take_type(c, &e->type, "the type of a metadata value");
    if (st) return st;
    if (e->type == GGUF_VALUE_STRING) return take_string(c, &e->s, "a metadata string");
    if (e->type == GGUF_VALUE_ARRAY) return take_array(c, e);
    if ((st = take(c, mica_gguf_value_bytes(e->type), &p, "a metadata value"))) return st;
    mica_gguf_widen(e, p);
    return MICA_OK;
}

static mica_status read_entry(cursor *c, gguf_entry *e, size_t idx) {
    uint64_t start = c->pos;
    bool was_there = false;
    mica_status st = take_string(c, &e->key, "a metadata key");
    if (st) return st;
    if (!e->key.n)
        return mica_fail_at(c->err, MICA_E_FORMAT, start, "%s: metadata entry %zu has an empty key",
                            c->file->name, idx);
    st = mica_name_index_add(&c->file->keys, e->key.data, e->key.n, idx, &was_there, c->err);
    if (st) return st;
    if (was_there)
        return mica_fail_at(c->err, MICA_E_FORMAT, start, "%s: the key '%.*s' occurs twice",
                            c->file->name, (int)(e->key.n < 80 ? e->key.n : 80), e->key.data);
    return take_value(c, e);
}

static mica_status read_entries(cursor *c, uint64_t n) {
    gguf_file *f = c->file;
    if (n > (f->n_bytes - c->pos) / MIN_ENTRY_BYTES)
        return bad(c, "the file is too short for its number of metadata entries");
    if (n > MAX_ENTRIES)
        return mica_fail_at(c->err, MICA_E_LIMIT, 16,
                            "%s: %llu metadata entries, at most %u are "
                            "read",
                            f->name, (unsigned long long)n, MAX_ENTRIES);
    if (!(f->entries = mica_calloc((size_t)n, sizeof(*f->entries)))) return no_memory(c);
    mica_status st = MICA_OK;
    for (; f->n_entries < n && !st; f->n_entries++)
        st = read_entry(c, &f->entries[f->n_entries], f->n_entries);
    return st;
}

static mica_status read_alignment(cursor *c, uint64_t *alignment) {
    const gguf_entry *e = mica_gguf_find(c->file, "general.alignment");
    *alignment = DEFAULT_ALIGNMENT;
    if (!e) return MICA_OK;
    if (e->type != GGUF_VALUE_U32)
        return mica_fail(c->err, MICA_E_FORMAT, "%s: general.alignment has value type %d, not u32",
                         c->file->name, (int)e->type);
    *alignment = e->u;
    if (e->u && !(e->u & (e->u - 1))) return MICA_OK;
    return mica_fail(c->err, MICA_E_FORMAT, "%s: general.alignment is %llu, no power of two",
                     c->file->name, (unsigned long long)e->u);
}

static mica_status take_dims(cursor *c, file_tensor *t) {
    uint32_t n_dims = 0;
    mica_status st = take_u32(c, &n_dims, "a tensor's number of dimensions");
    if (st) return st;
    if (n_dims > GGUF_MAX_DIMS)
        return mica_fail_at(c->err, MICA_E_FORMAT, c->pos - 4,
                            "%s: tensor '%.80s' has %u dimensions, at most %d are allowed",
                            c->file->name, t->name, n_dims, GGUF_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0 && !st; i--)
        st = take_u64(c, &t->dim[i], "a tensor's dimension");
    return st;
}

/* Fills type and n_bytes. A row is a whole number of blocks. */
static mica_status take_tensor_type(cursor *c, file_tensor *t) {
    uint32_t type = 0;
    mica_status st = take_u32(c, &type, "a tensor's type");
    if (st) return st;
    gguf_block block = mica_gguf_block(type);
    if (!block.n_elements)
        return mica_fail_at(c->err, MICA_E_UNSUPPORTED, c->pos - 4,
                            "%s: tensor '%.80s' has type %u (%s), which mica does not read; use a "
                            "file in another quantization",
                            c->file->name, t->name, type, block.name);
    uint64_t row = t->n_dims ? t->dim[t->n_dims - 1] : 1;
    if (row % block.n_elements)
        return mica_fail_at(c->err, MICA_E_FORMAT, c->pos - 4,
                            "%s: tensor '%.80s' has rows of %llu elements, %s needs a multiple of "
                            "%u",
                            c->file->name, t->name, (unsigned long long)row, block.name,
                            block.n_elements);
    t->is_gguf = true;
    t->type = (gguf_type)type;
    t->dtype = mica_gguf_dtype(t->type);
    bool fits = mica_mul_u64(row / block.n_elements, block.n_bytes, &t->n_bytes);
    for (int i = 0; fits && i < t->n_dims - 1; i++)
        fits = mica_mul_u64(t->n_bytes, t->dim[i], &t->n_bytes);
    if (fits) return MICA_OK;
    return mica_fail_at(c->err, MICA_E_FORMAT, c->pos - 4, "%s: the size of '%.80s' overflows",
                        c->file->name, t->name);
}

static mica_status take_name(cursor *c, file_tensor *t, size_t idx) {
    gguf_string name = {0};
    uint64_t start = c->pos;
    bool was_there = false;
    mica_status st = take_string(c, &name, "a tensor's name");
    if (st) return st;
    if (!name.n || memchr(name.data, 0, (size_t)name.n))
        return mica_fail_at(c->err, MICA_E_FORMAT, start, "%s: the name of tensor %zu is %s",
                            c->file->name, idx, name.n ? "not a text" : "empty");
    if (!(t->name = mica_arena_strndup(&c->file->arena, name.data, (size_t)name.n)))
        return no_memory(c);
    st = mica_name_index_add(&c->file->names, t->name, name.n, idx, &was_there, c->err);
    if (st || !was_there) return st;
    return mica_fail_at(c->err, MICA_E_FORMAT, start, "%s: the tensor name '%.80s' occurs twice",
                        c->file->name, t->name);
}

/* The offset is left in *offset: where the data begin is known only after the last info. */
static mica_status read_info(cursor *c, file_tensor *t, uint64_t *offset, uint64_t alignment) {
    mica_status st = take_name(c, t, c->file->n_tensors);
    if (!st) st = take_dims(c, t);
    if (!st) st = take_tensor_type(c, t);
    if (!st) st = take_u64(c, offset, "a tensor's offset");
    if (st) return st;
    t->map = c->file->map;
    if (*offset % alignment == 0) return MICA_OK;
    return mica_fail_at(c->err, MICA_E_FORMAT, c->pos - 8,
                        "%s: tensor '%.80s' has offset %llu, not a multiple of the alignment %llu",
                        c->file->name, t->name, (unsigned long long)*offset,
                        (unsigned long long)alignment);
}

/* Turns offsets in the data section into pointers, each range checked against the file's end. */
static mica_status place_tensors(cursor *c, const uint64_t *offsets, uint64_t alignment) {
    gguf_file *f = c->file;
    uint64_t data_off = (c->pos + alignment - 1) & ~(alignment - 1); /* pos is small, see end */
    uint64_t n_data = data_off < f->n_bytes ? f->n_bytes - data_off : 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        file_tensor *t = &f->tensors[i];
        if (offsets[i] > n_data || t->n_bytes > n_data - offsets[i])
            return mica_fail_at(c->err, MICA_E_FORMAT, c->pos,
                                "%s: tensor '%.80s' needs %llu bytes at data offset %llu, the file "
                                "has %llu bytes of data: it is cut short; fetch it again",
                                f->name, t->name, (unsigned long long)t->n_bytes,
                                (unsigned long long)offsets[i], (unsigned long long)n_data);
        /* An empty tensor may lie where the data section would begin if the file had one. */
        t->data = f->data + (n_data ? data_off + offsets[i] : f->n_bytes);
    }
    return mica_check_overlap(f->tensors, f->n_tensors, f->data, f->name, c->err);
}

static mica_status read_tensors(cursor *c, uint64_t n, uint64_t alignment) {
    gguf_file *f = c->file;
    if (n > (f->n_bytes - c->pos) / MIN_INFO_BYTES)
        return bad(c, "the file is too short for its number of tensors");
    if (n > MAX_TENSORS)
        return mica_fail_at(c->err, MICA_E_LIMIT, 8, "%s: %llu tensors, at most %u are read",
                            f->name, (unsigned long long)n, MAX_TENSORS);
    mica_status st = MICA_OK;
    uint64_t *offsets = mica_calloc((size_t)n, sizeof(*offsets));
    f->tensors = mica_calloc((size_t)n, sizeof(*f->tensors));
    if (!offsets || !f->tensors) st = no_memory(c);
    for (; f->n_tensors < n && !st; f->n_tensors++)
        st = read_info(c, &f->tensors[f->n_tensors], &offsets[f->n_tensors], alignment);
    if (!st) st = place_tensors(c, offsets, alignment);
    mica_free(offsets);
    return st;
}

static mica_status read_version(cursor *c) {
    gguf_file *f = c->file;
    const uint8_t *magic = NULL;
    mica_status st = take(c, 4, &magic, "the magic 'GGUF'");
    if (st) return st;
    if (memcmp(magic, "GGUF", 4) != 0)
        return mica_fail_at(c->err, MICA_E_FORMAT, 0,
                            "%s: no GGUF file: it does not start with "
                            "'GGUF'",
                            f->name);
    if ((st = take_u32(c, &f->version, "the version"))) return st;
    if (f->version == 2 || f->version == 3) return MICA_OK;
    bool swapped = !(f->version & 0xFFFFu);
    return mica_fail_at(c->err, MICA_E_UNSUPPORTED, 4, "%s: %s %u, readable are 2 and 3", f->name,
                        swapped ? "a big-endian file, version" : "GGUF version",
                        swapped ? f->version >> 24 : f->version);
}

/* "NAME-00002-of-00003.gguf, ...": the other parts, as their writer calls them; empty if the file
 * has another kind of name. */
static void list_parts(const gguf_file *f, int64_t no, int64_t n, char *out, size_t n_out) {
    enum { MAX_SHOWN = 4 };
    char suffix[64];
    const char *slash = strrchr(f->name, '/'), *name = slash ? slash + 1 : f->name;
    snprintf(suffix, sizeof(suffix), "-%05lld-of-%05lld.gguf", (long long)no + 1, (long long)n);
    size_t n_name = strlen(name), n_suffix = strlen(suffix), at = 0, n_shown = 0;
    out[0] = '\0';
    if (n_name < n_suffix || strcmp(name + n_name - n_suffix, suffix) != 0) return;
    for (int64_t i = 0; i < n && at < n_out; i++) {
        if (i == no) continue;
        bool shown = n_shown++ < MAX_SHOWN;
        int wrote =
            shown ? snprintf(out + at, n_out - at, "%s%.*s-%05lld-of-%05lld.gguf", at ? ", " : ": ",
                             (int)(n_name - n_suffix), name, (long long)i + 1, (long long)n)
                  : snprintf(out + at, n_out - at, ", ...");
        if (wrote > 0) at += (size_t)wrote;
        if (!shown) break;
    }
}

/* A part of a model is no model. */
static mica_status refuse_part(const gguf_file *f, mica_error *err) {
    char others[512];
    int64_t n = mica_gguf_integer(f, "split.count", 1), no = mica_gguf_integer(f, "split.no", 0);
    if (n <= 1) return MICA_OK;
    list_parts(f, no, n, others, sizeof(others));
    return mica_fail(
        err, MICA_E_UNSUPPORTED,
        "%s: part %lld of a model in %lld files (split.count); one file must hold all: "
        "join them with llama-gguf-split --merge. The others%s",
        f->name, (long long)no + 1, (long long)n,
        *others ? others : " are not named after this one");
}

static mica_status parse_file(gguf_file *f, mica_error *err) {
    cursor c = {.file = f, .end = f->n_bytes, .err = err};
    uint64_t n_tensors = 0, n_entries = 0, alignment = 0;
    if (c.end > MAX_HEAD_BYTES) c.end = MAX_HEAD_BYTES;
    mica_status st = read_version(&c);
    if (!st) st = take_u64(&c, &n_tensors, "the number of tensors");
    if (!st) st = take_u64(&c, &n_entries, "the number of metadata entries");
    if (!st) st = read_entries(&c, n_entries);
    if (!st) st = refuse_part(f, err);
    if (!st) st = read_alignment(&c, &alignment);
    if (!st) st = read_tensors(&c, n_tensors, alignment);
    return st;
}

static gguf_file *new_file(const char *name) {
    gguf_file *f = mica_calloc(1, sizeof(*f));
    if (!f) return NULL;
    mica_arena_init(&f->arena, 0);
    if ((f->name = mica_strdup(name))) return f;
    mica_gguf_close(f);
    return NULL;
}

mica_status mica_gguf_open(gguf_file **out, const char *path, mica_error *err) {
    mica_status st = MICA_OK;
    gguf_file *f = new_file(path);
    if (!f) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    if ((st = mica_map_open(&f->map, path, err))) goto out;
    f->data = f->map->data;
    f->n_bytes = f->map->size;
    if ((st = parse_file(f, err))) goto out;
    *out = f;
    f = NULL;
out:
    mica_gguf_close(f);
    return st;
}

mica_status mica_gguf_parse(gguf_file **out, const uint8_t *data, uint64_t n_bytes,
                            const char *name, mica_error *err) {
    gguf_file *f = new_file(name);
    if (!f) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    f->data = data;
    f->n_bytes = n_bytes;
    mica_status st = parse_file(f, err);
    if (!st) {
        *out = f;
        f = NULL;
    }
    mica_gguf_close(f);
    return st;
}

void mica_gguf_close(gguf_file *file) {
    if (!file) return;
    mica_name_index_deinit(&file->keys);
    mica_name_index_deinit(&file->names);
    mica_arena_deinit(&file->arena);
    mica_free(file->entries);
    mica_free(file->tensors);
    mica_map_unref(file->map);
    mica_free(file->name);
    mica_free(file);
}
