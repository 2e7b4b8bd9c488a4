/* region.c: reserved address space, on Linux.
 */
#include "base/region.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

mica_status mica_region_reserve(mica_region *r, size_t n_bytes, mica_error *err) {
    *r = (mica_region){0};
    if (!n_bytes) return MICA_OK;
    if (n_bytes > SIZE_MAX / 2)
        return mica_fail(err, MICA_E_LIMIT, "%zu bytes are too many for this machine", n_bytes);
    size_t n = n_bytes + HUGE_PAGE;
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return mica_fail_errno(err, MICA_E_NOMEM, errno, "%zu bytes cannot be reserved", n);
    uintptr_t start = ((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    *r = (mica_region){(uint8_t *)start, n_bytes, p, n};
    return MICA_OK;
}

void mica_region_release(mica_region *r) {
    if (r->reserved) munmap(r->reserved, r->n_reserved);
    *r = (mica_region){0};
}

mica_status mica_region_commit(mica_region *r, size_t off, size_t n_bytes, mica_error *err) {
    void *p = mmap(r->data + off, n_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED)
        return mica_fail_errno(err, MICA_E_NOMEM, errno, "out of memory: %zu bytes", n_bytes);
    return MICA_OK;
}

mica_status mica_region_map(mica_region *r, size_t off, size_t n_bytes, int fd, uint64_t file_off,
                            mica_error *err) {
    void *p = mmap(r->data + off, n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)file_off);
    if (p == MAP_FAILED)
        return mica_fail_errno(err, MICA_E_IO, errno, "%zu bytes of a file cannot be mapped",
                               n_bytes);
    return MICA_OK;
}
