/* json_literal.h: writing numbers that are in no C type, such as integers of 30 digits. */
#ifndef MICA_BASE_JSON_LITERAL_H
#define MICA_BASE_JSON_LITERAL_H

#include "base/json.h"

void mica_json_put_literal(json_writer *w, const char *number); /* as it is */

#endif
