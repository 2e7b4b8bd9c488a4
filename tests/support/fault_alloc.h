/* fault_alloc.h: makes the n-th allocation of mica fail, and counts.
 *
 * A test that lists dep_fault_alloc among its dependencies is linked so that every call of
 * mica_malloc and its siblings from another object goes through here. Safe from several threads.
 */
#ifndef MICA_TESTS_FAULT_ALLOC_H
#define MICA_TESTS_FAULT_ALLOC_H

/* Starts counting anew. The `fail_at`-th allocation from now on (1: the next) fails, once; 0: none.
 */
void fault_alloc_arm(long fail_at);
/* Allocations asked for since fault_alloc_arm; growing a block counts. */
long fault_alloc_calls(void);
/* Blocks that exist now. */
long fault_alloc_live(void);

#endif
