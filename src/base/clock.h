/* clock.h: wall time and the process's memory, for statistics. */
#ifndef MICA_BASE_CLOCK_H
#define MICA_BASE_CLOCK_H

#include <stdint.h>

double mica_now_s(void);            /* monotonic seconds */
uint64_t mica_peak_rss_bytes(void); /* most resident memory so far; 0 if unknown */
uint64_t mica_rss_bytes(void);      /* resident memory now; 0 if unknown */

#endif
