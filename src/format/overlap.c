/* overlap.c: sorts the byte ranges and compares neighbours. Empty tensors overlap nothing. */
#include "format/overlap.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct byte_range {
    uint64_t begin, end;
    size_t idx;
} byte_range;

static int compare_ranges(const void *a, const void *b) {
    const byte_range *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->idx > y->idx) - (x->idx < y->idx);
}

mica_status mica_check_overlap(const file_tensor *tensors, size_t n_tensors, const uint8_t *start,
                               const char *file_name, mica_error *err) {
    byte_range *ranges = mica_calloc(n_tensors ? n_tensors : 1, sizeof(*ranges));
    if (!ranges) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", file_name);
    size_t n = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        if (!tensors[i].n_bytes) continue;
        uint64_t begin = (uint64_t)(tensors[i].data - start);
        ranges[n++] = (byte_range){begin, begin + tensors[i].n_bytes, i};
    }
    qsort(ranges, n, sizeof(*ranges), compare_ranges);
    mica_status st = MICA_OK;
    for (size_t i = 1; i < n && !st; i++) {
        if (ranges[i].begin >= ranges[i - 1].end) continue;
        st = mica_fail_at(err, MICA_E_FORMAT, ranges[i].begin,
                          "%s: the data of tensors '%.80s' and '%.80s' overlap", file_name,
                          tensors[ranges[i - 1].idx].name, tensors[ranges[i].idx].name);
    }
    mica_free(ranges);
    return st;
}
