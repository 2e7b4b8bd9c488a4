/* names.h: the names in a file -> the canonical names by which models ask for weights.
 */
#ifndef MICA_WEIGHTS_NAMES_H
#define MICA_WEIGHTS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "weights/weights.h"

/* Both write at most n bytes with the NUL; false: the result does not fit. A name without a rule is
 * its own canonical name. `arch` is general.architecture, or "". */
bool mica_gguf_canonical(const char *name, const char *arch, char *out, size_t n);
/* `naming` may be NULL. An empty name in `out`: the family drops the tensor. */
bool mica_folder_canonical(const char *name, const char *prefix, const weight_naming *naming,
                           char *out, size_t n);

/* The codes of a module as other tools name them; canonically they are its .weight. */
bool mica_name_is_packed(const char *name);
void mica_name_unpack(char *name);

/* Prefixes under which a folder may hold its text model, in the order to probe; NULL ends. */
extern const char *const mica_folder_prefixes[];

/* A tensor that no text model reads: frozen rope buffers, vision and audio towers. */
bool mica_name_is_dropped(const char *name);

#endif
