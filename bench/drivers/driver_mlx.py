"""mlx-lm on the CPU. Usage: driver_mlx.py FOLDER THREADS (MLX chooses its threads itself)."""
import sys
import time

begin = time.monotonic()
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from pathlib import Path

import driver

mx.set_default_device(mx.cpu)
model, config = load_model(Path(sys.argv[1]))
model.set_dtype(mx.float32)  # seven times as fast on the CPU as bf16


def run(ids, n_decode):
    cache = make_prompt_cache(model)
    start = time.monotonic()
    token = mx.argmax(model(mx.array([ids]), cache=cache)[:, -1], axis=-1)
    last = token.item()
    middle = time.monotonic()
    for _ in range(n_decode):
        token = mx.argmax(model(token[None], cache=cache)[:, -1], axis=-1)
        last = token.item()
    return middle - start, time.monotonic() - middle, last


n_bytes = sum(x.nbytes for _, x in tree_flatten(model.parameters()))
driver.serve(begin, config["vocab_size"], run, n_bytes)
