# SPDX-License-Identifier: MIT
"""The command line of the built binary: what it prints, what bad input gets, and that its settings are the documented ones."""
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("MASKSTORE_BIN", str(ROOT / "build" / "maskstore"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maskstore"
MODEL = os.environ.get("MASKSTORE_TEST_MODEL", str(CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
SAMPLE = "import os\n\n\ndef size_of(path):\n    \"\"\"Size of a file in bytes.\"\"\"\n    return os.path.\n"


def run(*args, env=None, timeout=300):
    full = {k: v for k, v in os.environ.items() if not k.startswith("MASKSTORE_") or k == "MASKSTORE_SHARED"}
    full["XDG_CONFIG_HOME"] = "/nonexistent"
    full.update(env or {})
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=timeout, env=full, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def model():
    if not os.path.exists(MODEL):
        pytest.skip(f"{MODEL} is missing: tools/fetch-model smollm2")
    return MODEL


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    return path


def refused(result, *words):
    assert result.returncode == 2, result
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
    assert result.stdout == ""


def test_version_is_the_projects():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
    assert run("--version").stdout == f"maskstore {version}\n"


def test_help_has_examples_and_every_setting():
    text = run("--help").stdout
    assert "Examples:" in text
    rows = re.findall(r"^\| `(--[a-z-]+)` \| `((?:MASKSTORE|MS)_[A-Z_]+)` \| `(\w+)` \|", (ROOT / "docs" / "configuration.md").read_text(), re.M)
    assert len(rows) == 13
    shown = [tuple(line.split()[:3]) for line in text.splitlines() if re.match(r"  --\S+ +(MASKSTORE|MS)_", line)]
    assert shown == rows


def test_complete_json(model, sample):
    result = run("complete", f"{sample}:6:20", "--json", "--model", model, "--threads", "2")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert set(answer) == {"text", "stop", "ttft_ms", "total_ms", "phases_ms", "tokens", "model", "strategy"}
    assert set(answer["phases_ms"]) == {"load", "prompt", "tokenize", "prefill", "decode", "finish"}
    assert set(answer["tokens"]) == {"prompt", "hit", "new", "generated"}
    assert answer["text"].strip() and "\n" not in answer["text"]
    assert answer["tokens"]["prompt"] == answer["tokens"]["new"] > 10 and answer["tokens"]["hit"] == 0
    assert 0 < answer["ttft_ms"] <= answer["total_ms"]
    assert answer["strategy"] == "balanced"


def test_same_answer_with_scalar_kernels_and_one_thread(model, sample):
    fast = json.loads(run("complete", f"{sample}:6:20", "--json", "--model", model).stdout)
    slow = json.loads(run("complete", f"{sample}:6:20", "--json", "--model", model, "--threads", "1", env={"MASKSTORE_ISA": "scalar"}).stdout)
    assert fast["text"] == slow["text"]


def test_little_memory_shortens_the_context_or_is_refused(model, sample):
    where = f"{sample}:5:1"
    cut = run("complete", where, "--model", model, "--kv-budget-mb", "12", "--json")
    assert cut.returncode == 0 and json.loads(cut.stdout)["text"] == json.loads(run("complete", where, "--model", model, "--json").stdout)["text"]
    assert "cut from 8192 to" in cut.stderr and "kvBudgetMb" in cut.stderr
    refused(run("complete", where, "--model", model, "--kv-budget-mb", "3"), "3 MB", "256 are needed", "raise kvBudgetMb")


def test_column_counts_characters(model, tmp_path):
    path = tmp_path / "emoji.py"
    path.write_text("face = '\U0001f600é'; size = le\n")
    assert run("complete", f"{path}:1:22", "--json", "--model", model).returncode == 0
    refused(run("complete", f"{path}:1:24", "--model", model), "column 24", "22 characters")


@pytest.mark.parametrize("args, words", [
    (["complete"], ["FILE:LINE:COL"]),
    (["complete", "x.py"], ["FILE:LINE:COL"]),
    (["complete", "x.py:0:1"], ["FILE:LINE:COL"]),
    (["complete", "x.py:1:-1"], ["FILE:LINE:COL"]),
    (["complete", "missing.py:1:1"], ["missing.py", "No such file"]),
    (["--no-such-flag", "1"], ["--no-such-flag", "--help"]),
    (["complete", "x.py:1:1", "--threads", "many"], ["threads", "many"]),
    (["complete", "x.py:1:1", "--max-context", "1"], ["max-context"]),
    (["complete", "x.py:1:1", "--strategy", "wild"], ["strategy", "wild", "conservative"]),
    (["complete", "x.py:1:1", "--model"], ["--model", "value"]),
    (["nonsense"], ["nonsense", "--help"]),
    (["inspect"], ["inspect takes one of", "store"]),
    (["inspect", "store", "more"], ["inspect store"]),
    (["store"], ["store takes one of", "verify", "clear"]),
    (["store", "nothing"], ["store takes one of"]),
    (["bench", "nothing"], ["bench takes one of"]),
    (["--config", "/nonexistent/c.json"], ["/nonexistent/c.json"]),
])
def test_wrong_arguments(args, words):
    refused(run(*args), *words)


def test_wrong_variable():
    refused(run("complete", "x.py:1:1", env={"MASKSTORE_THREADS": "x"}), "MASKSTORE_THREADS")


def test_bad_documents(model, tmp_path):
    cases = {
        "empty.py": (b"", "empty"),
        "latin.py": (b"# caf\xe9\nx = 1\n", "UTF-8"),
        "big.py": (b"x = 1\n" * 12_000_000, "limit"),
    }
    for name, (data, word) in cases.items():
        path = tmp_path / name
        path.write_bytes(data)
        refused(run("complete", f"{path}:1:1", "--model", model), name, word)
    (tmp_path / "short.py").write_text("x = 1\n")
    refused(run("complete", f"{tmp_path}/short.py:9:1", "--model", model), "line 9", "past the end")
    refused(run("complete", f"{tmp_path}:1:1", "--model", model), str(tmp_path))


def test_bad_models(sample, tmp_path):
    refused(run("complete", f"{sample}:1:1", "--model", tmp_path / "none.gguf"), "none.gguf")
    (tmp_path / "text.gguf").write_text("this is no model")
    refused(run("complete", f"{sample}:1:1", "--model", tmp_path / "text.gguf"), "text.gguf", "GGUF")
    refused(run("complete", f"{sample}:1:1", "--model", tmp_path), str(tmp_path))


def test_truncated_model(model, sample, tmp_path):
    whole = Path(model).read_bytes()
    for share in (0.001, 0.3, 0.999):
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[:int(len(whole) * share)])
        refused(run("complete", f"{sample}:1:1", "--model", path), "cut.gguf")


def test_configuration_file(model, sample, tmp_path):
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"maskstore": {"strategy": "aggressive", "maxNewTokens": 2, "nonsense": 1}}))
    result = run("complete", f"{sample}:6:20", "--json", "--model", model, "--config", config)
    answer = json.loads(result.stdout)
    assert answer["strategy"] == "aggressive" and answer["tokens"]["generated"] <= 2
    assert result.stderr.count("nonsense") == 1
    override = run("complete", f"{sample}:6:20", "--json", "--model", model, "--config", config, "--strategy", "conservative")
    assert json.loads(override.stdout)["strategy"] == "conservative"
    config.write_text("{not json")
    refused(run("complete", f"{sample}:6:20", "--config", config), "c.json", "not JSON")


