"""OpenVINO GenAI on the CPU, from a GGUF file or an IR folder. Usage: driver_openvino.py MODEL THREADS VOCAB."""
import sys
import time

begin = time.monotonic()
import numpy as np
import openvino as ov
import openvino_genai as genai

import driver

pipe = genai.LLMPipeline(sys.argv[1], "CPU", INFERENCE_NUM_THREADS=int(sys.argv[2]))


def run(ids, n_decode):
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = n_decode + 1  # the first comes with the prompt
    config.ignore_eos = True
    config.do_sample = False
    ids = np.array([ids], dtype=np.int64)
    inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
    out = pipe.generate(inputs, config)
    made = out.tokens[0]
    assert len(made) == n_decode + 1, len(made)
    metrics = out.perf_metrics
    return metrics.get_ttft().mean / 1e3, metrics.get_tpot().mean / 1e3 * n_decode, made[-1]


driver.serve(begin, int(sys.argv[3]), run, 0)
