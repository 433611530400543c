#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completes one place in a Python file with the built binary and shows text, latency by phase, and how to connect.

Usage: show_completion.py BINARY MODEL [FILE:LINE:COL]
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO_FILE = "tests/data/py/unfinished.py"
DEMO_MARK = "the square root of the variance."  # in the line above the one to complete
LINES_BEFORE = 8  # lines of context shown above the completion


def demo_place():
    """The place in the demo file: the end of the line after the one that DEMO_MARK is in."""
    lines = (ROOT / DEMO_FILE).read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(lines[:-1], 1):
        if DEMO_MARK in text:
            return f"{DEMO_FILE}:{number + 1}:{len(lines[number]) + 1}"
    sys.exit(f"run: {DEMO_FILE} no longer has the line {DEMO_MARK!r}")


def main():
    binary, model = sys.argv[1:3]
    place = sys.argv[3] if len(sys.argv) > 3 else demo_place()
    folder = None if len(sys.argv) > 3 else ROOT
    answer = subprocess.run([binary, "complete", place, "--model", model, "--json"], cwd=folder, text=True,
                            stdout=subprocess.PIPE)
    if answer.returncode != 0:
        sys.exit(answer.returncode)
    result = json.loads(answer.stdout)
    show(place, folder, result)
    short = os.path.relpath(binary)
    print(f"""
Connect an editor:
  VS Code   build and install the extension in editors/vscode (its README: two commands); it starts {short}
  Neovim    add editors/nvim to 'runtimepath' and call require("maskstore").setup() (editors/nvim/README.md)
  others    start as a language server over stdio: {short} serve --stdio""")


def show(place, folder, result):
    path, line, column = place.rsplit(":", 2)
    line, column = int(line), int(column)
    lines = (pathlib.Path(folder or ".") / path).read_text(encoding="utf-8").splitlines() or [""]
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("«", "»")
    print(f"\n{place}, completed between {'the bold letters' if bold != '«' else '« and »'}:\n")
    for text in lines[max(0, line - 1 - LINES_BEFORE):line - 1]:
        print(f"    {text}")
    current = lines[line - 1] if line <= len(lines) else ""
    text = current[:column - 1] + bold + result["text"] + plain + current[column - 1:]
    print("\n".join("    " + row for row in text.split("\n")))
    phases = ", ".join(f"{name} {ms:.0f}" for name, ms in result["phases_ms"].items())
    tokens = result["tokens"]
    print(f"\nfirst token after {result['ttft_ms']:.0f} ms, all after {result['total_ms']:.0f} ms ({phases} ms)")
    print(f"{tokens['prompt']} tokens of prompt ({tokens['hit']} reused, {tokens['new']} evaluated), "
          f"{tokens['generated']} generated; stopped by: {result['stop']}; model {result['model']}")


if __name__ == "__main__":
    main()
