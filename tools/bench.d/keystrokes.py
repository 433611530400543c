#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Typing sessions through the real server over stdio, and the same sessions through llama-server's /infill.

Serial replay gives the ratios: each request is awaited, and keys that were answered from text shown before are left out of the
TTFT figures. A second pass in real time measures cancels and what a person would have seen. The peer runs with llama.vim's
request and again with a shorter suffix ("best"); its results are kept by session, CPU, build, model, threads and read
bandwidth and measured again where the bandwidth differs by more than 5 %. Ratios are above 1 where ours is faster, except
cpu_ratio (ours over theirs). A key that the server's log cannot tell yet is null. The last line of --json has them all.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import figures
import llama
import ours
import plot
import sessions
import suffix

REPO = Path(__file__).resolve().parents[2]
CACHE = sessions.CACHE / "bench"
MODEL = sessions.CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
QUICK = ("s03", "s09", "s15")  # 100, 250 and 1,000 lines
SAME_BANDWIDTH = 0.05
VIM_SUFFIX = llama.N_SUFFIX


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def remembered(name, make):
    """A JSON value in the cache folder, made once."""
    path = CACHE / name
    if path.exists():
        return json.loads(path.read_text())
    value = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(value))
    scratch.replace(path)
    return value


def model_hash(path):
    stat = os.stat(path)
    name = hashlib.sha256(f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}".encode()).hexdigest()[:16]

    def compute():
        with open(path, "rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()

    return remembered(f"models/{name}.json", compute)


def cpu_name():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def bandwidth(options, times=3):
    """Read bandwidth of this machine now, GB/s: the best of a few, since others may be using it."""
    command = [options.binary, "bench", "machine", "--threads", options.threads, "--json"]
    found = [subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True) for _ in range(times)]
    return max(json.loads(done.stdout)["read_gb_per_s"] for done in found)


# --- the peer, kept by session


def peer_path(options, session, n_suffix):
    _, build = llama.find_program()
    parts = [session.id(), cpu_name(), build, model_hash(options.model), options.threads, n_suffix, "1"]
    return CACHE / "peer" / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]}.json"


def usable(path, gb_per_s, options):
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    differs = abs(kept["read_gb_per_s"] / gb_per_s - 1) > SAME_BANDWIDTH
    if differs and options.peer == "measure":
        return None
    return kept


def peer_replay(options, session, n_suffix, gb_per_s, folder):
    """The kept result of this session, or a new one; None where the peer must not be run."""
    path = peer_path(options, session, n_suffix)
    kept = usable(path, gb_per_s, options)
    if kept or not options.may_measure:
        return kept
    texts = list(sessions.replay(session))
    result = llama.replay_serial(options, session, folder, n_suffix, texts)
    if n_suffix == VIM_SUFFIX and session.name in options.real_time:
        result["real_time"] = llama.replay_real_time(options, session, folder, n_suffix, texts)
    result |= {"session": session.name, "lines": session.n_lines, "n_suffix": n_suffix, "read_gb_per_s": gb_per_s,
               "load_1m": os.getloadavg()[0], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    say(f"{session.name} llama-server, {n_suffix} lines after: ttft p50 {middle(result)} ms, {result['cpu_s']:.1f} CPU s")
    return result


def middle(replay):
    found = figures.percentile([e["ttft_ms"] for e in replay["events"] if not e["shown_text"]], 50)
    return "none" if found is None else f"{found:.0f}"


def spread(chosen):
    """The sessions in an order that soon covers all sizes: by their places' bits backwards."""
    return [chosen[i] for i in sorted(range(len(chosen)), key=lambda i: f"{i:05b}"[::-1])]


def peer_replays(options, chosen, best_suffix, gb_per_s):
    """({session: replay} with llama.vim's request, the same with the short suffix), as far as the time for it goes."""
    found, end = ({}, {}), time.monotonic() + 60 * (options.peer_minutes or 1e6)
    for session in spread(chosen):
        for replays, n_suffix in zip(found, (VIM_SUFFIX, best_suffix), strict=True):
            options.may_measure = options.peer == "measure" and time.monotonic() < end
            with tempfile.TemporaryDirectory() as folder:
                if replay := peer_replay(options, session, n_suffix, gb_per_s, folder):
                    replays[session.name] = replay
    return found


# --- ours


def run_ours(options, session):
    run = {"name": session.name, "lines": session.n_lines, "jump_lines": session.jump_lines}
    with tempfile.TemporaryDirectory() as folder:
        run["serial"] = ours.replay_serial(options, session, folder)
    if session.name in options.real_time:
        with tempfile.TemporaryDirectory() as folder:
            run["real_time"] = ours.replay_real_time(options, session, folder)
    new = figures.percentile([e["new"] for e in run["serial"]["events"]], 50)
    say(f"{session.name} ours, {session.n_lines} lines: ttft p50 {middle(run['serial'])} ms, new tokens p50 {new}, "
        f"{run['serial']['cpu_s']:.1f} CPU s")
    return run


def checkable(run):
    """(pass, index) of the answers that a fresh process must give too: those not cut by time or by a short window."""
    for name in ("serial", "real_time"):
        for i, e in enumerate(run.get(name, {}).get("events", ())):
            if e["outcome"] in ("shown", "empty") and not e["stop"].endswith("deadline") and not e["window"]:
                yield name, i, e["kind"]


def sample(options, runs):
    """Answers to check: every kind of event, rather in small files, where a fresh process is quick."""
    chooser = random.Random(5)
    found = [(run, *answer) for run in runs for answer in checkable(run)]
    chooser.shuffle(found)
    found.sort(key=lambda f: f[0]["lines"] > 700)
    seen, first, rest = set(), [], []
    for f in found:
        (rest if f[3] in seen else first).append(f)
        seen.add(f[3])
    large = [f for f in found if f[0]["lines"] > 700]
    return (first + large[:2] + rest)[: options.check]


def count_wrong(options, runs, chosen):
    """Answers that a fresh process doesn't give for the same text and cursor."""
    states = {s.name: list(sessions.replay(s)) for s in chosen}
    wrong = 0
    checks = sample(options, runs)
    for run, name, i, kind in checks:
        event, text = states[run["name"]][i]
        fresh = ours.fresh_text(options, text, event.cursor)
        rest = text.split("\n")[event.cursor[0]][event.cursor[1] :]
        item = run[name]["events"][i]["item"]
        say(f"checked {run['name']} event {i} ({kind}, {name})")
        if not ours.same_text(item, fresh, rest):
            wrong += 1
            say(f"wrong: {run['name']} event {i} ({kind}, {name}): {item and item['insertText']!r} but fresh {fresh!r}")
    return wrong if checks else None


# --- the command


def draw_plot(options, runs, vim, best, caption):
    series = {"maskstore": [(run["lines"], run["serial"]["events"]) for run in runs]}
    for name, replays in zip(list(plot.COLOURS)[1:], (vim, best), strict=True):
        if replays:
            series[name] = [(r["lines"], [e for e in r["events"] if e["asked"]]) for r in replays.values()]
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    options.plot.write_text(plot.draw(series, caption))
    say(f"plot: {options.plot}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/bench keystrokes", description=__doc__)
    parser.add_argument("--json", action="store_true", help="records as JSON lines, the figures last")
    parser.add_argument("--sessions", type=int, help="only the first N sessions, spread over the sizes")
    parser.add_argument("--only", action="append", help="only this session (s00 …); may be repeated")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--peer", choices=["measure", "kept", "none"], default="measure",
                        help="measure what is missing or stale; only kept results, whatever the bandwidth; none")
    parser.add_argument("--peer-minutes", type=float, help="begin no new measurement of the peer after so long")
    parser.add_argument("--best-suffix", type=int, help="lines after the cursor of the peer's best settings")
    parser.add_argument("--choose-suffix", action="store_true", help="measure that number: 300 items at 64, 16 and 4")
    parser.add_argument("--events", action="store_true", help="a table by kind of event as well")
    parser.add_argument("--check", type=int, default=24, help="answers to compare with a fresh process")
    parser.add_argument("--real-time", action="append", metavar="NAME", help="sessions of the second pass, or none; may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore")
    parser.add_argument("--plot", type=Path, default=CACHE / "keystrokes.svg")
    parser.add_argument("--records", type=Path, default=CACHE / "keystrokes.json", help="all records of this run")
    return parser.parse_args()


