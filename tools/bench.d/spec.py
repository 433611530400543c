#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plain decoding beside speculation, on completions of real code: the same tokens, how much sooner.

Seeded places in files of the oracles' corpus (sessions.py fetches it): one place a file, at a random column of a line of code, from which the rest
of that line and the seven lines below are taken away, as if they were not written yet. At each, 64 tokens are decoded in
both ways, whatever stop rules say; none is left out. Prints one JSON object; `ratio` is above 1 where speculation is faster.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import sessions  # noqa: E402

HOLE_LINES = 8  # about what 64 tokens fill
MIN_LINES, MAX_LINES = 40, 1200  # of a file


def is_table(lines):
    """Data and generated code: long lines, or hardly a line that is indented."""
    return max(map(len, lines)) > 160 or sum(line.startswith(" ") for line in lines) * 2 < len(lines)


def places(n, seed):
    """(path, text with its hole, line, character), 0-based."""
    chooser = random.Random(seed)
    paths = sorted(p for p in sessions.all_paths() if "/tests/" not in p and "/locale/" not in p)
    chooser.shuffle(paths)
    for path in paths:
        if n == 0:
            return
        lines = sessions.lines_of(sessions.sources([path])[path])
        if not MIN_LINES <= len(lines) <= MAX_LINES or is_table(lines):
            continue
        usable = [i for i in range(10, len(lines) - HOLE_LINES - 2) if sessions.usable(lines[i])]
        if not usable:
            continue
        line = chooser.choice(usable)
        indent = len(sessions.indent_of(lines[line]))
        character = chooser.randint(indent, len(lines[line]))
        text = "\n".join(lines[:line] + [lines[line][:character]] + lines[line + HOLE_LINES :])
        n -= 1
        yield path, text, line, character


def write_places(folder, n, seed):
    """FILE:LINE:COL of each."""
    words = []
    for i, (_, text, line, character) in enumerate(places(n, seed)):
        path = Path(folder) / f"place{i:03}.py"
        path.write_text(text)
        words.append(f"{path}:{line + 1}:{character + 1}")
    return words


def measure(binary, model, threads=2, n_places=100, n_tokens=64, seed=6):
    """The figures of `maskstore bench spec` at the seeded places."""
    with tempfile.TemporaryDirectory() as folder:
        words = write_places(folder, n_places, seed)
        command = [binary, "bench", "spec", *words, "--n", n_tokens, "--model", model, "--threads", threads, "--json"]
        done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if not done.stdout:
        sys.exit(f"spec: maskstore bench spec exited {done.returncode}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench spec", description=__doc__)
    parser.add_argument("--places", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, default=sessions.CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or HERE.parents[1] / "build" / "maskstore")
    options = parser.parse_args()
    for path, fix in ((options.model, "tools/fetch-model"), (options.binary, "tools/run")):
        if not Path(path).exists():
            sys.exit(f"spec: {path} is missing; run {fix}")
    figures = measure(options.binary, options.model, options.threads, options.places, options.tokens, options.seed)
    print(json.dumps(figures))
    if not figures["identical"]:
        sys.exit("spec: the tokens differ")


if __name__ == "__main__":
    main()
