/* relax.h: tells the core that it is in a waiting loop, so that its sibling thread gets more of it.
 */
#ifndef MICA_BASE_RELAX_H
#define MICA_BASE_RELAX_H

#if defined(__x86_64__)
static inline void mica_relax(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
static inline void mica_relax(void) { __asm__ volatile("yield"); }
#else
static inline void mica_relax(void) {}
#endif

#endif
