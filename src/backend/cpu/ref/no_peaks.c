/* no_peaks.c: an architecture without loops of its own: nothing but the plain read is measured. */
#include "backend/cpu/peak.h"

const cpu_peak *const mica_isa_peaks[] = {NULL};
const int mica_n_isa_peaks = 0;
const cpu_reader *const mica_isa_readers[] = {NULL};
const int mica_n_isa_readers = 0;
