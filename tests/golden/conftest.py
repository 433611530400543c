# SPDX-License-Identifier: MIT
"""Fixtures of the golden tests: the built binary, the models, tiny models made on the spot.

MASKSTORE_BIN names the binary (default build/maskstore); MASKSTORE_FULL=1 runs the long versions.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools" / "oracle"))

from make_tiny import MODELS as TINY_MODELS  # noqa: E402
from make_tiny import write_model  # noqa: E402
from reference import MODELS  # noqa: E402

FULL = os.environ.get("MASKSTORE_FULL") == "1"


class Binary:
    """Runs `maskstore inspect …` and reads what it writes."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def run(self, *arguments):
        command = [self.path, *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, f"{command[:8]} exited {done.returncode}: {done.stderr.decode(errors='replace')}"
        return done.stdout

    def ids_file(self, tokens):
        path = self.folder / "ids.bin"
        np.asarray(tokens, "<i4").tofile(path)
        return path

    def logits(self, model, tokens, at, *flags):
        """[len(at)][n_vocab] float32: logits after the first n tokens for each n of at."""
        out = self.folder / "logits.bin"
        at_text = ",".join(str(n) for n in at)
        self.run("inspect", "logits", "--model", model, "--tokens", self.ids_file(tokens), "--at", at_text,
                 "--out", out, *flags)  # fmt: skip
        return np.fromfile(out, "<f4").reshape(len(at), -1)

    def best_everywhere(self, model, tokens, *flags):
        """For each position the best token and its lead in nat over the second."""
        out = self.folder / "best.bin"
        self.run("inspect", "logits", "--model", model, "--tokens", self.ids_file(tokens), "--at", "all",
                 "--out", out, *flags)  # fmt: skip
        pairs = np.fromfile(out, np.dtype([("token", "<i4"), ("gap", "<f4")]))
        assert len(pairs) == len(tokens)
        return pairs["token"], pairs["gap"]

    def tokens(self, model, files):
        """One array of ids for each file."""
        out = self.folder / "tokens.bin"
        lines = self.run("inspect", "tokens", "--model", model, "--binary", "--out", out, *files).split(b"\n")
        counts = [int(line.split()[0]) for line in lines if line.strip()]
        ids = np.fromfile(out, "<i4")
        assert len(counts) == len(files) and sum(counts) == len(ids)
        return np.split(ids, np.cumsum(counts)[:-1])

    def generate(self, model, tokens, n):
        return json.loads(self.run("inspect", "generate", "--model", model, "--tokens", self.ids_file(tokens),
                                   "--n", n, "--top", 2))  # fmt: skip


@pytest.fixture
def binary(tmp_path):
    path = Path(os.environ.get("MASKSTORE_BIN") or REPO / "build" / "maskstore").resolve()
    assert path.exists(), f"{path} is not built; run ./tools/run or set MASKSTORE_BIN"
    return Binary(path, tmp_path)


@pytest.fixture
def real_model():
    """A function from `qwen` or `smollm2` to the path of the file; skips where it was not fetched."""

    def path_of(key):
        if not MODELS[key].exists():
            pytest.skip(f"{MODELS[key].name} is not in the cache: run tools/fetch-model")
        return MODELS[key]

    return path_of


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Folder of the tiny models; they must be the very bytes that transformers saw."""
    folder = tmp_path_factory.mktemp("tiny")
    digests = json.loads(Path(__file__).with_name("tiny.json").read_text())
    for name in TINY_MODELS:
        digest = write_model(folder / f"{name}.gguf", name)
        assert digest == digests[name], f"{name} came out other than in the fixture: run tools/oracle/make_logits.py tiny"
    return folder