def choose(options):
    found = sessions.all_sessions()
    names = set(options.only or (QUICK if options.quick else [s.name for s in found]))
    found = [s for s in found if s.name in names]
    n = min(options.sessions or len(found), len(found))
    found = [found[i * len(found) // n] for i in range(n)]
    # In real time every second session, and the whole of a short list.
    options.real_time = options.real_time or [s.name for s in (found if len(found) < 6 else found[::2])]
    return found


def main():
    options = parse_arguments()
    for path, fix in ((options.model, "tools/fetch-model"), (options.binary, "tools/run")):
        if not Path(path).exists():
            sys.exit(f"keystrokes: {path} is missing; run {fix}")
    if llama.find_program()[0] is None and options.peer != "none":
        say("llama-server is not built (tools/bench.d/build-peer): no ratios")
        options.peer = "none"
    chosen = choose(options)
    if options.choose_suffix:
        print(json.dumps(suffix.measure(options, CACHE, model_hash(options.model), say)))
        return
    best_suffix, known = suffix.best(options, CACHE, model_hash(options.model))
    gb_per_s, load = bandwidth(options), os.getloadavg()[0]
    say(f"{len(chosen)} sessions, read {gb_per_s:.1f} GB/s, load {load:.1f}, {cpu_name()}")
    options.records.parent.mkdir(parents=True, exist_ok=True)
    runs = []
    for session in chosen:
        runs.append(run_ours(options, session))
        options.records.write_text(json.dumps({"ours": runs}))
    vim, best = ({}, {}) if options.peer == "none" else peer_replays(options, chosen, best_suffix, gb_per_s)
    found = figures.summary(runs, vim, best, count_wrong(options, runs, chosen))
    found |= {"real_time": figures.real_time(runs), "peer_real_time": figures.seen(vim.values()), "best_suffix_lines": best_suffix, "best_suffix_measured": known,
              "read_gb_per_s": gb_per_s, "load_1m": round(load, 2), "threads": options.threads, "cpu": cpu_name(),
              "peer_sessions": len(vim), "sessions": len(runs)}
    options.records.write_text(json.dumps({"ours": runs, "figures": found}))
    draw_plot(options, runs, vim, best, f"{cpu_name()}, {options.threads} threads, {gb_per_s:.0f} GB/s")
    if options.events or not options.json:
        print(figures.kinds_table(runs), file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{key:24} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