def test_inspect(model, sample):
    shown = run("inspect", "model", "--model", model).stdout
    assert "llama" in shown and "none (prefix only)" in shown and "head_dim 64" in shown
    ids = json.loads(run("inspect", "tokens", sample, "--model", model).stdout)
    assert len(ids) > 10 and all(isinstance(i, int) for i in ids)
    prompt = run("inspect", "prompt", f"{sample}:6:20", "--model", model).stdout
    assert "def size_of(path):" in prompt and "one line" in prompt


def test_bench(model):
    for args in (["prefill", "--n", "64"], ["decode", "--depth", "64", "--n", "8"]):
        figures = json.loads(run("bench", *args, "--repeat", "1", "--json", "--model", model).stdout)
        assert figures["tokens_per_s"] > 0


def test_bench_spec(model, sample):
    """Speculation gives the same tokens in fewer passes of the decoder."""
    done = run("bench", "spec", f"{sample}:6:20", f"{sample}:3:1", "--n", "48", "--json", "--model", model)
    figures = json.loads(done.stdout)
    assert figures["identical"] is True and figures["places"] == 2 and figures["tokens"] == 96
    assert figures["ratio"] == pytest.approx(figures["spec_tokens_per_s"] / figures["plain_tokens_per_s"], rel=0.01)
    assert figures["plain_passes"] == 2 * 47 and figures["spec_passes"] + figures["accepted"] == 2 * 47
    refused(run("bench", "spec", "--model", model), "bench takes one of")


