/* product.h: texts that match one expression and (do not) match another. */
#ifndef MICA_TEXT_GRAMMAR_PRODUCT_H
#define MICA_TEXT_GRAMMAR_PRODUCT_H

#include "text/grammar/expr.h"

typedef enum product_kind { PRODUCT_BOTH, PRODUCT_WITHOUT } product_kind;

/* The expressions must use no rules. *out is a table, or NEVER. MICA_E_LIMIT: it gets too large. */
mica_status mica_expr_product(const expr **out, grammar_build *b, product_kind kind, const expr *x,
                              const expr *y, mica_error *err);

#endif
