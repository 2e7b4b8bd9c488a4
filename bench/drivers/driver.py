"""What the drivers in Python share: the requests of bench/peers (see driver.h)."""
import json
import sys
import time


def prompt(n_prompt, seed, n_vocab):
    return [(7919 * i + 104729 * seed + 11) % (n_vocab - 300) + 290 for i in range(n_prompt)]


def peak_kb():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1])


def serve(begin, n_vocab, run, bytes_per_token):
    """run(ids, n_decode) -> (prefill_s, decode_s, the last id)."""
    print(json.dumps({"ready": True, "load_s": time.monotonic() - begin}), flush=True)
    for line in sys.stdin:
        _, n_prompt, n_decode, seed = line.split()
        prefill, decode, last = run(prompt(int(n_prompt), int(seed), n_vocab), int(n_decode))
        print(json.dumps({"prefill_s": prefill, "decode_s": decode, "n_decode": int(n_decode), "last": int(last),
                          "bytes_per_token": bytes_per_token, "peak_kb": peak_kb()}), flush=True)
