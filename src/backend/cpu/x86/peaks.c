/* peaks.c: the loops of x86-64, in rising order, and whether the system lets us use tiles.
 */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/x86/tiles.h"

MICA_DECLARE_PEAK(f32_avx2);
MICA_DECLARE_PEAK(int8_avx2);
MICA_DECLARE_PEAK(f32_avx512);
MICA_DECLARE_PEAK(int8_avx512vnni);
MICA_DECLARE_PEAK(int8_amx);
MICA_DECLARE_PEAK(bf16_amx);
MICA_DECLARE_READER(avx2);
MICA_DECLARE_READER(avx512);

const cpu_peak *const mica_isa_peaks[] = {&mica_peak_f32_avx2,   &mica_peak_int8_avx2,
                                          &mica_peak_f32_avx512, &mica_peak_int8_avx512vnni,
                                          &mica_peak_int8_amx,   &mica_peak_bf16_amx};
const int mica_n_isa_peaks = sizeof(mica_isa_peaks) / sizeof(mica_isa_peaks[0]);
const cpu_reader *const mica_isa_readers[] = {&mica_reader_avx2, &mica_reader_avx512};
const int mica_n_isa_readers = sizeof(mica_isa_readers) / sizeof(mica_isa_readers[0]);

/* CPUID 7.0 EDX: bf16 22, tiles 24, int8 25. XCR0 17 and 18: the system saves tiles. Linux wants to
 * be asked once by each process before it makes room for them. */
static bool has_tiles(unsigned bit) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILE_DATA = 18 };
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> bit & 1)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low >> 17 & 3) != 3) return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) == 0;
}

bool mica_tiles_int8(void) { return has_tiles(25); }
bool mica_tiles_bf16(void) { return has_tiles(22); }
