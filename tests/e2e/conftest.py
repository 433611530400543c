# SPDX-License-Identifier: MIT
"""The built binary (MASKSTORE_BIN, default build/maskstore), the model (MASKSTORE_MODEL, default SmolLM2 in the cache folder)."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from client import Client  # noqa: E402
from metamodel import MetaModel  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("MASKSTORE_BIN", str(ROOT / "build" / "maskstore"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "maskstore"
MODEL = os.environ.get("MASKSTORE_MODEL") or str(CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
SHARED = pathlib.Path(os.environ.get("MASKSTORE_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def binary():
    if not os.access(BINARY, os.X_OK):
        pytest.skip(f"{BINARY} is not built")
    return BINARY


@pytest.fixture(scope="session")
def model():
    if not os.path.exists(MODEL):
        pytest.skip(f"the model {MODEL} is not there (tools/fetch-model smollm2)")
    return MODEL


def meta_model_path():
    return SHARED / "lsp" / "metaModel-3.18.json"


@pytest.fixture(scope="session")
def meta():
    """The walker, or None where the meta model is missing (test_metamodel skips then and says so)."""
    return MetaModel(meta_model_path()) if meta_model_path().exists() else None


@pytest.fixture
def env():
    return {k: v for k, v in os.environ.items() if not k.startswith("MASKSTORE_")}


@pytest.fixture
def start(binary, env, meta, tmp_path):
    """start(model=…, flags=[…]) starts a server that reads and writes below tmp_path only; each is checked when the test ends."""
    clients = []

    def start_one(model="/nonexistent/model.gguf", flags=(), **popen):
        command = [binary, "--stdio", "--model", model, "--cache-dir", str(tmp_path / "cache"), "--strategy", "conservative",
                   "--deadline-ms", "0", "--max-context", "2048", *flags]
        clients.append(Client(command, env=env, meta=meta, **popen))
        return clients[-1]

    yield start_one
    for client in clients:
        client.close()


@pytest.fixture
def bare(start):
    """A server without a usable model, not yet initialized: everything but texts can be tried on it."""
    return start()


@pytest.fixture
def ready(start):
    """The same, initialized."""
    client = start()
    client.start()
    return client


@pytest.fixture
def served(start, model):
    """A server with the model, initialized, utf-16."""
    client = start(model)
    client.start()
    return client


@pytest.fixture
def log_lines(tmp_path):
    """The latency log's lines so far."""
    import json

    def read():
        path = tmp_path / "cache" / "log" / "requests.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return read
