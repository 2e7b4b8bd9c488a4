/* memory.c: guarded memory of a case: the byte after the last one faults when it is touched.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "check.h"

#define HUGE_FROM ((size_t)4 << 20)

static guarded guarded_new(size_t n_bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = {.n_bytes = n_bytes, .page_bytes = mica_align_up(n_bytes, page) + page};
    g.pages = mmap(NULL, g.page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED ||
        mprotect((uint8_t *)g.pages + g.page_bytes - page, page, PROT_NONE) != 0) {
        fprintf(stderr, "kernel_check: no memory for a buffer of %zu bytes\n", n_bytes);
        exit(2);
    }
    /* as the cache is (kv/blocks.c) */
    if (n_bytes >= HUGE_FROM) (void)madvise(g.pages, g.page_bytes, MADV_HUGEPAGE);
    g.data = (uint8_t *)g.pages + g.page_bytes - page - n_bytes;
    return g;
}

static void guarded_free(guarded *g) {
    if (g->pages) munmap(g->pages, g->page_bytes);
    g->pages = NULL;
}

void *check_memory(check_case *c, size_t n_bytes) {
    if (c->n_buffers == CHECK_MAX_BUFFERS) abort();
    c->buffers[c->n_buffers] = guarded_new(n_bytes);
    return c->buffers[c->n_buffers++].data;
}

void check_free(check_case *c) {
    for (int i = 0; i < c->n_buffers; i++)
        guarded_free(&c->buffers[i]);
    guarded_free(&c->out);
    c->n_buffers = 0;
}

/* Lays dims out row by row, sometimes with a gap after each row of the last dimension, sometimes
 * (for tensors that are views) after each group of rows; returns the elements that it spans. */
static int64_t lay_out(check_case *c, kernel_operand *o, int n_dims, const int64_t *dims) {
    o->n_dims = n_dims;
    int64_t step = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        o->dim[d] = dims[d];
        o->stride[d] = step;
        step *= dims[d] > 0 ? dims[d] : 1;
        if (d > 0 && check_below(&c->rng, 4) == 0) step += check_between(&c->rng, 1, 20);
    }
    int64_t last = 1;
    for (int d = 0; d < n_dims; d++) {
        if (dims[d] == 0) return 0;
        last += (dims[d] - 1) * o->stride[d];
    }
    return last;
}

void check_operand(check_case *c, int i, mica_dtype t, int n_dims, const int64_t *dims) {
    kernel_operand *o = &c->call.src[i];
    o->dtype = t;
    int64_t n = lay_out(c, o, n_dims, dims);
    o->data = check_memory(c, (size_t)n * mica_dtype_bytes(t));
    check_fill_floats(c, o->data, t, n);
    if (c->call.n_src <= i) c->call.n_src = i + 1;
}

int32_t *check_operand_i32(check_case *c, int i, int n_dims, const int64_t *dims) {
    kernel_operand *o = &c->call.src[i];
    int64_t n = 1;
    o->dtype = MICA_I32;
    o->n_dims = n_dims;
    for (int d = n_dims - 1; d >= 0; d--) {
        o->dim[d] = dims[d];
        o->stride[d] = n;
        n *= dims[d];
    }
    o->data = check_memory(c, (size_t)n * 4);
    if (c->call.n_src <= i) c->call.n_src = i + 1;
    return o->data;
}

/* Room for a few elements stands before the output as well, to be found unchanged. */
#define FRONT_ELEMENTS 16

void check_output(check_case *c, mica_dtype t, int n_dims, const int64_t *dims) {
    kernel_operand *o = &c->call.out;
    o->dtype = t;
    int64_t n = lay_out(c, o, n_dims, dims) + FRONT_ELEMENTS;
    size_t size = mica_dtype_bytes(t);
    c->out = guarded_new((size_t)n * size);
    o->data = c->out.data + FRONT_ELEMENTS * size;
}
