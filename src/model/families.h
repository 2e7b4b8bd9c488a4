/* families.h: names of tensors and of config keys that rows of the family table point to.
 */
#ifndef MICA_MODEL_FAMILIES_H
#define MICA_MODEL_FAMILIES_H

#include "model/arch.h"

/* families_names.c */
extern const weight_naming mica_names_phi, mica_names_starcoder2, mica_names_stablelm,
    mica_names_glm4, mica_names_exaone, mica_names_internlm2, mica_names_mimo, mica_names_hunyuan,
    mica_names_apertus, mica_names_gpt2, mica_names_gpt_neox, mica_names_lfm2, mica_names_mamba,
    mica_names_granite_hybrid, mica_names_jamba, mica_names_falcon_h1, mica_names_nemotron_h;
extern const arch_keys mica_keys_exaone, mica_keys_gpt2, mica_keys_gpt_neox,
    mica_keys_layer_norm_eps, mica_keys_norm_epsilon, mica_keys_norm_eps, mica_keys_lfm2,
    mica_keys_mamba, mica_keys_nemotron_h;

#endif
