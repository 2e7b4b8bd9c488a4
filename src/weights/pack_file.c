/* pack_file.c: writing, opening and verifying packs.
 *
 * A new pack is not forced to the disk: that would keep a start waiting. Its head says under which
 * start of the machine it was written; while that lasts the system's cache holds every byte. Later
 * it is verified once, and then marked as being on the disk.
 */
#include "weights/pack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/region.h"

#define PIECE_BYTES ((uint64_t)1 << 20) /* of a checksum */
#define MAX_ENTRIES 100000
#define ROOM_LEFT ((uint64_t)4 << 30) /* a pack never takes the last of a disk */

typedef struct pack_head {
    char magic[8];
    uint64_t layout; /* also tells byte orders apart */
    pack_key key;
    uint64_t n_entries, n_data;
    uint64_t table_hash;
    char boot[40]; /* the machine's start; "" once verified after a later one */
    char source[PACK_SOURCE_BYTES];
    uint64_t checksum; /* of all before it */
} pack_head;

static const char magic[8] = "micapak";
#define LAYOUT_WORD (UINT64_C(0x0102030405060000) + PACK_LAYOUT)

static uint64_t data_off_of(uint64_t n_entries) {
    uint64_t n = sizeof(pack_head) + n_entries * sizeof(pack_entry);
    return (n + MICA_REGION_PAGE - 1) / MICA_REGION_PAGE * MICA_REGION_PAGE;
}

static void read_boot(char out[40]) {
    memset(out, 0, 40);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file) return;
    if (!fgets(out, 37, file)) out[0] = 0;
    fclose(file);
}

static uint64_t head_checksum(const pack_head *h) {
    return mica_pack_hash(h, offsetof(pack_head, checksum));
}

/* ---- bytes ---- */

static bool read_at(int fd, uint64_t off, void *out, size_t n_bytes) {
    for (size_t n = 0; n < n_bytes;) {
        ssize_t got = pread(fd, (char *)out + n, n_bytes - n, (off_t)(off + n));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        n += (size_t)got;
    }
    return true;
}

static bool write_at(int fd, uint64_t off, const void *data, size_t n_bytes) {
    for (size_t n = 0; n < n_bytes;) {
        ssize_t put = pwrite(fd, (const char *)data + n, n_bytes - n, (off_t)(off + n));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        n += (size_t)put;
    }
    return true;
}

/* ---- checksums: a tensor's is the sum of the hashes of its pieces, each times its odd place ----
 */

typedef struct summing {
    const uint8_t *data; /* the mapped data part */
    pack_entry *entries;
    uint64_t n_entries;
    _Atomic uint64_t next;  /* piece over all tensors */
    _Atomic uint64_t *sums; /* [n_entries] */
} summing;

