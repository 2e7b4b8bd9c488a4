"""A GGUF file as a Transformers folder in bf16. Usage: save_hf.py MODEL.gguf FOLDER."""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

path, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.bfloat16)
tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
if model.config.tie_word_embeddings:
    tensors.pop("lm_head.weight", None)
out.mkdir(parents=True, exist_ok=True)
save_file(tensors, str(out / "model.safetensors"), {"format": "pt"})
config = model.config.to_dict()
config.pop("quantization_config", None)
config["torch_dtype"] = "bfloat16"
(out / "config.json").write_text(json.dumps(config, indent=1, default=str))
