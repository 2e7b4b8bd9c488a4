/* safetensors.c: reads the header of a .safetensors file (docs/models.md 4).
 *
 * Layout: u64 little-endian header length n, n bytes of JSON, then the data. The JSON is an object
 * of
 * `"name": {"dtype", "shape", "data_offsets"}` and an optional string map `__metadata__`. Offsets
 * count from the end of the header. Gaps and unaligned data are legal, overlaps are not. Only the
 * header is read; limits on its size and on the number of entries bound the time.
 */
#include "format/safetensors.h"

#include <string.h>

#include "base/checked.h"
#include "base/json.h"
#include "format/name_index.h"
#include "format/overlap.h"

#define MAX_HEADER_BYTES 100000000u /* what the format's own library accepts */
#define MAX_TENSORS (1u << 18)      /* ten times the largest published shard */
#define MAX_METADATA (1u << 16)

typedef struct metadata_item {
    const char *key, *value;
    struct metadata_item *next;
} metadata_item;

struct safetensors_file {
    mica_map *map; /* NULL: parsed from memory */
    char *name;
    const uint8_t *data;
    uint64_t n_bytes;
    uint64_t data_off; /* the first byte after the header */
    mica_arena arena;  /* names and metadata */
    file_tensor *tensors;
    size_t n_tensors, capacity;
    metadata_item *metadata;
};

/* What reading a header needs and the file object does not keep. */
typedef struct header_parser {
    safetensors_file *file;
    json_reader reader;
    name_index names;
    size_t n_metadata;
    bool has_metadata;
    mica_error *err;
} header_parser;

/* One header entry before it is checked. */
typedef struct raw_entry {
    const char *name;
    mica_dtype dtype;
    int n_dims;
    uint64_t dim[MICA_MAX_DIMS];
    uint64_t begin, end;
    bool has_dtype, has_shape, has_offsets;
} raw_entry;

static uint64_t at(const header_parser *p) { return p->reader.pos; }

static mica_status no_memory(const header_parser *p) {
    return mica_fail(p->err, MICA_E_NOMEM, "%s: out of memory for the header", p->file->name);
}

static mica_status bad_entry(const header_parser *p, const raw_entry *e, const char *what) {
    return mica_fail_at(p->err, MICA_E_FORMAT, at(p), "%s: tensor '%.80s': %s", p->file->name,
                        e->name, what);
}

static mica_status expect(header_parser *p, json_event wanted, const char *what) {
    json_event event;
    mica_status st = mica_json_next(&p->reader, &event, p->err);
    if (st || event == wanted) return st;
    return mica_fail_at(p->err, MICA_E_FORMAT, at(p), "%s: the header needs %s here", p->file->name,
                        what);
}

/* The text of the reader's last event, NUL-terminated, in the file's arena. Names are C strings
 * everywhere, so a NUL inside is refused. */
static mica_status keep_text(header_parser *p, const char **out) {
    if (memchr(p->reader.text, 0, p->reader.n_text))
        return mica_fail_at(p->err, MICA_E_FORMAT, at(p), "%s: a header string holds a NUL",
                            p->file->name);
    *out = mica_arena_strndup(&p->file->arena, p->reader.text, p->reader.n_text);
    return *out ? MICA_OK : no_memory(p);
}

static bool text_is(const header_parser *p, const char *word) {
    return p->reader.n_text == strlen(word) && !memcmp(p->reader.text, word, p->reader.n_text);
}

static mica_status read_metadata(header_parser *p) {
    if (p->has_metadata)
        return mica_fail_at(p->err, MICA_E_FORMAT, at(p), "%s: __metadata__ occurs twice",
                            p->file->name);
    p->has_metadata = true;
    mica_status st = expect(p, JSON_OBJECT_BEGIN, "an object as __metadata__");
    for (json_event event; !st;) {
        if ((st = mica_json_next(&p->reader, &event, p->err))) break;
        if (event == JSON_OBJECT_END) break;
        if (++p->n_metadata > MAX_METADATA)
            return mica_fail(p->err, MICA_E_LIMIT, "%s: more than %u entries in __metadata__",
                             p->file->name, MAX_METADATA);
        metadata_item *item = mica_arena_alloc(&p->file->arena, sizeof(*item));
        if (!item) return no_memory(p);
        if ((st = keep_text(p, &item->key))) break;
        if ((st = expect(p, JSON_STRING, "a string in __metadata__"))) break;
        if ((st = keep_text(p, &item->value))) break;
        item->next = p->file->metadata;
        p->file->metadata = item;
    }
    return st;
}

static mica_status read_dtype(header_parser *p, raw_entry *e) {
    if (e->has_dtype) return bad_entry(p, e, "dtype occurs twice");
    mica_status st = expect(p, JSON_STRING, "a string as dtype");
    if (st) return st;
    e->has_dtype = true;
    if (mica_dtype_find(p->reader.text, p->reader.n_text, &e->dtype)) return MICA_OK;
    return mica_fail_at(p->err, MICA_E_UNSUPPORTED, at(p),
                        "%s: tensor '%.80s' has the unknown dtype '%.*s'", p->file->name, e->name,
                        (int)(p->reader.n_text < 32 ? p->reader.n_text : 32), p->reader.text);
}