static uint64_t n_pieces_of(const pack_entry *e) {
    return (e->n_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static void sum_pieces(void *arg, int thread, int n_threads) {
    summing *s = arg;
    uint64_t entry = 0, first = 0; /* piece `first` is the first of tensor `entry` */
    (void)thread;
    (void)n_threads;
    for (;;) {
        uint64_t piece = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        while (entry < s->n_entries && piece >= first + n_pieces_of(&s->entries[entry]))
            first += n_pieces_of(&s->entries[entry++]);
        if (entry == s->n_entries) return;
        const pack_entry *e = &s->entries[entry];
        uint64_t off = (piece - first) * PIECE_BYTES;
        uint64_t n = e->n_bytes - off < PIECE_BYTES ? e->n_bytes - off : PIECE_BYTES;
        uint64_t hash = mica_pack_hash(s->data + e->off + off, (size_t)n);
        atomic_fetch_add_explicit(&s->sums[entry], hash * (2 * (piece - first) + 1),
                                  memory_order_relaxed);
    }
}

/* Fills sums[n] for the data of an open file; pool NULL: this thread alone. */
static bool sum_all(int fd, uint64_t data_off, uint64_t n_data, pack_entry *entries, uint64_t n,
                    _Atomic uint64_t *sums, mica_pool *pool) {
    void *data = mmap(NULL, (size_t)n_data, PROT_READ, MAP_SHARED, fd, (off_t)data_off);
    if (data == MAP_FAILED) return false;
    summing s = {.data = data, .entries = entries, .n_entries = n, .sums = sums};
    if (pool)
        mica_pool_run(pool, sum_pieces, &s);
    else
        sum_pieces(&s, 0, 1);
    munmap(data, (size_t)n_data);
    return true;
}

/* The first tensor whose bytes differ, n_entries if none does; false: not to be found out. */
static bool find_difference(int fd, const pack_head *h, pack_entry *entries, mica_pool *pool,
                            uint64_t *out) {
    _Atomic uint64_t *sums = mica_calloc((size_t)h->n_entries + 1, sizeof(*sums));
    bool ok = sums &&
              sum_all(fd, data_off_of(h->n_entries), h->n_data, entries, h->n_entries, sums, pool);
    for (*out = 0; ok && *out < h->n_entries; ++*out)
        if (atomic_load(&sums[*out]) != entries[*out].checksum) break;
    mica_free((void *)sums);
    return ok;
}

/* ---- opening ---- */

/* Head and table of any pack, checked. NULL entries in *out and false: damaged. */
static bool read_head(int fd, pack_head *h, pack_entry **out) {
    struct stat info;
    *out = NULL;
    if (fstat(fd, &info) || !read_at(fd, 0, h, sizeof(*h))) return false;
    if (memcmp(h->magic, magic, 8) || h->layout != LAYOUT_WORD) return false;
    if (h->checksum != head_checksum(h) || h->n_entries > MAX_ENTRIES) return false;
    if (h->n_data > INT64_MAX / 2 || !memchr(h->source, 0, sizeof(h->source))) return false;
    if ((uint64_t)info.st_size != data_off_of(h->n_entries) + h->n_data) return false;
    size_t n_table = (size_t)h->n_entries * sizeof(pack_entry);
    pack_entry *entries = mica_malloc(n_table);
    bool ok = entries && read_at(fd, sizeof(*h), entries, n_table) &&
              mica_pack_hash(entries, n_table) == h->table_hash;
    for (uint64_t i = 0; ok && i < h->n_entries; i++)
        ok = entries[i].off <= h->n_data && entries[i].n_bytes <= h->n_data - entries[i].off &&
             memchr(entries[i].name, 0, PACK_NAME_BYTES);
    if (ok) {
        *out = entries;
        entries = NULL;
    }
    mica_free(entries);
    return ok;
}

static bool same_entries(const pack_entry *a, const pack_entry *b, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (strcmp(a[i].name, b[i].name) || a[i].off != b[i].off || a[i].n_bytes != b[i].n_bytes)
            return false;
    return true;
}

/* Written before the machine's last start: all of it must have reached the disk. */
static bool survived(int fd, const char *path, pack_head *h, pack_entry *entries, mica_pool *pool) {
    char boot[40];
    uint64_t wrong;
    read_boot(boot);
    if (!h->boot[0] || !strcmp(boot, h->boot)) return true;
    if (!find_difference(fd, h, entries, pool, &wrong) || wrong < h->n_entries) return false;
    memset(h->boot, 0, sizeof(h->boot));
    h->checksum = head_checksum(h);
    int writable = open(path, O_WRONLY | O_CLOEXEC);
    if (writable >= 0) {
        (void)write_at(writable, 0, h, sizeof(*h)); /* failing, it is verified again */
        close(writable);
    }
    return true;
}

bool mica_pack_open(pack_file *p, const char *path, const pack_key *key, const pack_entry *wanted,
                    uint64_t n_wanted, mica_pool *pool) {
    pack_head h;
    pack_entry *entries = NULL;
    *p = (pack_file){.fd = -1};
    int fd = mica_pack_is_supported() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    bool ok = read_head(fd, &h, &entries) && !memcmp(&h.key, key, sizeof(*key)) &&
              h.n_entries == n_wanted && same_entries(entries, wanted, n_wanted) &&
              survived(fd, path, &h, entries, pool);
    mica_free(entries);
    if (!ok) {
        close(fd);
        return false;
    }
    *p = (pack_file){.fd = fd, .data_off = data_off_of(h.n_entries), .is_open = true};
    return true;
}

/* ---- creating ---- */

/* What processes that have ended left behind. */
static void remove_partial(const char *folder, const char *stem) {
    char **names = NULL;
    size_t n = 0, n_stem = strlen(stem);
    if (mica_folder_list(&names, &n, folder, stem, ".tmp", NULL)) return;
    for (size_t i = 0; i < n; i++) {
        long pid = names[i][n_stem] == '.' ? strtol(names[i] + n_stem + 1, NULL, 10) : 0;
        if (pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH) continue;
        char *path = mica_path_join(folder, names[i]);
        if (path) unlink(path);
        mica_free(path);
    }
    mica_names_free(names, n);
}

static bool has_room(int fd, uint64_t n_bytes) {
    struct statvfs disk;
    if (fstatvfs(fd, &disk)) return false;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return free_bytes > ROOM_LEFT && free_bytes - ROOM_LEFT > n_bytes;
}

bool mica_pack_create(pack_file *p, const char *path, uint64_t n_entries, uint64_t n_data) {
    *p = (pack_file){.fd = -1};
    const char *slash = strrchr(path, '/');
    if (!mica_pack_is_supported() || !slash || n_entries > MAX_ENTRIES) return false;
    char *folder = mica_strndup(path, (size_t)(slash - path));
    if (folder) remove_partial(folder, slash + 1);
    mica_free(folder);
    p->path = mica_strdup(path);
    p->temporary = mica_asprintf("%s.%ld.tmp", path, (long)getpid());
    p->data_off = data_off_of(n_entries);
    if (p->path && p->temporary)
        p->fd = open(p->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    uint64_t n_bytes = p->data_off + n_data;
    /* Room that is promised cannot run out half-way; a file system without promises is fine. */
    bool ok = p->fd >= 0 && has_room(p->fd, n_bytes) && !ftruncate(p->fd, (off_t)n_bytes) &&
              (!fallocate(p->fd, 0, 0, (off_t)n_bytes) || errno == EOPNOTSUPP);
    if (!ok) mica_pack_close(p);
    return ok;
}

bool mica_pack_put(const pack_file *p, uint64_t off, const void *data, size_t n_bytes) {
    return write_at(p->fd, p->data_off + off, data, n_bytes);
}

static bool write_table(pack_file *p, const pack_entry *entries, uint64_t n_entries, pack_head *h,
                        mica_pool *pool) {
    size_t n_table = (size_t)n_entries * sizeof(pack_entry);
    pack_entry *table = mica_malloc(n_table);
    _Atomic uint64_t *sums = mica_calloc((size_t)n_entries + 1, sizeof(*sums));
    bool ok = table && sums;
    if (ok) memcpy(table, entries, n_table);
    ok = ok && sum_all(p->fd, p->data_off, h->n_data, table, n_entries, sums, pool);
    for (uint64_t i = 0; ok && i < n_entries; i++)
        table[i].checksum = atomic_load(&sums[i]);
    if (ok) h->table_hash = mica_pack_hash(table, n_table);
    ok = ok && write_at(p->fd, sizeof(*h), table, n_table);
    mica_free((void *)sums);
    mica_free(table);
    return ok;
}

bool mica_pack_finish(pack_file *p, const pack_key *key, const char *source,
                      const pack_entry *entries, uint64_t n_entries, uint64_t n_data,
                      mica_pool *pool) {
    pack_head h = {.layout = LAYOUT_WORD, .key = *key, .n_entries = n_entries, .n_data = n_data};
    memcpy(h.magic, magic, sizeof(h.magic));
    read_boot(h.boot);
    snprintf(h.source, sizeof(h.source), "%s", source);
    if (!write_table(p, entries, n_entries, &h, pool)) return false;
    h.checksum = head_checksum(&h);
    if (!write_at(p->fd, 0, &h, sizeof(h)) || rename(p->temporary, p->path)) return false;
    mica_free(p->temporary);
    p->temporary = NULL;
    p->is_open = true;
    return true;
}

void mica_pack_close(pack_file *p) {
    if (p->temporary && p->fd >= 0) unlink(p->temporary);
    if (p->fd >= 0) close(p->fd);
    mica_free(p->temporary);
    mica_free(p->path);
    *p = (pack_file){.fd = -1};
}

/* ---- looking at packs ---- */

const char *mica_pack_state_name(pack_state state) {
    static const char *const names[] = {"good", "stale", "damaged", "partial"};
    return names[state];
}

char *mica_pack_path(const char *folder, const char *model_path) {
    char *full = mica_path_resolve(model_path);
    char *out = full ? mica_asprintf("%s/%016llx.pack", folder,
                                     (unsigned long long)mica_pack_hash(full, strlen(full)))
                     : NULL;
    mica_free(full);
    return out;
}

static bool add_source(const char *path, uint64_t *n_bytes, uint64_t *mtime_ns) {
    struct stat info;
    if (stat(path, &info)) return false;
    *n_bytes += (uint64_t)info.st_size;
    *mtime_ns += (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    return true;
}

bool mica_pack_source(const char *path, uint64_t *n_bytes, uint64_t *mtime_ns) {
    char **names = NULL;
    size_t n = 0;
    *n_bytes = *mtime_ns = 0;
    if (!mica_path_is_folder(path)) return add_source(path, n_bytes, mtime_ns);
    if (mica_folder_list(&names, &n, path, "", ".safetensors", NULL)) return false;
    bool ok = n > 0;
    for (size_t i = 0; ok && i < n; i++) {
        char *file = mica_path_join(path, names[i]);
        ok = file && add_source(file, n_bytes, mtime_ns);
        mica_free(file);
    }
    mica_names_free(names, n);
    return ok;
}

/* The model's size and time alone: its head is hashed where it is opened. */
static bool is_stale(const pack_head *h) {
    uint64_t n_bytes, mtime_ns;
    if (!mica_pack_source(h->source, &n_bytes, &mtime_ns)) return true;
    return n_bytes != h->key.file_bytes || mtime_ns != h->key.mtime_ns;
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), n_end = strlen(end);
    return n >= n_end && !strcmp(name + n - n_end, end);
}

static mica_status show(const char *path, pack_fn fn, void *user, mica_error *err) {
    pack_head h = {0};
    pack_entry *entries = NULL;
    struct stat info = {0};
    pack_info out = {.path = path, .source = "", .state = PACK_DAMAGED};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &info)) out.n_bytes = (uint64_t)info.st_size;
    if (fd >= 0 && read_head(fd, &h, &entries)) {
        out.source = h.source;
        out.n_tensors = h.n_entries;
        out.state = is_stale(&h) ? PACK_STALE : PACK_GOOD;
    }
    if (ends_with(path, ".tmp")) out.state = PACK_PARTIAL;
    if (fd >= 0) close(fd);
    mica_free(entries);
    return fn(user, &out, err);
}

mica_status mica_pack_each(const char *folder, pack_fn fn, void *user, mica_error *err) {
    char **names = NULL;
    size_t n = 0;
    if (!mica_path_exists(folder)) return MICA_OK;
    mica_status st = mica_folder_list(&names, &n, folder, "", "", err);
    if (st) return st;
    for (size_t i = 0; !st && i < n; i++) {
        if (!ends_with(names[i], ".pack") && !strstr(names[i], ".pack.")) continue;
        char *path = mica_path_join(folder, names[i]);
        st = path ? show(path, fn, user, err) : mica_fail(err, MICA_E_NOMEM, "out of memory");
        mica_free(path);
    }
    mica_names_free(names, n);
    return st;
}

mica_status mica_pack_verify(const char *path, mica_pool *pool, mica_error *err) {
    pack_head h;
    pack_entry *entries = NULL;
    uint64_t wrong = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return mica_fail_errno(err, MICA_E_IO, errno, "%s: cannot be opened", path);
    mica_status st = MICA_OK;
    if (!read_head(fd, &h, &entries))
        st = mica_fail(err, MICA_E_FORMAT, "%s: head or table are damaged", path);
    else if (!find_difference(fd, &h, entries, pool, &wrong))
        st = mica_fail(err, MICA_E_IO, "%s: cannot be read", path);
    else if (wrong < h.n_entries)
        st = mica_fail(err, MICA_E_FORMAT, "%s: the bytes of %s are not those that were written",
                       path, entries[wrong].name);
    mica_free(entries);
    close(fd);
    return st;
}
