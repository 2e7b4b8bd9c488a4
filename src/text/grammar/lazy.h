/* lazy.h: the automaton made deterministic while it runs.
 *
 * A state is a set of configurations (node that waits for a byte, stack). Stacks are interned, so a
 * configuration is two numbers, and states are interned, so a state is one. Transitions are
 * computed when first taken. There may be endlessly many states; what is kept is bounded by
 * rebuilding (mica_lazy_import) with only those that are still wanted.
 *
 * A hollow state stands for all states that differ only below some frame: that part of the stack is
 * the frame STACK_HOLE, and what happens after it is popped is not known (is_open).
 */
#ifndef MICA_TEXT_GRAMMAR_LAZY_H
#define MICA_TEXT_GRAMMAR_LAZY_H

#include "text/grammar/program.h"

enum { STATE_UNKNOWN = 0, STATE_DEAD = 1 };
enum { STACK_BOTTOM = 0, STACK_HOLE = 1 };

/* Bounds of repeats that are more rounds away are far. A round takes at least one byte. The upper
 * bound of a string may be nearer: plain tokens are known by their length. */
enum { LAZY_NEAR_BYTES = 32, LAZY_NEAR_CHARS = 6 };

/* A closure of more configurations means a grammar that is ambiguous without end. */
enum { LAZY_MAX_WAYS = 1 << 17 };

/* Flags of a state. */
enum {
    STATE_ACCEPTS = 1,  /* the text may end here */
    STATE_OPEN = 2,     /* the hole was popped: what is below may take the next bytes */
    STATE_WIDENED = 32, /* `wide` was looked for */
    STATE_BEGUN = 16,   /* its row has the classes that lead nowhere (not part of what it is) */
    /* For masks.c, not part of what a state is: */
    STATE_LOOKED_AT = 4,
    STATE_TEXT = 8 /* the inside of a JSON string */
};

/* Counts of a repeat whose bounds are farther away than any token reaches: more rounds may come for
 * ever, and it may end (MANY) or not (FEW), or it may end after k more rounds (FEW - k). */
#define REPEAT_MANY UINT64_MAX
#define REPEAT_FEW (UINT64_MAX - 1)
#define REPEAT_COARSE (REPEAT_FEW - LAZY_NEAR_BYTES) /* the least of these */

typedef struct lazy_frame {
    uint32_t node;
    uint32_t parent;
    uint64_t count; /* rounds done, or members seen */
    uint32_t depth;
} lazy_frame;

typedef struct lazy_config {
    uint32_t node, stack;
} lazy_config;

typedef struct lazy_state {
    const lazy_config *configs;
    uint32_t n;
    uint32_t hash;   /* low bits */
    uint32_t hollow; /* 0: not looked for yet */
    uint32_t resume; /* the state that popping the hole leads to */
    uint32_t mask;   /* index + 1 into the machine's masks */
    uint32_t near;   /* the hollow state is right for tokens of at most so many bytes; 0: for all */
    bool has_few;    /* and may forbid longer ones that the state allows */
    /* Not 0: inside a string; plain text of at most so many characters fits, of which the hollow
     * state takes any number. */
    uint8_t max_chars;
    uint32_t wide;      /* the state without its far bounds, 0: the same; right for the next... */
    uint32_t wide_near; /* ...so many bytes */
} lazy_state;

/* Where the closure of one configuration leads. */
typedef struct lazy_memo {
    lazy_config config;
    uint32_t state; /* 0: empty */
} lazy_memo;
enum { N_LAZY_MEMOS = 1024 };

/* States come in chunks that never move, so that growing copies nothing. */
enum { LAZY_CHUNK = 128, LAZY_CONFIG_BLOCK = 2048 };
typedef struct lazy_chunk {
    lazy_state states[LAZY_CHUNK];
    uint8_t flags[LAZY_CHUNK];
    uint32_t next[]; /* [state * n_classes + class]; is_computed() or not */
} lazy_chunk;
/* In a row: only the configuration of that index takes the class, and where it leads is not known.
 */
