#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/greedy.json: 100 prompts of real code and llama.cpp's greedy 64 tokens after each.

    tools/oracle/make_greedy.py

The prompts are 200 to 400 tokens of the pinned corpus, beginning at a line and cut anywhere, chosen by a fixed
seed. llama.cpp is node-llama-cpp (tools/bench.d/get-node-peer), one thread, f16 KV, without flash attention.
"""

import json
import os
import random
import subprocess

import corpus
from reference import CACHE, MODELS, REPO, tokenizer_from_gguf

N_TOKENS = 64
SEED = 20260
PART = CACHE / "oracle" / "greedy.part"


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


def peer_lines(prompts):
    """The peer's JSON line for each prompt. What is done already lies in PART, so that a stopped run goes on."""
    PART.parent.mkdir(parents=True, exist_ok=True)
    done = PART.read_text().splitlines() if PART.exists() else []
    peer = subprocess.run([REPO / "tools/bench.d/get-node-peer"], check=True, capture_output=True, text=True)
    command = ["node", REPO / "tools/oracle/peer_greedy.mjs", MODELS["qwen"], str(N_TOKENS), "1", "0"]
    rest = "".join(json.dumps(p["prompt"]) + "\n" for p in prompts[len(done) :])
    with PART.open("a") as part:
        env = os.environ | {"NODE_PEER": peer.stdout.strip()}
        subprocess.run(command, input=rest, check=True, stdout=part, text=True, env=env)
    return PART.read_text().splitlines()


def main():
    prompts = choose_prompts(100)
    for prompt, line in zip(prompts, peer_lines(prompts), strict=True):
        result = json.loads(line)
        prompt |= {"tokens": result["tokens"], "rivals": result["rivals"]}
    text = "[\n" + ",\n".join(json.dumps(p, separators=(",", ":")) for p in prompts) + "\n]\n"
    (REPO / "tests/golden/greedy.json").write_text(text)
    PART.unlink()


if __name__ == "__main__":
    main()
