# SPDX-License-Identifier: MIT
"""Memory: weights are mapped, so what is anonymous is the KV cache and little more."""
import os
import re
from pathlib import Path

import pytest
from client import LONG, SLOW, end_of

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maskstore" / "models"
# File, and bytes of KV for one token: layers × KV heads × head_dim × (K and V) × 2 bytes of f16.
MODELS = {
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": 24 * 2 * 64 * 2 * 2,
    "SmolLM2-135M-Instruct.Q4_1.gguf": 30 * 3 * 64 * 2 * 2,
}


def anonymous_bytes(pid):
    return int(re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) * 1024


@pytest.mark.parametrize("name", MODELS)
def test_anonymous_memory_is_kv_and_little_more(start, name):
    if not (CACHE / name).exists():
        pytest.skip(f"{CACHE / name} is missing: tools/fetch-model")
    if SLOW > 1:
        pytest.skip("sanitizers keep memory of their own")
    client = start(model=str(CACHE / name), flags=("--max-context", "2048"))
    client.start()
    text = LONG[:3000] + "def last_step(value):\n    return "
    client.open("file:///tmp/memory.py", text)
    assert client.complete("file:///tmp/memory.py", end_of(text))
    used = anonymous_bytes(client.proc.pid)
    print(name, used)
    assert used <= 2048 * MODELS[name] + 100_000_000
