"""Whether the small checkpoints can tell a right reading of a configuration from a wrong one.

Every key of every configuration is changed. The logits must change with it by more than the bound
that they are held to, or the file be refused, in at least one checkpoint of the family: else nothing
would show that the key is ignored, or read wrong. A key that changes nothing must be listed here with
the reason. The metadata of GGUF files is changed likewise.

test_mutations.py MICA GOLDEN [--each] [FAMILY...]: --each asks every checkpoint, not every family.
"""
import concurrent.futures
import copy
import json
import math
import os
import struct
import sys
import tempfile

from cli import check, finish, run

exe, golden = map(os.path.abspath, sys.argv[1:3])
EACH = "--each" in sys.argv
ONLY = [a for a in sys.argv[3:] if a != "--each"]
BOUND = 2e-3
ARGS = ["--exact", "--dtype", "f32", "--threads", "1", "--no-pack"]

# Keys without a say in the logits of a prompt: names, tokens, training and heads of other tasks, how
# and where the same is computed, limits of a length.
HARMLESS = set("""
architectures _name_or_path transformers_version dtype torch_dtype problem_type
bos_token_id eos_token_id pad_token_id cls_token_id sep_token_id eod_token_id
initializer_range attention_dropout hidden_dropout residual_dropout embedding_dropout dropout
attn_pdrop embd_pdrop resid_pdrop hidden_dropout_prob attention_probs_dropout_prob classifier_dropout
seq_classif_dropout qa_dropout summary_activation summary_first_dropout summary_proj_to_labels
summary_type summary_use_proj router_aux_loss_coef output_router_logits input_jitter_noise
rescale_prenorm_residual time_step_floor time_step_max time_step_init_scheme time_step_scale
altup_coef_clip mtp_layers_block_type num_nextn_predict_layers
use_cache pretraining_tp chunk_size mamba_chunk_size use_mamba_kernels use_mambapy
use_associative_scan num_logits_to_keep residual_in_fp32 mamba_ssm_cache_dtype
moe_shared_expert_overlap reorder_and_upcast_attn
vision_config audio_config boi_token_id eoi_token_id image_token_id
max_position_embeddings context_length
""".split())
# Sizes and flags that the tensors know better: a wrong one is not used.
HARMLESS |= set("""
vocab_size tie_word_embeddings head_dim bits group_size vocab_size_per_layer_input use_double_wide_mlp
block_auto_adjust_ff_dim block_ffn_dim_multiplier block_multiple_of feed_forward_length
expert_shared_count expert_shared_feed_forward_length leading_dense_block_count
""".split())
# The same of one family alone, and why.
TENSORS, TRAINING = "the tensors tell", "for training"
LINEAR = "of a layer that does not attend"
LATENT = "latent attention has its own sizes"
HARMLESS_OF = {
    "apertus": {"mlp_bias": "not used"},
    "mistral": {"attention_bias": "not used"},
    "olmo2": {"mlp_bias": "not used"},
    "deepseek_v2": {"num_key_value_heads": LATENT, "qk_head_dim": LATENT},
    "deepseek_v3": {"num_key_value_heads": LATENT, "qk_head_dim": LATENT,
                    **{"rope_scaling." + key: "of two pairs the ramp has none; rope_parameters tells"
                       for key in ("beta_fast", "beta_slow", "original_max_position_embeddings")}},
    "diffusion_gemma_text": {"canvas_length": "of generations alone"},
    "distilbert": {"sinusoidal_pos_embds": "how the stored table was begun"},
    "falcon_h1": {"mamba_expand": "mamba_d_ssm wins"},
    "falcon_mamba": {"expand": "intermediate_size wins", "time_step_min": TRAINING},
    "gemma3n_text": {"intermediate_size": TENSORS},
    "gemma4_text": {"intermediate_size": TENSORS},
    "gpt_neox": {"is_decoder": "not used"},
    "gpt_oss": {"modules_to_not_convert": TENSORS},
    "hunyuan_v1_dense": {"rope_parameters.factor": "alpha replaces it"},
    "llama": {"quantization_config." + key: why for key, why in {
        "activation_scheme": "activations are not quantized",
        **dict.fromkeys(("config_groups.group_0.targets", "ignore", "desc_act", "sym", "zero_point",
                         "config_groups.group_0.weights.strategy",
                         "config_groups.group_0.weights.symmetric",
                         "config_groups.group_0.weights.type"), TENSORS)}.items()},
    "llama4_text": {"interleave_moe_layer_step": "moe_layers wins", "router_jitter_noise": TRAINING},
    "mamba": {"expand": "intermediate_size wins", "time_step_min": TRAINING},
    "mamba2": {"time_step_min": TRAINING, "time_step_rank": "not used"},
    "minimax_m2": {"router_jitter_noise": TRAINING},
    "mixtral": {"router_jitter_noise": TRAINING},
    "nemotron_h": {"attention_bias": "not used", "expand": "mamba_num_heads and mamba_head_dim win",
                   "mamba_proj_bias": "not used",
                   "n_shared_experts": "one MLP whatever it counts", "sliding_window": "not used",
                   "time_step_limit": "not used"},
    "phi3": {"rope_parameters.original_max_position_embeddings": "the one beside it wins"},
    "nomic_bert": {"n_positions": "a limit of the length"},
    "phimoe": {"lm_head_bias": TENSORS, "original_max_position_embeddings": "the short list at every length",
               "rope_parameters.long_factor": "the short list at every length",
               "rope_parameters.original_max_position_embeddings": "likewise"},
    "lfm2": {"intermediate_size": TENSORS},
    "gguf deepseek2": {"attention.head_count_kv": LATENT},
    "gguf dots1": {"expert_group_used_count": "of one group"},
    "gguf ernie4_5-moe": {"interleave_moe_layer_step": TENSORS},
    "gguf granitehybrid": {"rope.freq_base": "there is no rope"},
    "gguf llama4": {"interleave_moe_layer_step": TENSORS},
    "gguf mamba": {"attention.head_count": "there is no attention"},
    "gguf mamba2": {"attention.head_count": "there is no attention"},
    "gguf nemotron_h": {"attention.layer_norm_epsilon": "the other epsilon counts"},
    "gguf nemotron_h_moe": {"attention.layer_norm_epsilon": "the other epsilon counts",
                            "expert_group_count": "all groups are used"},
    "gguf olmo": {"attention.layer_norm_epsilon": "the reference's is fixed"},
    "gguf phimoe": {"rope.scaling.original_context_length": "the short list at every length"},
    "gguf qwen35": {"rope.dimension_sections": "of text all are alike", "attention.head_count_kv": LINEAR},
    "gguf qwen35moe": {"rope.dimension_sections": "of text all are alike",
                       "attention.head_count_kv": LINEAR},
    "gguf qwen3next": {"attention.head_count_kv": LINEAR},
}


