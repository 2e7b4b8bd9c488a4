/* overlap.h: no two tensors of a file may share a byte. */
#ifndef MICA_FORMAT_OVERLAP_H
#define MICA_FORMAT_OVERLAP_H

#include "format/tensor.h"

/* `start` is the file's first byte and `file_name` its name, both for the message. Every tensor's
 * range has been checked to lie inside the file. */
mica_status mica_check_overlap(const file_tensor *tensors, size_t n_tensors, const uint8_t *start,
                               const char *file_name, mica_error *err);

#endif
