# SPDX-License-Identifier: MIT
"""A file that was at rest in one server starts warm in the next; what git ignores and what looks like a secret never reaches the disk."""
import subprocess
import time

from client import LONG, SLOW, end_of

TEXT = LONG[:4000] + "def last_step(value):\n    return "
REST_S = 2  # engine.c


def extents(tmp_path):
    """Extents are files two folders below the store's: a folder for each root key."""
    return [p for p in (tmp_path / "cache" / "store").rglob("*") if p.is_file()]


def wait_for_extents(tmp_path, n, seconds=60):
    end = time.monotonic() + seconds * SLOW
    while len(extents(tmp_path)) < n:
        assert time.monotonic() < end, f"{len(extents(tmp_path))} of {n} extents were written"
        time.sleep(0.1)


def complete_once(client, path, text=TEXT):
    client.start()
    client.open(path.as_uri(), text)
    return client.complete(path.as_uri(), end_of(text))


def test_a_reopened_file_is_restored(start, model, tmp_path, log_lines):
    path = tmp_path / "plain" / "main.py"
    path.parent.mkdir()
    first = start(model)
    answer = complete_once(first, path)
    assert answer
    cold = log_lines()[0]["tokens"]
    wait_for_extents(tmp_path, cold["prompt"] // 32)
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in extents(tmp_path))
    assert first.shutdown() == 0
    assert complete_once(start(model), path) == answer
    warm = log_lines()[-1]["tokens"]
    assert warm["prompt"] == cold["prompt"]
    assert warm["new"] <= 33 < cold["new"]  # the last block is not full


def test_spoilt_extents_are_misses(start, model, tmp_path, log_lines):
    path = tmp_path / "plain" / "main.py"
    path.parent.mkdir()
    first = start(model)
    answer = complete_once(first, path)
    cold = log_lines()[0]["tokens"]
    wait_for_extents(tmp_path, cold["prompt"] // 32)
    assert first.shutdown() == 0
    for i, extent in enumerate(sorted(extents(tmp_path))):
        data = bytearray(extent.read_bytes())
        data[len(data) * (i % 7) // 7] ^= 1 << i % 8
        extent.write_bytes(data)
    assert complete_once(start(model), path) == answer
    assert log_lines()[-1]["tokens"]["new"] == cold["new"]


def test_secrets_stay_in_memory(start, model, tmp_path):
    repo = tmp_path / "repo"
    repo.mkdir()
    subprocess.run(["git", "init", "-q", repo], check=True)
    (repo / ".gitignore").write_text("local_*.py\n")
    client = start(model)
    assert complete_once(client, repo / "local_settings.py")
    for name in ("secrets.py", ".env"):
        client.open((repo / name).as_uri(), TEXT + name)
        client.complete((repo / name).as_uri(), end_of(TEXT + name))
    time.sleep((REST_S + 2) * SLOW)
    assert extents(tmp_path) == []
    client.open((repo / "main.py").as_uri(), TEXT)
    client.complete((repo / "main.py").as_uri(), end_of(TEXT))
    wait_for_extents(tmp_path, 10)  # it would have written