/* The items of an array of at most `max` non-negative integers. */
static mica_status read_sizes(header_parser *p, const raw_entry *e, uint64_t *out, int max,
                              int *n_out) {
    mica_status st = expect(p, JSON_ARRAY_BEGIN, "an array of sizes");
    for (int n = 0; !st; n++) {
        json_event event;
        int64_t value = 0;
        if ((st = mica_json_next(&p->reader, &event, p->err))) break;
        if (event == JSON_ARRAY_END) {
            *n_out = n;
            break;
        }
        if (event != JSON_NUMBER || !mica_json_text_i64(&p->reader, &value) || value < 0)
            return bad_entry(p, e, "a size is no integer between 0 and 2^63 - 1");
        if (n == max) return bad_entry(p, e, "too many dimensions or offsets");
        out[n] = (uint64_t)value;
    }
    return st;
}

static mica_status read_shape(header_parser *p, raw_entry *e) {
    if (e->has_shape) return bad_entry(p, e, "shape occurs twice");
    e->has_shape = true;
    return read_sizes(p, e, e->dim, MICA_MAX_DIMS, &e->n_dims);
}

static mica_status read_offsets(header_parser *p, raw_entry *e) {
    uint64_t pair[2];
    int n = 0;
    if (e->has_offsets) return bad_entry(p, e, "data_offsets occurs twice");
    e->has_offsets = true;
    mica_status st = read_sizes(p, e, pair, 2, &n);
    if (st) return st;
    if (n != 2) return bad_entry(p, e, "data_offsets needs two numbers");
    e->begin = pair[0];
    e->end = pair[1];
    return MICA_OK;
}

static mica_status read_fields(header_parser *p, raw_entry *e) {
    mica_status st = expect(p, JSON_OBJECT_BEGIN, "an object for each tensor");
    while (!st) {
        json_event event;
        if ((st = mica_json_next(&p->reader, &event, p->err))) break;
        if (event == JSON_OBJECT_END) break;
        if (text_is(p, "dtype")) {
            st = read_dtype(p, e);
        } else if (text_is(p, "shape")) {
            st = read_shape(p, e);
        } else if (text_is(p, "data_offsets")) {
            st = read_offsets(p, e);
        } else {
            st = mica_json_skip(&p->reader, p->err);
        }
    }
    return st;
}

/* The byte range must be inside the file and as long as shape and dtype demand. */
static mica_status check_entry(const header_parser *p, const raw_entry *e) {
    const safetensors_file *f = p->file;
    if (!e->has_dtype) return bad_entry(p, e, "no dtype");
    if (!e->has_shape) return bad_entry(p, e, "no shape");
    if (!e->has_offsets) return bad_entry(p, e, "no data_offsets");
    uint64_t n_bytes = mica_dtype_bytes(e->dtype);
    for (int i = 0; i < e->n_dims; i++)
        if (!mica_mul_u64(n_bytes, e->dim[i], &n_bytes)) return bad_entry(p, e, "size overflows");
    if (e->begin > e->end) return bad_entry(p, e, "data_offsets run backwards");
    if (e->end - e->begin != n_bytes)
        return mica_fail_at(p->err, MICA_E_FORMAT, at(p),
                            "%s: tensor '%.80s': shape and dtype need %llu bytes, data_offsets "
                            "give %llu",
                            f->name, e->name, (unsigned long long)n_bytes,
                            (unsigned long long)(e->end - e->begin));
    if (e->end > f->n_bytes - f->data_off)
        return mica_fail_at(p->err, MICA_E_FORMAT, at(p),
                            "%s: tensor '%.80s' ends at data byte %llu, the file has %llu: it is "
                            "cut short; fetch it again",
                            f->name, e->name, (unsigned long long)e->end,
                            (unsigned long long)(f->n_bytes - f->data_off));
    return MICA_OK;
}

static mica_status append_tensor(header_parser *p, const raw_entry *e) {
    safetensors_file *f = p->file;
    if (f->n_tensors == MAX_TENSORS)
        return mica_fail(p->err, MICA_E_LIMIT, "%s: more than %u tensors", f->name, MAX_TENSORS);
    if (f->n_tensors == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        file_tensor *grown = mica_realloc(f->tensors, capacity * sizeof(*grown));
        if (!grown) return no_memory(p);
        f->tensors = grown;
        f->capacity = capacity;
    }
    file_tensor *t = &f->tensors[f->n_tensors++];
    *t = (file_tensor){.name = e->name,
                       .n_dims = e->n_dims,
                       .dtype = e->dtype,
                       .data = f->data + f->data_off + e->begin,
                       .n_bytes = e->end - e->begin,
                       .map = f->map};
    memcpy(t->dim, e->dim, sizeof(t->dim));
    return MICA_OK;
}

