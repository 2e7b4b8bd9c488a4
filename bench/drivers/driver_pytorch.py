"""PyTorch in bf16 through Transformers. Usage: driver_pytorch.py FOLDER THREADS."""
import sys
import time

begin = time.monotonic()
import torch
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicCache

import driver

torch.set_num_threads(int(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()


@torch.inference_mode()
def run(ids, n_decode):
    cache = DynamicCache(config=model.config)
    start = time.monotonic()
    out = model(torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)
    token = out.logits[:, -1].argmax(-1, keepdim=True)
    last = token.item()
    middle = time.monotonic()
    for _ in range(n_decode):
        out = model(token, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        last = token.item()
    return middle - start, time.monotonic() - middle, last


n_bytes = sum(p.numel() * p.element_size() for p in {id(p): p for p in model.parameters()}.values())
driver.serve(begin, model.config.vocab_size, run, n_bytes)
