/* synth_config.h: config.json of a synthetic folder. */
#ifndef MICA_QUANT_SYNTH_CONFIG_H
#define MICA_QUANT_SYNTH_CONFIG_H

#include "base/json.h"
#include "quant/synth_parts.h"

void mica_synth_fill_config(json_writer *w, const synth_model *m, const synth_options *options);

#endif
