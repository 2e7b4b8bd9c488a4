/* token_cache.c: writing tables to a file and copying them back.
 *
 * The file is for this machine only: a header, then sections in a fixed order, each padded to 8
 * bytes. Numbers in it are checked before they are used as indices, although the checksum was.
 */
#include "text/tokenizer/token_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MIN_SOURCE_BYTES (1u << 20)
#define END_BYTES 65536u

typedef struct cache_header {
    char magic[8];
    uint64_t layout; /* of everything behind it; also tells byte orders apart */
    cache_stamp stamp;
    cache_counts counts;
    uint64_t checksum; /* of all, with 0 in its own place */
} cache_header;

static const char magic[8] = "micatok";
#define LAYOUT (UINT64_C(0x0102030405060000) + 2)

/* ---- where ---- */

cache_stamp mica_cache_stamp(const mica_map *source) {
    const char *data = (const char *)source->data;
    size_t n = (size_t)source->size, n_end = n < END_BYTES ? n : END_BYTES;
    cache_stamp stamp = {.size = source->size, .mtime_ns = source->mtime_ns};
    if (!n) return stamp;
    uint64_t ends[2] = {mica_text_hash(data, n_end), mica_text_hash(data + n - n_end, n_end)};
    stamp.hash = mica_text_hash((const char *)ends, sizeof(ends));
    return stamp;
}

/* "base/name", made if it is not there. */
static char *make_folder(const char *base, const char *name) {
    char *path = mica_path_join(base, name);
    if (path) (void)mkdir(path, 0700);
    return path;
}

static char *cache_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') {
        (void)mkdir(cache, 0700);
        return make_folder(cache, "mica");
    }
    if (!home || home[0] != '/') return NULL;
    char *base = make_folder(home, ".cache");
    char *folder = base ? make_folder(base, "mica") : NULL;
    mica_free(base);
    return folder;
}

char *mica_cache_path(const mica_map *source) {
    char name[64];
    if (source->size < MIN_SOURCE_BYTES) return NULL;
    char *full = realpath(source->path, NULL);
    const char *path = full ? full : source->path;
    snprintf(name, sizeof(name), "tokenizer-%016llx.bin",
             (unsigned long long)mica_text_hash(path, strlen(path)));
    free(full); /* made by realpath */
    char *folder = cache_folder();
    char *out = folder ? mica_path_join(folder, name) : NULL;
    mica_free(folder);
    return out;
}

/* ---- sections ---- */

enum {
    SECTION_SMALL,
    SECTION_BLOB,
    SECTION_OFF,
    SECTION_LEN,
    SECTION_KIND,
    SECTION_SLOTS,
    SECTION_MERGES,
    SECTION_SCORES,
    SECTION_MERGE_SLOTS,
    SECTION_TRIE_SLOTS,
    SECTION_TRIE_IDS,
    N_SECTIONS
};

static uint64_t padded(uint64_t n_bytes) { return (n_bytes + 7) & ~UINT64_C(7); }

/* Where the sections begin behind the header; ends[N_SECTIONS] is the length of all. False: a count
 * is too large to be true. */
static bool place_sections(const cache_counts *c, uint64_t begins[N_SECTIONS + 1]) {
    const struct {
        uint64_t n, item_bytes;
    } sections[N_SECTIONS] = {
        {c->n_small, 1},
        {c->n_blob, 1},
        {c->n_ids, 4},
        {c->n_ids, 2},
        {c->n_ids, 1},
        {c->n_slots, 4},
        {c->n_merges, sizeof(bpe_merge)},
        {c->n_scores, 8},
        {c->n_merge_slots, 4},
        {c->n_trie_slots, 8},
        {c->n_trie_nodes, 4},
    };
    begins[0] = 0;
    for (int i = 0; i < N_SECTIONS; i++) {
        if (sections[i].n > UINT32_MAX) return false;
        begins[i + 1] = begins[i] + padded(sections[i].n * sections[i].item_bytes);
    }
    return true;
}

/* Of a header and what follows it. */
static uint64_t checksum(cache_header header, const char *body, size_t n_body) {
    header.checksum = 0;
    uint64_t parts[2] = {mica_text_hash((const char *)&header, sizeof(header)),
                         mica_text_hash(body, n_body)};
    return mica_text_hash((const char *)parts, sizeof(parts));
}

/* ---- writing ---- */

static void put(cache_record *r, const void *data, size_t n_bytes) {
    static const char zeros[8] = {0};
    size_t n_pad = (size_t)padded(n_bytes) - n_bytes;
    if (r->has_failed) return;
    r->has_failed = mica_text_buffer_append(&r->data, data, n_bytes, NULL) ||
                    mica_text_buffer_append(&r->data, zeros, n_pad, NULL);
}

