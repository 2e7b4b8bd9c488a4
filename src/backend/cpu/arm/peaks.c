/* peaks.c: the loops of 64-bit Arm, in rising order.
 */
#include "backend/cpu/peak.h"

MICA_DECLARE_PEAK(f32_neon);
MICA_DECLARE_PEAK(int8_dotprod);
MICA_DECLARE_PEAK(int8_i8mm);
MICA_DECLARE_READER(neon);

const cpu_peak *const mica_isa_peaks[] = {&mica_peak_f32_neon, &mica_peak_int8_dotprod,
                                          &mica_peak_int8_i8mm};
const int mica_n_isa_peaks = sizeof(mica_isa_peaks) / sizeof(mica_isa_peaks[0]);
const cpu_reader *const mica_isa_readers[] = {&mica_reader_neon};
const int mica_n_isa_readers = sizeof(mica_isa_readers) / sizeof(mica_isa_readers[0]);