def test_bench_behind_a_filled_context(model):
    figures = json.loads(run("bench", "decode", "--depth", "1000", "--n", "4", "--repeat", "2", "--json", "--model", model).stdout)
    assert figures["depth"] == 1000 and figures["tokens_per_s"] > 0


def test_bench_beside_a_limit(model):
    prefill = json.loads(run("bench", "prefill", "--n", "64", "--with-dot", "--repeat", "2", "--json", "--model", model).stdout)
    share = 2e-9 * prefill["token_madds"] * prefill["tokens_per_s"] / prefill["int8_dot_gops"]
    assert prefill["dot_share"] == pytest.approx(share, rel=0.01) and prefill["dot_share"] > 0
    decode = json.loads(run("bench", "decode", "--depth", "64", "--n", "8", "--with-read", "--repeat", "1", "--json", "--model", model).stdout)
    assert decode["bandwidth_share"] == pytest.approx(1e-9 * decode["pass_bytes"] * decode["tokens_per_s"] / decode["read_gb_per_s"], rel=0.01)


def test_generate_is_greedy_or_seeded(model, sample, tmp_path):
    ids = tmp_path / "ids.bin"
    assert run("inspect", "tokens", sample, "--model", model, "--binary", "--out", ids).returncode == 0

    def tokens(*flags):
        result = run("inspect", "generate", "--tokens", ids, "--n", "12", "--model", model, *flags)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["tokens"]

    greedy = tokens()
    assert len(greedy) == 12 and tokens("--temperature-milli", "0") == greedy
    sampled = [tokens("--temperature-milli", "1500", "--seed", seed) for seed in (1, 1, 2, 3)]
    assert sampled[0] == sampled[1]
    assert len({tuple(s) for s in sampled}) > 1
    assert tokens("--temperature-milli", "1500", "--seed", "1", "--top-k", "1") == greedy


def test_odd_head_size_gets_one_notice(model, sample, tmp_path):
    sys.path.insert(0, str(ROOT / "tools" / "oracle"))
    from make_tiny import write_model
    tiny = tmp_path / "d80.gguf"
    write_model(tiny, "qwen2-gqa-untied-d80")
    result = run("complete", f"{sample}:6:20", "--json", "--model", tiny)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("head_dim 80") == 1 and "exact attention only" in result.stderr
    assert "head_dim" not in run("complete", f"{sample}:6:20", "--json", "--model", model).stderr


# --- the store: extents written here, by the format in src/maskstore/extent.h

def extent(parent, ids, payload, layers=1, heads=1, head_dim=2, version=1):
    """One block of 2-byte elements at rest, and its key."""
    key = hashlib.sha256(parent + struct.pack("<32i", *ids)).digest()
    low, high = payload[0::2], payload[1::2]
    part, top = 32 * head_dim, b""
    for layer in range(layers):
        for is_v in (0, 1):
            for head in range(heads):
                at = ((layer * heads + head) * 2 + is_v) * part
                values = high[at:at + part]
                top += values if is_v else bytes((v - (values[i - 1] if i % 32 else 0)) % 256 for i, v in enumerate(values))
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = squeeze.compress(top) + squeeze.flush()
    head = b"MSKEXTNT" + struct.pack("<I", version)
    rest = struct.pack("<6IQQQ", 0, 2, layers, heads, head_dim, 0, len(payload), len(deflated), 0)
    rest += key + parent + struct.pack("<32i", *ids) + low + deflated
    return key, head + struct.pack("<I", zlib.crc32(rest, zlib.crc32(head))) + rest


@pytest.fixture
def store(tmp_path):
    """A cache folder whose store holds a chain of three blocks; their files."""
    rng = random.Random(4)
    root = hashlib.sha256(b"root").digest()
    folder = tmp_path / "store" / root.hex()
    folder.mkdir(parents=True)
    files, parent = [], root
    for n in range(3):
        parent, data = extent(parent, [rng.randrange(50000) for _ in range(32)], rng.randbytes(2 * 2 * 32 * 2))
        files.append(folder / parent.hex())
        files[-1].write_bytes(data)
    return tmp_path, files


