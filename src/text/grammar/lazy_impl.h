/* lazy_impl.h: closures, for lazy.c and hollow.c.
 *
 * A closure begins, visits configurations and finishes with the state that they and all that they
 * lead to without a byte make up.
 */
#ifndef MICA_TEXT_GRAMMAR_LAZY_IMPL_H
#define MICA_TEXT_GRAMMAR_LAZY_IMPL_H

#include "text/grammar/lazy.h"

enum { STATE_FLAGS = STATE_ACCEPTS | STATE_OPEN };

void mica_lazy_begin(lazy *l);
void mica_lazy_visit(lazy *l, uint32_t node, uint32_t stack);
/* Round `count` of a repeat is done (0: it begins). */
void mica_lazy_visit_repeat(lazy *l, uint32_t node, uint64_t count, uint32_t parent);
void mica_lazy_visit_return(lazy *l, uint32_t stack);
uint32_t mica_lazy_finish(lazy *l);
/* The stack with one more frame. */
uint32_t mica_lazy_push_frame(lazy *l, uint32_t node, uint64_t count, uint32_t parent);

#endif