# ---- runs ----

def floats(path):
    with open(path, "rb") as file:
        data = file.read()
    n = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack("<%df" % ((len(data) - n) // 4), data[n:])


def numbers(model, args, what=""):
    """What the program computes with the model; None: it refuses."""
    with tempfile.TemporaryDirectory(prefix="mica-mutation-") as temp:
        path = os.path.join(temp, "out.npy")
        code, _, err = run(exe, args[0], model, *args[1:], *ARGS, "-o", path)
        check(code in (0, 1), "%s %s: exit code %d: %s" % (model, what, code, err))
        return floats(path) if code == 0 else None


def differ(a, b):
    if len(a) != len(b):
        return True
    mean = sum(a) / len(a)
    std = math.sqrt(sum((x - mean) ** 2 for x in a) / len(a))
    return not max(abs(x - y) for x, y in zip(a, b)) <= BOUND * std  # NaN is another result too


# ---- changes ----

def values_beside(value, siblings):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value + 2] + [value // 2] * (value > 0)
    if isinstance(value, float):
        return [1.5 * value, 0.5 * value] if value else [0.5]
    if isinstance(value, str):
        return [*sorted(set(siblings) - {value}), value + "-x"]
    return NULL_VALUES


NULL_VALUES = [3, 0.5, True, "x", [3], {"x": 3}]  # what may stand where null does


def places(value, path=()):
    """(path, name, values beside it) of everything that can be changed in a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list) and value:
        words = [x for x in value if isinstance(x, str)]
        for i, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from places(item, (*path, i))
            else:
                yield (*path, i), values_beside(item, words)
    else:
        yield path, values_beside(None if value in ([], {}) else value, [])


def name_of(path):
    """rope_parameters.factor, layer_types; the wrapper and places in lists do not count."""
    return ".".join(p for p in path if isinstance(p, str) and p != "text_config")


class Folder:
    """A folder whose config.json changes; the other files are links."""

    def __init__(self, path, args):
        self.path, self.args = path, args
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        text = self.config.get("text_config", self.config)
        self.family = text.get("model_type", self.config["model_type"])
        self.places = [p for p in places(self.config) if not self.is_twin(*p)]

    def is_twin(self, path, values):
        """The copy of the quantization map, and modules in it that are left as they are: their
        tensors tell."""
        return "quantization" in self.config and (
            path[0] == "quantization_config" or path[0] == "quantization" and values == [True])

    def changed(self, path, value):
        config = copy.deepcopy(self.config)
        at = config
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        with tempfile.TemporaryDirectory(prefix="mica-mutation-") as temp:
            for file in os.listdir(self.path):
                if file != "config.json":
                    os.symlink(os.path.join(self.path, file), os.path.join(temp, file))
            with open(os.path.join(temp, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            return numbers(temp, self.args, "(%s with %s = %r)" % (self.path, path, value))


class Gguf:
    """A file whose numbers change where they stand; keys of its architecture alone."""
    FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
               12: "d"}

    def __init__(self, path, args):
        self.path, self.args, self.places, self.at = path, args, [], 24
        with open(path, "rb") as file:
            self.data = file.read()
        arch = ""
        for _ in range(struct.unpack_from("<Q", self.data, 16)[0]):
            key, kind = self.string(), self.take("I")
            value = self.values(kind)
            if key == "general.architecture":
                arch = value
            elif key.startswith(arch + ".") and isinstance(value, list):
                short = key[len(arch) + 1:]
                self.places += [((short, off, form), values_beside(x, [])) for off, form, x in value]
        self.family = "gguf " + arch

    def take(self, form):
        x = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return x

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode("utf-8", "replace")

    def values(self, kind):
        """A string, or the places of numbers."""
        if kind == 8:
            return self.string()
        if kind != 9:
            off = self.at
            return [(off, self.FORMATS[kind], self.take(self.FORMATS[kind]))]
        kind, n = self.take("I"), self.take("Q")
        items = [self.values(kind) for _ in range(n)]
        return [x for item in items if isinstance(item, list) for x in item]

    def changed(self, path, value):
        _, off, form = path
        data = bytearray(self.data)
        struct.pack_into("<" + form, data, off, value)
        with tempfile.TemporaryDirectory(prefix="mica-mutation-") as temp:
            target = os.path.join(temp, "model.gguf")
            with open(target, "wb") as file:
                file.write(data)
            return numbers(target, self.args, "(%s with %s = %r)" % (self.path, path, value))


def comma(ids):
    return ",".join(map(str, ids))


def load(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def arguments(kind, folder):
    if kind == "tiny":
        return ["logits", "--ids", comma(load(folder, "ids.json")["prompt"])]
    if kind == "embed":
        texts = [c["text"] for c in load(folder, "embed.json")["cases"]]
        return ["embed", "--truncate", "-p", max(texts, key=len)]
    runs = load(folder, "runs.json")
    return ["logits", "--ids", comma(runs["prompts"][-1]), "--canvas", comma(runs["canvases"][-1]),
            "--steps", "2"]


def checkpoints():
    for kind in ("tiny", "embed", "diffusion"):
        root = os.path.join(golden, kind)
        for name in sorted(os.listdir(root)):
            folder = os.path.join(root, name)
            if not os.path.isdir(folder):
                continue
            gguf = os.path.join(folder, "model.gguf")
            args = arguments(kind, folder)
            yield Gguf(gguf, args) if os.path.exists(gguf) else Folder(folder, args)


# ---- the verdict ----

def tells(model, base, path, values):
    """Whether the numbers change with this place, or no other value is taken there."""
    n_same = 0
    for value in values:
        got = model.changed(path, value)
        if got is not None and differ(base, got):
            return True
        n_same += got is not None
    return n_same == 0 or (values is NULL_VALUES and n_same < len(values))


def silent_keys(family, models):
    """Names of keys that change nothing in any of the models."""
    open_keys, told = {}, set()
    skip = HARMLESS | set(HARMLESS_OF.get(family, {}))
    for model in models:
        base = None
        for path, values in model.places:
            name = path[0] if isinstance(model, Gguf) else name_of(path)
            if name in told or skip & {name, name.split(".")[-1], name.split(".")[0]}:
                continue
            if base is None and (base := numbers(model.path, model.args)) is None:
                check(False, model.path + ": refused as it is")
                break
            if tells(model, base, path, values):
                told.add(name)
            else:
                open_keys.setdefault(name, os.path.basename(model.path))
    return sorted(k for k in open_keys if k not in told)


def main():
    groups = {}
    for model in checkpoints():
        label = os.path.relpath(model.path, golden) if EACH else model.family
        if not ONLY or model.family in ONLY or model.family.removeprefix("gguf ") in ONLY:
            groups.setdefault(label, (model.family, []))[1].append(model)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = pool.map(lambda g: silent_keys(*g), groups.values())
        for label, keys in zip(groups, found):
            check(not keys, "%s: changes nothing: %s" % (label, ", ".join(keys)))
    print("%d families" % len(groups))


main()
finish()
