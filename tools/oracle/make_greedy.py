#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/greedy.json: 100 prompts of real code and llama.cpp's greedy 64 tokens after each.

    tools/oracle/make_greedy.py [--prompts N]

The prompts are 200 to 400 tokens of the pinned corpus, beginning at a line and cut anywhere, chosen by a fixed
seed. llama.cpp is node-llama-cpp (tools/bench.d/get-node-peer), two threads, f16 KV, without flash attention.
"""

import json
import os
import random
import subprocess
import sys

import corpus
from reference import MODELS, REPO, tokenizer_from_gguf

N_TOKENS = 64
SEED = 20260


def choose_prompts(n):
    """n of (path, first line, token ids): at most one for each file, no tests, no generated tables."""
    tokenizer = tokenizer_from_gguf(str(MODELS["qwen"]))
    chooser = random.Random(SEED)
    paths = [p for p in corpus.sources() if "/tests/" not in p and "/locale/" not in p and "/_" not in p]
    chooser.shuffle(paths)
    prompts = []
    for path in paths:
        lines = corpus.sources()[path].decode().splitlines(keepends=True)
        if len(lines) < 80 or max(map(len, lines)) > 200:
            continue
        first = chooser.randrange(len(lines) - 60)
        ids = tokenizer.encode("".join(lines[first : first + 80])).ids[: chooser.randrange(200, 401)]
        if len(ids) >= 200:
            prompts.append({"path": path, "line": first + 1, "prompt": ids})
        if len(prompts) == n:
            return prompts
    raise ValueError("the corpus is too small")


def main():
    n = int(sys.argv[sys.argv.index("--prompts") + 1]) if "--prompts" in sys.argv else 100
    prompts = choose_prompts(n)
    peer = subprocess.run([REPO / "tools/bench.d/get-node-peer"], check=True, capture_output=True, text=True)
    script = REPO / "tools/oracle/peer_greedy.mjs"
    command = ["node", script, MODELS["qwen"], str(N_TOKENS), "2", "0"]
    lines = "".join(json.dumps(p["prompt"]) + "\n" for p in prompts)
    env = os.environ | {"NODE_PEER": peer.stdout.strip()}
    done = subprocess.run(command, input=lines, check=True, stdout=subprocess.PIPE, text=True, env=env)
    for prompt, line in zip(prompts, done.stdout.splitlines(), strict=True):
        result = json.loads(line)
        prompt |= {"tokens": result["tokens"], "second": result["second"]}
        prompt["gaps"] = [round(gap, 4) for gap in result["gaps"]]
    text = "[\n" + ",\n".join(json.dumps(p, separators=(",", ":")) for p in prompts) + "\n]\n"
    (REPO / "tests/golden/greedy.json").write_text(text)


if __name__ == "__main__":
    main()
