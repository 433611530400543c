# SPDX-License-Identifier: MIT
"""R84, R85: the latency log of a real session."""
import json
import os
import stat
import subprocess

import pytest
from client import LONG, end_of

URI = "file:///log.py"
METHODS = ["textDocument/inlineCompletion", "textDocument/completion"]
PHASES = {"queue", "load", "prompt", "tokenize", "prefill", "decode", "finish"}


def test_one_line_a_request_before_its_answer(served, log_lines):
    text = "def secret_name(a, b):\n    return "
    served.open(URI, text, version=7)
    for n in range(6):
        method = METHODS[n % 2]
        id = served.ask(URI, end_of(text), 1, method)
        answer = served.wait(id)
        lines = log_lines()
        assert len(lines) == n + 1  # it was there when the answer came
        line = lines[-1]
        assert (line["method"], line["id"], line["document_version"], line["document_bytes"]) == (method, id, 7, len(text))
        assert set(line["phases_us"]) == PHASES and all(v >= 0 for v in line["phases_us"].values())
        assert set(line["tokens"]) == {"prompt", "hit", "new", "generated"}
        assert line["tokens"]["hit"] + line["tokens"]["new"] == line["tokens"]["prompt"] > 0
        assert 0 < line["ttft_us"] <= line["total_us"]
        assert sum(line["phases_us"].values()) <= line["total_us"] * 1.1 + 1000
        assert line["outcome"] == ("shown" if served.items(answer) else "empty")
        assert line["stop"] and line["version"] and line["strategy"] == "conservative"
    assert log_lines()[-1]["tokens"]["hit"] > 0  # the same place again


def test_inspect_store_beside_a_server(binary, served, log_lines, tmp_path):
    """The figures of the store, as the server has written them."""
    text = "def add(a, b):\n    return "
    served.open(URI, text)
    served.complete(URI, end_of(text))
    shown = subprocess.run([binary, "inspect", "store", "--json", "--cache-dir", tmp_path / "cache"], check=True, capture_output=True)
    last = json.loads(shown.stdout)["last_request"]
    assert (last["time"], last["store"]) == (log_lines()[-1]["time"], log_lines()[-1]["store"])
    assert last["store"]["hot_bytes"] > 0 and {"found_tokens", "archive_hits_disk", "archive_misses", "waits", "archive_evicted", "healed"} <= set(last["store"])


def test_the_log_holds_no_text(served, tmp_path):
    text = "def secret_name(a, b):\n    return "
    served.open("file:///secret_place.py", text)
    served.complete("file:///secret_place.py", end_of(text))
    path = tmp_path / "cache" / "log" / "requests.jsonl"
    assert "secret" not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_outcomes(served, log_lines):
    text = LONG + "def last(value):\n    total = "
    served.open(URI, text)
    ids = [served.ask(URI, end_of(text), 2), served.ask(URI, end_of(text), 2)]
    served.notify("$/cancelRequest", {"id": ids[1]})
    for id in ids:
        served.wait(id)
    served.ask("file:///none.py", {"line": 0, "character": 0})
    served.wait(served.last_id)
    assert {line["id"]: line["outcome"] for line in log_lines()} == {ids[0]: "superseded", ids[1]: "cancelled", served.last_id: "not_open"}


def test_other_methods_write_no_line(ready, log_lines):
    ready.open(URI, "x")
    ready.ping()
    ready.call("shutdown")
    assert log_lines() == []


@pytest.mark.parametrize("path", ["/proc/self/none/requests.jsonl", "/dev/full", "/dev/null/x"])
def test_a_log_that_cannot_be_written(start, path):
    client = start(flags=["--log", path])
    client.start()
    client.open(URI, "x = ")
    for _ in range(3):
        assert client.wait(client.ask(URI, {"line": 0, "character": 4}))["result"] is None
    client.ping()
    assert sum("latency log" in t for t in client.texts()) == 1


def test_rotation(start, tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("{}\n" * (9 << 20 >> 1))
    client = start(flags=["--log", str(path)])
    client.start()
    client.open(URI, "x = ")
    client.complete(URI, {"line": 0, "character": 4})
    assert path.stat().st_size < 10000
    assert (tmp_path / "own.jsonl.1").stat().st_size > 8 << 20