/* The reader's last event was the tensor's name. */
static mica_status read_tensor(header_parser *p) {
    raw_entry e = {0};
    bool was_there = false;
    size_t n_name = p->reader.n_text;
    mica_status st = keep_text(p, &e.name);
    if (st) return st;
    if (!n_name) return bad_entry(p, &e, "the name is empty");
    st = mica_name_index_add(&p->names, e.name, n_name, p->file->n_tensors, &was_there, p->err);
    if (st) return st;
    if (was_there) return bad_entry(p, &e, "the name occurs twice");
    if ((st = read_fields(p, &e))) return st;
    if ((st = check_entry(p, &e))) return st;
    return append_tensor(p, &e);
}

static mica_status read_header(header_parser *p) {
    mica_status st = expect(p, JSON_OBJECT_BEGIN, "an object");
    while (!st) {
        json_event event;
        if ((st = mica_json_next(&p->reader, &event, p->err))) break;
        if (event == JSON_OBJECT_END) break;
        st = text_is(p, "__metadata__") ? read_metadata(p) : read_tensor(p);
    }
    return st ? st : expect(p, JSON_END, "its end");
}

static mica_status check_lengths(safetensors_file *f, mica_error *err) {
    uint64_t n_header = 0;
    if (f->n_bytes < 8)
        return mica_fail_at(err, MICA_E_FORMAT, 0,
                            "%s: %llu bytes are too few for a safetensors file", f->name,
                            (unsigned long long)f->n_bytes);
    memcpy(&n_header, f->data, 8);
    if (n_header > f->n_bytes - 8)
        return mica_fail_at(err, MICA_E_FORMAT, 0,
                            "%s: the header should be %llu bytes long, the file has %llu: cut "
                            "short, or no safetensors file",
                            f->name, (unsigned long long)n_header,
                            (unsigned long long)f->n_bytes - 8);
    if (n_header > MAX_HEADER_BYTES)
        return mica_fail_at(err, MICA_E_LIMIT, 0, "%s: a header of %llu bytes, at most %u are read",
                            f->name, (unsigned long long)n_header, MAX_HEADER_BYTES);
    f->data_off = 8 + n_header;
    return MICA_OK;
}

static mica_status parse_file(safetensors_file *f, mica_error *err) {
    mica_status st = check_lengths(f, err);
    if (st) return st;
    header_parser p = {.file = f, .err = err};
    mica_json_reader_init(&p.reader, (const char *)f->data, (size_t)f->data_off, f->name);
    p.reader.pos = 8; /* so that every offset in a message counts from the file's start */
    st = read_header(&p);
    mica_name_index_deinit(&p.names);
    mica_json_reader_deinit(&p.reader);
    return st ? st : mica_check_overlap(f->tensors, f->n_tensors, f->data, f->name, err);
}

static safetensors_file *new_file(const char *name) {
    safetensors_file *f = mica_calloc(1, sizeof(*f));
    if (!f) return NULL;
    mica_arena_init(&f->arena, 0);
    if ((f->name = mica_strdup(name))) return f;
    mica_safetensors_close(f);
    return NULL;
}

mica_status mica_safetensors_open(safetensors_file **out, const char *path, mica_error *err) {
    mica_status st = MICA_OK;
    safetensors_file *f = new_file(path);
    if (!f) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    if ((st = mica_map_open(&f->map, path, err))) goto out;
    f->data = f->map->data;
    f->n_bytes = f->map->size;
    if ((st = parse_file(f, err))) goto out;
    *out = f;
    f = NULL;
out:
    mica_safetensors_close(f);
    return st;
}

mica_status mica_safetensors_parse(safetensors_file **out, const uint8_t *data, uint64_t n_bytes,
                                   const char *name, mica_error *err) {
    safetensors_file *f = new_file(name);
    if (!f) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    f->data = data;
    f->n_bytes = n_bytes;
    mica_status st = parse_file(f, err);
    if (!st) {
        *out = f;
        f = NULL;
    }
    mica_safetensors_close(f);
    return st;
}

void mica_safetensors_close(safetensors_file *file) {
    if (!file) return;
    mica_arena_deinit(&file->arena);
    mica_free(file->tensors);
    mica_map_unref(file->map);
    mica_free(file->name);
    mica_free(file);
}

size_t mica_safetensors_count(const safetensors_file *file) { return file->n_tensors; }

uint64_t mica_safetensors_bytes(const safetensors_file *file) { return file->n_bytes; }

const file_tensor *mica_safetensors_at(const safetensors_file *file, size_t i) {
    return &file->tensors[i];
}

const char *mica_safetensors_metadata(const safetensors_file *file, const char *key) {
    for (const metadata_item *item = file->metadata; item; item = item->next)
        if (!strcmp(item->key, key)) return item->value;
    return NULL;
}
