#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The mask store between processes and files: restart with an archive, its compression, switching among open files.

restart_vs_cold   time from process start to the first token in a file of about 4,000 tokens, archive empty over archive there
restart_vs_peer   the same of llama-server, started, its saved slot restored and asked for the same text, over ours
archive_ratio_*   bytes of blocks before packing over bytes at rest, by type of keys and values
switch_new_tokens most tokens evaluated (background included) by going to another of ten open, cached files and asking there;
                  switch_key_new_tokens: by the request of the first key typed there, the key's own tokens among them

Page cache warm, medians. What the server cannot tell yet is null. The last line of --json has the figures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
import llama
import ours
import sessions

REPO = Path(__file__).resolve().parents[2]
MODEL = sessions.CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
RESTART_FILE = "s15"  # 1,018 lines; about 3,800 tokens of prompt
WHOLE_PROMPT = ("--deadline-ms", "0")  # no short window: what is timed is the whole file
KV_TYPES = ("f16", "bf16")


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Options:
    """What ours.Server and llama.Peer read."""

    def __init__(self, arguments):
        self.binary, self.model, self.threads = arguments.binary, arguments.model, arguments.threads


# --- restart


def first_token(options, folder, session, *more):
    """(milliseconds from process start to the first token, log line)."""
    start = time.monotonic()
    server = ours.Server(options, folder, *WHOLE_PROMPT, *more)
    try:
        server.open(session.text)
        id = server.ask(session.start, automatic=False)
        answered = server.wait(id)["at"]
        line = server.line_of(id)
        server.idle()  # the background has filled what it wants, so that the archive is the same for all
    finally:
        server.close()
    return (answered - start) * 1000 - (line["total_us"] - line["ttft_us"]) / 1000, line


def restart(options, session, repeats):
    """Medians of milliseconds, cold and with the archive there, and the tokens that were restored."""
    cold, warm, hits = [], [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            ms, line = first_token(options, folder, session)
            cold.append(ms)
            ms, again = first_token(options, folder, session)
            warm.append(ms)
            hits.append(again["tokens"]["hit"])
            say(f"restart: cold {cold[-1]:.0f} ms, with archive {ms:.0f} ms, {hits[-1]} of {line['tokens']['prompt']} tokens restored")
    return median(cold), median(warm), min(hits)


def peer_first_token(options, folder, prompt, restore):
    """Milliseconds from process start to the first token; saves the slot where it was not restored."""
    start = time.monotonic()
    peer = llama.Peer(options, folder, llama.N_SUFFIX, "--slot-save-path", f"{folder}/")
    try:
        if restore:
            peer.post("/slots/0?action=restore", {"filename": "slot.bin"})
        ready = (time.monotonic() - start) * 1000
        body = {"prompt": prompt, "id_slot": 0, "n_predict": 4, "temperature": 0, "stream": True, "cache_prompt": True}
        answer = peer.stream(body, "/completion")
        if not restore:
            peer.post("/slots/0?action=save", {"filename": "slot.bin"})
    finally:
        peer.close()
    return ready + answer["ttft_ms"], answer["new"]


def peer_restart(options, session, repeats):
    """Median with the slot restored. The prompt is the same text in the order of a plain fill-in-the-middle prompt."""
    lines = session.text.split("\n")
    y, x = session.start
    before = "\n".join(lines[:y] + [lines[y][:x]])
    after = "\n".join([lines[y][x:]] + lines[y + 1 : y + 17])
    prompt = f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>"
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = peer_first_token(options, folder, prompt, restore=False)
        found = []
        for _ in range(repeats):
            ms, new = peer_first_token(options, folder, prompt, restore=True)
            found.append(ms)
            say(f"llama-server: cold {cold:.0f} ms, slot restored {ms:.0f} ms, {new} tokens evaluated")
    return median(found)


# --- archive


def archive_ratio(options, kv_type, session):
    """Bytes before packing over bytes at rest of one file's blocks, or None where this build can't tell."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            first_token(options, folder, session, "--kv-type", kv_type)
            command = [options.binary, "store", "verify", "--json", "--cache-dir", Path(folder) / "cache"]
            done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            return found["raw_bytes"] / found["bytes"]
        except (RuntimeError, OSError, subprocess.CalledProcessError, ValueError, KeyError, ZeroDivisionError) as e:
            say(f"archive ratio of {kv_type}: not told by this build ({type(e).__name__})")
            return None


# --- switching


def visit(server, session, cursor):
    """(tokens that a request there evaluated, the same with the background's work after it, log line)"""
    line, _ = server.complete(cursor, uri_of(session))
    server.idle()
    later, _ = server.complete(cursor, uri_of(session))  # tells what the background has done meanwhile
    return line["tokens"]["new"], line["tokens"]["new"] + later["background_tokens"], line


def switch(options, chosen):
    """Most tokens evaluated (by a switch to another file, background included; by the request of the first key typed after one)."""
    with tempfile.TemporaryDirectory() as folder:
        server = ours.Server(options, folder, *WHOLE_PROMPT)
        try:
            server.warm()
            for s in chosen:
                server.open(s.text, uri_of(s))
                visit(server, s, s.start)
            switches = [visit(server, s, s.start)[1] for s in chosen]
            keys = []
            for s in chosen:
                y, x = s.start
                server.edit([[y, x, y, x, "#"]], uri_of(s))
                keys.append(visit(server, s, [y, x + 1]))
        finally:
            server.close()
    say(f"switch: {switches} tokens; the first key after one: {[k[0] for k in keys]}, with the background {[k[1] for k in keys]}")
    return max(switches), max(k[0] for k in keys)


def uri_of(session):
    return f"file:///switch/{session.name}.py"


def main():
    parser = argparse.ArgumentParser(prog="tools/bench store", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", choices=["measure", "none"], default="measure")
    parser.add_argument("--only", action="append", choices=["restart", "archive", "switch"])
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore")
    arguments = parser.parse_args()
    for path, fix in ((arguments.model, "tools/fetch-model"), (arguments.binary, "tools/run")):
        if not Path(path).exists():
            sys.exit(f"store: {path} is missing; run {fix}")
    options, only = Options(arguments), arguments.only or ["restart", "archive", "switch"]
    every = {s.name: s for s in sessions.all_sessions()}
    found = dict.fromkeys(("restart_vs_cold", "restart_vs_peer", "archive_ratio_f16", "archive_ratio_bf16", "switch_new_tokens"))
    if "restart" in only:
        cold, warm, hits = restart(options, every[RESTART_FILE], arguments.repeats)
        found |= {"restart_vs_cold": cold / warm, "cold_ms": cold, "restart_ms": warm, "restored_tokens": hits}
        if arguments.peer == "measure" and llama.find_program()[0]:
            peer = peer_restart(options, every[RESTART_FILE], arguments.repeats)
            found |= {"restart_vs_peer": peer / warm, "peer_restart_ms": peer}
    if "archive" in only:
        for kv_type in KV_TYPES:
            found[f"archive_ratio_{kv_type}"] = archive_ratio(options, kv_type, every["s09"])
    if "switch" in only:
        found["switch_new_tokens"], found["switch_key_new_tokens"] = switch(options, list(every.values())[:10])
    found |= {"load_1m": os.getloadavg()[0], "threads": arguments.threads}
    found = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    print(json.dumps(found) if arguments.json else "\n".join(f"{key:24} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
