/* fuzz_safetensors.c: any bytes as a .safetensors file. What is accepted must keep its promises:
 * ranges inside the input and as long as shape and dtype say.
 */
#include <stdlib.h>

#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    safetensors_file *f = NULL;
    mica_error err;
    if (mica_safetensors_parse(&f, data, n, "fuzz", &err)) return 0;
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < mica_safetensors_count(f); i++) {
        const file_tensor *t = mica_safetensors_at(f, i);
        uint64_t n_bytes = mica_dtype_bytes(t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            n_bytes *= t->dim[d];
        if (n_bytes != t->n_bytes || !t->name[0]) abort();
        for (uint64_t k = 0; k < t->n_bytes; k++)
            sum = (uint8_t)(sum ^ t->data[k]);
    }
    mica_safetensors_metadata(f, "format");
    mica_safetensors_close(f);
    return 0;
}
