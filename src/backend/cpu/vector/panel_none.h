/* panel_none.h: for an ISA that does not read panels as they lie: it gathers their rows. Nothing
 * here is called.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_PANEL_NONE_H
#define MICA_BACKEND_CPU_VECTOR_PANEL_NONE_H

#define I8_PANEL_SPLITS 0

typedef struct i8_panel {
    int unused;
} i8_panel;

static inline void i8_panel_scales(i8_weight *w, int64_t o, int first) {
    (void)w;
    (void)o;
    (void)first;
}

static inline void i8_panel_tile(const i8_weight *w, int64_t o, uint8_t *tile) {
    (void)w;
    (void)o;
    (void)tile;
}

static inline i8_panel i8_panel_open(i8_weight *w, int64_t o) {
    (void)w;
    (void)o;
    return (i8_panel){0};
}

static inline void i8_panel_multiply(const i8_weight *w, const i8_panel *p, const uint8_t *x,
                                     bool is_fine, float *out) {
    (void)w;
    (void)p;
    (void)x;
    (void)is_fine;
    (void)out;
}

static inline void i8_panel_order(int64_t n, bool is_fine, const uint8_t *row, uint8_t *to) {
    (void)n;
    (void)is_fine;
    (void)row;
    (void)to;
}

#endif