/* The file without its vocabulary and its merges. */
static void put_small(cache_record *r, const json_load *load) {
    text_buffer small = {0};
    json_span cuts[2] = {load->vocab, load->merges};
    if (cuts[1].end && cuts[1].begin < cuts[0].begin) {
        cuts[0] = load->merges;
        cuts[1] = load->vocab;
    }
    size_t from = 0;
    mica_status st = MICA_OK;
    for (int i = 0; i < 2 && !st; i++) {
        if (!cuts[i].end) continue;
        bool is_object = cuts[i].begin == load->vocab.begin && !load->model.has_list;
        st = mica_text_buffer_append(&small, load->data + from, cuts[i].begin - from, NULL);
        if (!st) st = mica_text_buffer_append(&small, is_object ? "{}" : "[]", 2, NULL);
        from = cuts[i].end;
    }
    if (!st) st = mica_text_buffer_append(&small, load->data + from, load->n - from, NULL);
    r->has_failed = r->has_failed || st;
    r->counts.n_small = small.n;
    put(r, small.data, small.n);
    mica_text_buffer_deinit(&small);
}

void mica_token_cache_record_model(cache_record *r, const json_load *load) {
    const tokenizer *t = load->t;
    const vocab *v = &t->vocab;
    cache_header none = {0};
    put(r, &none, sizeof(none));
    put_small(r, load);
    r->counts.n_blob = v->blob_bytes;
    r->counts.n_ids = v->n_ids;
    r->counts.n_slots = v->n_slots;
    r->counts.n_used = v->n_used;
    r->counts.longest = v->longest;
    r->counts.n_merges = t->bpe.n_merges;
    r->counts.n_scores = t->unigram.n_scores;
    put(r, v->blob, v->blob_bytes);
    put(r, v->off, v->n_ids * sizeof(*v->off));
    put(r, v->len, v->n_ids * sizeof(*v->len));
    put(r, v->kind, v->n_ids);
    put(r, v->slots, v->n_slots * sizeof(*v->slots));
    put(r, t->bpe.merges, t->bpe.n_merges * sizeof(*t->bpe.merges));
    put(r, t->unigram.scores, t->unigram.n_scores * sizeof(*t->unigram.scores));
}

void mica_token_cache_record_indices(cache_record *r, const tokenizer *t) {
    const piece_trie *trie = &t->unigram.pieces;
    r->counts.n_merge_slots = t->bpe.n_slots;
    r->counts.n_trie_slots = trie->n_slots;
    r->counts.n_trie_nodes = trie->n_nodes;
    put(r, t->bpe.slots, t->bpe.n_slots * sizeof(*t->bpe.slots));
    put(r, trie->slots, trie->n_slots * sizeof(*trie->slots));
    put(r, trie->ids, trie->n_nodes * sizeof(*trie->ids));
}

void mica_token_cache_write(cache_record *r, const char *path, cache_stamp stamp) {
    cache_header header = {.layout = LAYOUT, .stamp = stamp, .counts = r->counts};
    if (r->has_failed) return;
    memcpy(header.magic, magic, sizeof(magic));
    header.checksum = checksum(header, r->data.data + sizeof(header), r->data.n - sizeof(header));
    memcpy(r->data.data, &header, sizeof(header));
    (void)mica_file_write(path, r->data.data, r->data.n, NULL);
}

void mica_token_cache_record_deinit(cache_record *r) { mica_text_buffer_deinit(&r->data); }

/* ---- reading ---- */

static bool is_power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

static bool is_sound(const cache_counts *c) {
    bool has_vocab = c->n_ids && c->n_ids <= VOCAB_MAX_IDS && is_power_of_two(c->n_slots) &&
                     c->n_used < c->n_slots && c->n_scores <= c->n_ids;
    bool has_merges =
        !c->n_merge_slots || (is_power_of_two(c->n_merge_slots) && c->n_merges < c->n_merge_slots);
    bool has_trie =
        !c->n_trie_nodes || (is_power_of_two(c->n_trie_slots) && c->n_trie_nodes < c->n_trie_slots);
    return has_vocab && has_merges && has_trie && (c->n_merge_slots || !c->n_merges);
}

static bool fits(const char *data, size_t size, cache_stamp stamp, cache_header *header) {
    uint64_t begins[N_SECTIONS + 1];
    if (size < sizeof(*header)) return false;
    memcpy(header, data, sizeof(*header));
    if (memcmp(header->magic, magic, sizeof(magic)) != 0 || header->layout != LAYOUT) return false;
    if (memcmp(&header->stamp, &stamp, sizeof(stamp)) != 0) return false;
    if (!is_sound(&header->counts) || !place_sections(&header->counts, begins)) return false;
    if (size != sizeof(*header) + begins[N_SECTIONS]) return false;
    return header->checksum == checksum(*header, data + sizeof(*header), size - sizeof(*header));
}

/* Read and not mapped: another program may cut the file short while it is used here, and a mapped
 * page that is gone ends the process. */