#define ROW_ONE_WAY UINT32_C(0x80000000)
static inline bool lazy_is_computed(uint32_t to) { return (int32_t)to > 0; }
typedef struct lazy_configs {
    struct lazy_configs *older;
    lazy_config items[];
} lazy_configs;

typedef struct lazy {
    const program *program;
    uint32_t n_classes;
    lazy_chunk **chunks;
    uint32_t n_states, n_chunks, chunks_capacity;
    lazy_configs *configs; /* the latest block */
    uint32_t n_configs, configs_capacity;
    size_t config_bytes;
    lazy_frame *frames;
    uint32_t n_frames, frames_capacity;
    uint32_t *state_slots, *frame_slots; /* hashes; powers of two */
    uint32_t n_state_slots, n_frame_slots;
    lazy_memo *memos; /* [N_LAZY_MEMOS], by hash; the latest stays */
    /* scratch of a closure */
    lazy_config *todo; /* a work list that keeps all it ever had */
    uint32_t n_todo, todo_capacity;
    uint32_t *seen; /* hash of the work list: index + 1, valid if seen_stamp is the stamp */
    uint32_t *seen_stamp;
    uint32_t n_seen_slots, stamp;
    lazy_config *found;
    uint32_t n_found, found_capacity;
    uint8_t found_flags;
    uint32_t near; /* of the stacks that were cut, as in lazy_state */
    bool has_few;
    uint32_t near_limit; /* LAZY_NEAR_... */
    mica_status status;  /* why a computation failed; then results mean nothing */
} lazy;

mica_status mica_lazy_init(lazy *l, const program *p, mica_error *err);
void mica_lazy_deinit(lazy *l);
uint32_t mica_lazy_start(lazy *l); /* STATE_UNKNOWN and status: failed */
/* Computes a transition that is STATE_UNKNOWN; STATE_DEAD and status: failed. */
uint32_t mica_lazy_compute(lazy *l, uint32_t state, uint32_t class);
/* Fills hollow, resume, near and has_few of a state. hollow is the state itself where nothing can
 * be cut. */
void mica_lazy_hollow(lazy *l, uint32_t state);
/* Fills wide and wide_near. */
void mica_lazy_widen(lazy *l, uint32_t state);
/* The state of calling the rule at `node`, or of being in round MANY of a repeat, with the hole
 * below. */
uint32_t mica_lazy_above_hole(lazy *l, uint32_t node);
/* The state of having done `count` rounds of the repeat at `node`. */
uint32_t mica_lazy_round(lazy *l, uint32_t node, uint64_t count, uint32_t parent);
/* The state after a return from the topmost frame of a stack. */
uint32_t mica_lazy_after(lazy *l, uint32_t stack);
/* The same state of another machine of the same program; memo [from->n_frames], zeros at first. */
uint32_t mica_lazy_import(lazy *l, const lazy *from, uint32_t state, uint32_t *memo);
size_t mica_lazy_bytes(const lazy *l);
mica_status mica_lazy_check(const lazy *l, mica_error *err);

static inline lazy_state *lazy_at(const lazy *l, uint32_t state) {
    return &l->chunks[state / LAZY_CHUNK]->states[state % LAZY_CHUNK];
}
static inline uint8_t *lazy_flags(const lazy *l, uint32_t state) {
    return &l->chunks[state / LAZY_CHUNK]->flags[state % LAZY_CHUNK];
}
/* Where each class leads; it stays where it is. */
static inline uint32_t *lazy_row(const lazy *l, uint32_t state) {
    return l->chunks[state / LAZY_CHUNK]->next + (size_t)(state % LAZY_CHUNK) * l->n_classes;
}

static inline uint32_t lazy_step(lazy *l, uint32_t state, uint8_t byte) {
    uint32_t class = l->program->class_of[byte];
    uint32_t to = lazy_row(l, state)[class];
    return lazy_is_computed(to) ? to : mica_lazy_compute(l, state, class);
}

#endif