def store_json(*args, cache, status=0):
    result = run(*args, "--json", "--cache-dir", cache)
    assert result.returncode == status, result
    return json.loads(result.stdout)


def test_store_report_verify_clear(store):
    cache, files = store
    size = sum(f.stat().st_size for f in files)
    shown = store_json("inspect", "store", cache=cache)
    assert shown == {"folder": f"{cache}/store", "roots": 1, "extents": 3, "bytes": size, "temporary": 0, "budget_bytes": 2048 << 20}
    assert "3 of 32 tokens" in run("inspect", "store", "--cache-dir", cache).stdout
    whole = store_json("store", "verify", cache=cache)
    assert (whole["extents"], whole["raw_bytes"], whole["corrupt"]) == (3, 3 * 256, 0)
    (files[0].parent / "notes.txt").write_text("mine")
    assert store_json("store", "clear", cache=cache)["extents"] == 3
    assert [f.name for f in files[0].parent.iterdir()] == ["notes.txt"]
    assert store_json("inspect", "store", cache=cache)["extents"] == 0


def test_store_shows_the_last_request(store):
    """The newest line of the log with figures of a store; what a log may hold besides never gets through."""
    cache, _ = store
    log = cache / "log" / "requests.jsonl"
    log.parent.mkdir()
    old, new = '{"time":"2026-01-02T03:04:05.678Z","id":1,"store":{"waits":1}}\n', '{"time":"2026-01-02T03:04:06.789Z","id":2,"store":{"waits":2,"healed":0}}\n'
    log.write_text(old + new + '{"time":"2026-01-02T03:04:07.000Z","id":3}\n' + '{"time":"2026-01-02T03:04:08.000Z","store":{"waits":')
    shown = store_json("inspect", "store", cache=cache)
    assert shown["last_request"] == {"time": "2026-01-02T03:04:06.789Z", "store": {"waits": 2, "healed": 0}}
    text = run("inspect", "store", "--cache-dir", cache).stdout
    assert "2026-01-02T03:04:06.789Z" in text and "waits                 2" in text and "healed                0" in text
    log.write_text("x" * 100_000 + "\n" + new)
    assert store_json("inspect", "store", cache=cache)["last_request"]["store"]["waits"] == 2
    for damaged in ['{"time":"\x1b[2J","store":{"waits":1}}\n', '{"time":"2026","store":{"waits":"\x1b"}}\n', '{"time":"2026","store":{' + '"a":1,' * 9000 + "}}\n", "\n\n", ""]:
        log.write_text(damaged)
        assert "last_request" not in store_json("inspect", "store", cache=cache)
        assert "none in the log" in run("inspect", "store", "--cache-dir", cache).stdout
    log.unlink()
    os.mkfifo(log)
    assert "last_request" not in store_json("inspect", "store", cache=cache)


def test_store_verify_finds_damage(store):
    cache, files = store
    data = bytearray(files[1].read_bytes())
    data[-1] ^= 1
    files[1].write_bytes(data)
    other_version = bytearray(files[2].read_bytes())
    other_version[8] = 2
    files[2].write_bytes(other_version)
    found = store_json("store", "verify", cache=cache, status=1)
    assert (found["extents"], found["corrupt"], found["unknown_version"], found["removed"]) == (1, 1, 1, False)
    assert all(f.exists() for f in files)
    removed = store_json("store", "verify", "--remove", cache=cache)
    assert (removed["corrupt"], removed["unknown_version"], removed["removed"]) == (1, 1, True)
    assert [f.exists() for f in files] == [True, False, False]
    assert store_json("store", "verify", cache=cache)["extents"] == 1


def test_store_that_is_missing_or_no_folder(tmp_path):
    assert store_json("inspect", "store", cache=tmp_path)["extents"] == 0
    assert store_json("store", "verify", cache=tmp_path)["extents"] == 0
    (tmp_path / "store").write_text("a file")
    refused(run("inspect", "store", "--cache-dir", tmp_path), "store", "directory")
    refused(run("store", "verify", "--cache-dir", tmp_path), "store", "directory")
    refused(run("store", "clear", "--cache-dir", tmp_path), "store", "directory")
