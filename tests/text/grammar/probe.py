"""The probe program as an object: one question, one answer."""

import json
import random
import subprocess
import sys


class Probe:
    def __init__(self, program, *args):
        self.process = subprocess.Popen(
            [program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.stderr.read()}the probe died on {json.dumps(request)[:2000]}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def run_seeds(check, counts, before=None):
    """Asks check(probe, rng, seed, counts) with as many seeds as the arguments say: PROGRAM [SEEDS [FIRST]]; before(probe)
    comes first. Both give how many answers were wrong; a few end the run. Returns the seeds and the wrong ones."""
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with Probe(sys.argv[1]) as probe:
        n_wrong = before(probe) if before else 0
        for seed in range(first, first + n):
            n_wrong += check(probe, random.Random(seed), seed, counts)
            if n_wrong > 5:
                break
    print(f"seeds {first} to {first + n - 1}:", counts, "wrong:", n_wrong)
    return n, n_wrong
