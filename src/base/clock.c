/* clock.c: wall time and resident memory, from Linux. */
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

double mica_now_s(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t)) return 0.0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Without stdio, which would allocate: statistics are read while allocations are counted. */
static uint64_t status_field_bytes(const char *label) {
    char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t n = 0;
    ssize_t n_read;
    while (n < sizeof(text) - 1 && (n_read = read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
        n += (size_t)n_read;
    }
    close(fd);
    text[n] = '\0';
    const char *field = strstr(text, label);
    return field ? strtoull(field + strlen(label), NULL, 10) * 1024 : 0;
}

/* VmHWM first: ru_maxrss survives exec, so that a small program started by a large one would report
 * the large one's memory. */
uint64_t mica_peak_rss_bytes(void) {
    uint64_t peak = status_field_bytes("\nVmHWM:");
    if (peak) return peak;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) || usage.ru_maxrss < 0) return 0;
    return (uint64_t)usage.ru_maxrss * 1024;
}

uint64_t mica_rss_bytes(void) { return status_field_bytes("\nVmRSS:"); }