token_cache *mica_token_cache_open(const char *path, cache_stamp stamp) {
    cache_header header;
    char *data;
    size_t size;
    if (!mica_path_exists(path) || mica_file_read(&data, &size, path, SIZE_MAX, NULL)) return NULL;
    token_cache *c = fits(data, size, stamp, &header) ? mica_calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        mica_free(data);
        return NULL;
    }
    c->data = data;
    c->counts = header.counts;
    c->sections = (const uint8_t *)data + sizeof(header);
    c->small = (const char *)c->sections;
    return c;
}

void mica_token_cache_close(token_cache *c) {
    if (!c) return;
    mica_free(c->data);
    mica_free(c);
}

/* ---- the tables ---- */

static bool is_vocab_sound(const vocab *v) {
    size_t n_used = 0;
    for (size_t i = 0; i < v->n_ids; i++) {
        if (v->kind[i] == TOKEN_ABSENT) continue;
        if ((uint64_t)v->off[i] + v->len[i] >= v->blob_bytes) return false;
    }
    for (size_t i = 0; i < v->n_slots; i++) {
        uint32_t id = v->slots[i] & VOCAB_SLOT_ID_MASK;
        if (id > v->n_ids || (!id && v->slots[i]) || (id && !vocab_has(v, id - 1))) return false;
        n_used += id != 0;
    }
    return n_used == v->n_used && n_used < v->n_slots;
}

static bool are_merges_sound(const bpe_model *m, const vocab *v) {
    size_t n_used = 0;
    for (size_t i = 0; i < m->n_merges; i++) {
        const bpe_merge *merge = &m->merges[i];
        if (!vocab_has(v, merge->left) || !vocab_has(v, merge->right) || !vocab_has(v, merge->id)) {
            return false;
        }
    }
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i] > m->n_merges) return false;
        n_used += m->slots[i] != 0;
    }
    return !m->n_slots || n_used < m->n_slots;
}

static bool is_trie_sound(const piece_trie *t, size_t n_ids) {
    size_t n_used = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        if (t->ids[i] < -1 || t->ids[i] >= (int64_t)n_ids) return false;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        if ((t->slots[i] & ((1u << TRIE_CHILD_BITS) - 1)) >= t->n_nodes && t->slots[i])
            return false;
        n_used += t->slots[i] != 0;
    }
    return !t->n_slots || n_used < t->n_slots;
}

/* A section as memory of its own; NULL: out of memory. */
static void *copy_section(const token_cache *c, const uint64_t *begins, int section) {
    size_t n = (size_t)(begins[section + 1] - begins[section]);
    void *copy = mica_malloc(n);
    if (copy && n) memcpy(copy, c->sections + begins[section], n);
    return copy;
}

mica_status mica_token_cache_restore(const token_cache *c, tokenizer *t, mica_error *err) {
    uint64_t begins[N_SECTIONS + 1];
    const cache_counts *n = &c->counts;
    vocab *v = &t->vocab;
    piece_trie *trie = &t->unigram.pieces;
    if (!place_sections(n, begins)) return mica_fail(err, MICA_E_INTERNAL, "a cache changed");
    const struct {
        void **to;
        int section;
    } parts[] = {
        {(void **)&v->blob, SECTION_BLOB},
        {(void **)&v->off, SECTION_OFF},
        {(void **)&v->len, SECTION_LEN},
        {(void **)&v->kind, SECTION_KIND},
        {(void **)&v->slots, SECTION_SLOTS},
        {(void **)&t->bpe.merges, SECTION_MERGES},
        {(void **)&t->unigram.scores, SECTION_SCORES},
        {(void **)&t->bpe.slots, SECTION_MERGE_SLOTS},
        {(void **)&trie->slots, SECTION_TRIE_SLOTS},
        {(void **)&trie->ids, SECTION_TRIE_IDS},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        *parts[i].to = copy_section(c, begins, parts[i].section);
        if (!*parts[i].to) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", t->name);
    }
    v->blob_bytes = v->blob_capacity = (size_t)n->n_blob;
    v->n_ids = v->capacity = (size_t)n->n_ids;
    v->n_slots = (size_t)n->n_slots;
    v->n_used = (size_t)n->n_used;
    v->longest = (size_t)n->longest;
    t->bpe.n_merges = t->bpe.merge_capacity = (size_t)n->n_merges;
    t->bpe.n_slots = (size_t)n->n_merge_slots;
    t->unigram.n_scores = t->unigram.capacity = (size_t)n->n_scores;
    trie->n_slots = (size_t)n->n_trie_slots;
    trie->n_nodes = trie->node_capacity = (size_t)n->n_trie_nodes;
    bool is_fine =
        is_vocab_sound(v) && are_merges_sound(&t->bpe, v) && is_trie_sound(trie, v->n_ids);
    return is_fine ? MICA_OK : mica_fail(err, MICA_E_FORMAT, "%s: its cache is broken", t->name);
}
