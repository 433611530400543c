#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prompt layouts beside each other: how many real lines each completes exactly, and what a jump costs with it.

An item is the rest of a real line of a package, asked for at its start or within it, greedily, with 48 to 79 lines before it and 32
after; it counts where the answer's first line is that rest. A layout is ANCHOR/SUFFIX in lines. Answers are kept item by item in the
cache folder, so that a stopped run goes on. The last line of --json has the counts and, for each layout, items won and lost against
the first one and the tokens of suffix and middle that a jump evaluates (mean).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import sessions
import suffix

REPO = Path(__file__).resolve().parents[2]
MODEL = sessions.CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
LAYOUTS = "16/16,16/8,16/4,8/16,8/8,32/16"
STEP, BEFORE, AFTER = 32, 48, 32  # the first line is a multiple of STEP, so that anchors are those of the whole file


def cut_item(text, cursor, whole):
    """The item's text and cursor, cut to lines around it unless `whole`."""
    lines, (y, x) = text.split("\n"), cursor
    first = 0 if whole else max(0, y - BEFORE) // STEP * STEP
    last = len(lines) if whole else y + AFTER + 1
    return "\n".join(lines[first:last]) + "\n", (y - first, x)


def ask(options, chosen, done_path):
    """Answers of every layout for the items that have none yet, written line by line."""
    done = [json.loads(line) for line in done_path.read_text().splitlines()] if done_path.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        where = []
        for i, (text, cursor, _) in enumerate(chosen[len(done) :]):
            text, (y, x) = cut_item(text, cursor, options.whole)
            path = Path(folder) / f"{i:04}.py"
            path.write_text(text)
            where.append(f"{path}:{y + 1}:{x + 1}")
        if where:
            command = [options.binary, "inspect", "layouts", "--layouts", options.layouts, "--model", options.model, "--threads", options.threads, *where]
            process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True)
            with open(done_path, "a") as out:
                for line in process.stdout:
                    done.append(json.loads(line))
                    out.write(line)
                    out.flush()
                    if len(done) % 20 == 0:
                        print(f"{len(done)} of {len(chosen)} items: {counts(chosen, done)}", file=sys.stderr, flush=True)
            if process.wait() != 0:
                sys.exit("layout: the binary failed")
    return done


def name_of(answer):
    return f"{answer['anchor']}/{answer['suffix']}"


def exact(item, answer):
    return answer["text"].split("\n")[0].strip() == item[2].strip()


def counts(chosen, done):
    found = {}
    for item, line in zip(chosen, done, strict=False):
        for answer in line["answers"]:
            found[name_of(answer)] = found.get(name_of(answer), 0) + exact(item, answer)
    return found


def summary(chosen, done):
    first = name_of(done[0]["answers"][0])
    result = {"items": len(done), "exact": counts(chosen, done), "against": first, "won": {}, "lost": {}}
    for item, line in zip(chosen, done, strict=False):
        base = exact(item, line["answers"][0])
        for answer in line["answers"][1:]:
            name = name_of(answer)
            result["won"][name] = result["won"].get(name, 0) + (exact(item, answer) and not base)
            result["lost"][name] = result["lost"].get(name, 0) + (base and not exact(item, answer))
    return result


def main():
    parser = argparse.ArgumentParser(prog="tools/bench layout", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the figures as one JSON line, last")
    parser.add_argument("--layouts", default=LAYOUTS, help=f"ANCHOR/SUFFIX in lines, separated by commas (default {LAYOUTS})")
    parser.add_argument("--items", type=int, default=suffix.N_ITEMS)
    parser.add_argument("--whole", action="store_true", help="whole files instead of the lines around the cursor")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--binary", default=os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore")
    options = parser.parse_args()
    for path, fix in ((options.model, "tools/fetch-model"), (options.binary, "tools/run")):
        if not Path(path).exists():
            sys.exit(f"layout: {path} is missing; run {fix}")
    chosen = suffix.items()[: options.items]
    kind = "whole" if options.whole else "lines"
    folder = sessions.CACHE / "bench" / "layout"
    folder.mkdir(parents=True, exist_ok=True)
    done = ask(options, chosen, folder / f"{Path(options.model).stem}-{options.layouts.replace('/', '_').replace(',', '-')}-{kind}.jsonl")[: len(chosen)]
    found = summary(chosen, done)
    print(json.dumps(found) if options.json else "\n".join(f"{key:8} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
