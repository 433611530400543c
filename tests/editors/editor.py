# SPDX-License-Identifier: MIT
"""What the editor tests share: the installed editors, the server under test, its processes, a project to type in."""
import functools
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskstore"
# Fetched by tools/fetch-model; the first one that lies there is taken.
MODELS = ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf")
# Pictures of what a person saw are kept here.
PICTURES = ROOT / "build" / "test-output" / "editors"

# What the last lines of project/shapes.py leave to be written, so that any code model goes on.
TYPED = "total += "


@functools.lru_cache(maxsize=None)
def installed(part):
    """paths of the editors of one part ("nvim" or "vscode"), by the names that tests/editors/setup prints"""
    done = subprocess.run([HERE / "setup", "--yes", part], stdout=subprocess.PIPE, text=True, timeout=900)
    assert done.returncode == 0, f"tests/editors/setup {part} failed with status {done.returncode}, see above"
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def server_binary():
    binary = Path(os.environ.get("MASKSTORE_BIN") or ROOT / "build" / "maskstore").resolve()
    assert os.access(binary, os.X_OK), f"{binary} is missing: build it (tools/run), or set MASKSTORE_BIN"
    return binary


def model_file():
    chosen = os.environ.get("MASKSTORE_MODEL")
    candidates = [Path(chosen)] if chosen else [CACHE / "models" / name for name in MODELS]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    pytest.fail(f"no model ({', '.join(map(str, candidates))}): tools/fetch-model smollm2, or set MASKSTORE_MODEL")


def make_project(folder):
    """a folder of one Python file to type in; returns the file"""
    shutil.copytree(HERE / "project", folder)
    return folder / "shapes.py"


def processes(marker):
    """ids of the running servers whose command line holds `marker`, a folder that only this test uses"""
    name = os.fsencode(server_binary().name)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
            except OSError:  # it ended meanwhile
                continue
            programs = {os.path.basename(word) for word in words[:2]}
            if name in programs and any(os.fsencode(str(marker)) in word for word in words) and not dead:
                found.append(int(entry.name))
    return found


def wait_for(what, probe, seconds=60.0, every=0.1):
    """the first true value of probe(), asked again and again; fails with `what` after `seconds`"""
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(every)


def wait_until_gone(marker, seconds=15.0):
    wait_for("the server ends after its editor", lambda: not processes(marker), seconds)
