/* peak.h: loops that do nothing but what an instruction set is measured by: multiply-adds as fast
 * as they issue, and reads as wide as they come. One file per ISA, as for kernels.
 */
#ifndef MICA_BACKEND_CPU_PEAK_H
#define MICA_BACKEND_CPU_PEAK_H

#include "backend/cpu/kernel.h"

typedef enum peak_kind { PEAK_F32, PEAK_INT8, PEAK_BF16, PEAK_N } peak_kind;

typedef struct cpu_peak {
    const char *name; /* "int8_avx512vnni" */
    peak_kind kind;
    cpu_isa isa; /* what a mask (MICA_CPU) must let through */
    /* NULL: `isa` says it all; else whether this machine has it, beyond the ISA. */
    bool (*is_available)(void);
    double ops_per_round; /* a multiply-add is two */
    void (*run)(int64_t n_rounds);
} cpu_peak;

/* Sums words, so that the reads cannot be left out; n_words is a multiple of 256. */
typedef struct cpu_reader {
    cpu_isa isa;
    uint64_t (*read)(const uint64_t *words, size_t n_words);
} cpu_reader;

/* What the build's architecture has, in rising order (x86/peaks.c, arm/peaks.c, ref/no_peaks.c). */
extern const cpu_peak *const mica_isa_peaks[];
extern const int mica_n_isa_peaks;
extern const cpu_reader *const mica_isa_readers[];
extern const int mica_n_isa_readers;

#define MICA_DECLARE_PEAK(name) extern const cpu_peak mica_peak_##name
#define MICA_DECLARE_READER(name) extern const cpu_reader mica_reader_##name

/* A compiler may not guess what `x` is from here on: a loop of multiply-adds stays a loop. */
#define PEAK_KEEP(x) __asm__ volatile("" : "+x"(x))

#endif
