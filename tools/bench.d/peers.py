#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our prefill and decode beside llama.cpp's: the same file, the same threads, runs in turn, medians.

Prefill of 512 and 4,096 tokens, decode of 64 tokens after 512 and 4,096. The peer counts with the better of flash
attention on and off. Its native build is used where it lies in the cache (--full builds it first, about 25 minutes),
else the prebuilt one of node-llama-cpp. The last line of --json is {"ratios": …}, above 1 where ours is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskstore"
MODEL = CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
N_DECODE = 64
TESTS = {
    "prefill_512": ("prefill", 512),
    "prefill_4096": ("prefill", 4096),
    "decode_512": ("decode", 512),
    "decode_4096": ("decode", 4096),
}


def output_of(command, library_path=None):
    env = os.environ | ({"LD_LIBRARY_PATH": str(library_path)} if library_path else {})
    command = [str(c) for c in command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"peers: {' '.join(command)} exited {done.returncode}")
    return done.stdout


def ours(options, kind, n):
    """Tokens per second of one run of the built binary."""
    size = ["--n", n] if kind == "prefill" else ["--depth", n, "--n", N_DECODE]
    warm = ["--repeat", 1 if n > 1000 else 2]  # as the peer: a short run is preceded by one that warms up
    command = [options.binary, "bench", kind, "--model", options.model, "--threads", options.threads, *size, *warm, "--json"]
    return json.loads(output_of(command))["tokens_per_s"]


def native_run(options, folder, kind, n, flash):
    size = ["-p", n, "-n", 0] if kind == "prefill" else ["-p", 0, "-n", N_DECODE, "-d", n]
    # A warm-up of the long prefill would double minutes to hide milliseconds.
    warm = ["--no-warmup"] if n > 1000 else []
    command = [folder / "bin" / "llama-bench", "-m", options.model, "-t", options.threads, "-fa", flash, "-r", 1]
    (result,) = json.loads(output_of([*command, *size, *warm, "-o", "json"], folder / "bin"))
    return result["avg_ts"]


def prebuilt_run(options, folder, kind, n, flash):
    script = HERE / "node-peer" / "bench.mjs"
    command = ["node", script, folder, options.model, kind, n, N_DECODE, options.threads, flash]
    return json.loads(output_of(command))["tokens_per_s"]


def find_peer(options):
    """Name of the peer and a function that runs it once."""
    if options.full and options.peer != "prebuilt":
        output_of([HERE / "build-peer"])
    native = subprocess.run([HERE / "build-peer", "--where"], stdout=subprocess.PIPE, text=True)
    if native.returncode == 0 and options.peer != "prebuilt":
        folder = Path(native.stdout.strip())
        return folder.name, lambda *test: native_run(options, folder, *test)
    if options.peer == "native":
        sys.exit("peers: the native peer is not built; run tools/bench.d/build-peer")
    folder = Path(output_of([HERE / "get-node-peer"]).strip())
    return folder.name, lambda *test: prebuilt_run(options, folder, *test)


def measure(options, run_peer):
    """Name of the test to the tokens per second of each run: ours, peer without and with flash attention."""
    seen = {name: {"ours": [], "peer": [], "peer_flash": []} for name in options.only}
    for i in range(options.repeats):
        for name in options.only:
            kind, n = TESTS[name]
            runs = seen[name]
            runs["ours"].append(ours(options, kind, n))
            runs["peer"].append(run_peer(kind, n, 0))
            runs["peer_flash"].append(run_peer(kind, n, 1))
            rates = ", ".join(f"{key} {values[-1]:.1f}" for key, values in runs.items())
            print(f"{i + 1}/{options.repeats} {name}: {rates} tokens/s", file=sys.stderr)
    return seen


def report(options, peer, seen):
    ratios = {}
    for name, runs in seen.items():
        medians = {key: statistics.median(values) for key, values in runs.items()}
        best = max(medians["peer"], medians["peer_flash"])
        ratios[name] = round(medians["ours"] / best, 3)
        if not options.json:
            print(f"{name:13} ours {medians['ours']:8.1f}  llama.cpp {best:8.1f} tokens/s  ratio {ratios[name]:.2f}")
    if options.json:
        print(json.dumps({"peer": peer, "threads": options.threads, "repeats": options.repeats, "tokens_per_s": seen}))
        print(json.dumps({"ratios": ratios}))


def main():
    parser = argparse.ArgumentParser(prog="tools/bench peers", description=__doc__)
    parser.add_argument("--json", action="store_true", help="all figures as JSON lines, the ratios last")
    parser.add_argument("--full", action="store_true", help="build the native peer if missing; 5 repeats")
    parser.add_argument("--repeats", type=int, help="runs of each test (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", choices=TESTS, help="only this test; may be repeated")
    parser.add_argument("--peer", choices=["native", "prebuilt"], help="which llama.cpp (default: native if built)")
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore")
    options = parser.parse_args()
    options.repeats = options.repeats or (5 if options.full else 3)
    options.only = options.only or list(TESTS)
    for path, fix in ((options.model, "tools/fetch-model"), (options.binary, "tools/run")):
        if not Path(path).exists():
            sys.exit(f"peers: {path} is missing; run {fix}")
    peer, run_peer = find_peer(options)
    report(options, peer, measure(options, run_peer))


if __name__ == "__main__":
    main()
