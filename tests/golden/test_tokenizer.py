# SPDX-License-Identifier: MIT
"""Token ids of the built binary against the tokenizers library, on real sources and on Unicode torture text."""

import numpy as np
import pytest
import torture
from conftest import FULL, REPO
from corpus import sources
from make_tiny import byte_letters
from reference import gguf_fields, tokenizer_from_gguf

# By default 7.5 MB of the corpus; MASKSTORE_FULL=1 takes all 22 MB.
QUICK_PACKAGES = ("attr/", "attrs/", "click/", "flask/", "httpx/", "jinja2/", "pygments/", "rich/")
MIN_BYTES = 5_000_000
FILES_A_CALL = 400


def write_all(folder, contents):
    paths = []
    for i, data in enumerate(contents.values()):
        paths.append(folder / f"{i}.txt")
        paths[-1].write_bytes(data)
    return paths


def assert_same_ids(binary, model, folder, contents):
    names, datas = list(contents), list(contents.values())
    paths = write_all(folder, contents)
    oracle = tokenizer_from_gguf(str(model))
    for start in range(0, len(names), FILES_A_CALL):
        part = slice(start, start + FILES_A_CALL)
        got = binary.tokens(model, paths[part])
        want = oracle.encode_batch_fast([data.decode() for data in datas[part]])
        for name, ours, theirs in zip(names[part], got, want, strict=True):
            compare(oracle, name, ours, np.array(theirs.ids, np.int32))


def compare(oracle, name, ours, theirs):
    if np.array_equal(ours, theirs):
        return
    n = min(len(ours), len(theirs))
    differing = np.nonzero(ours[:n] != theirs[:n])[0]
    i = int(differing[0]) if len(differing) else n
    before = oracle.decode(theirs[max(0, i - 8) : i].tolist())
    pytest.fail(
        f"{name}: token {i} of {len(theirs)} after {before!r}: ours {[oracle.id_to_token(t) for t in ours[i : i + 6]]},"
        f" tokenizers {[oracle.id_to_token(t) for t in theirs[i : i + 6]]}"
    )


@pytest.mark.parametrize("key", ["qwen", "smollm2"])
def test_real_sources(binary, real_model, tmp_path, key):
    chosen = {p: d for p, d in sources().items() if FULL or p.startswith(QUICK_PACKAGES)}
    assert sum(map(len, chosen.values())) >= MIN_BYTES
    assert_same_ids(binary, real_model(key), tmp_path, chosen)


@pytest.mark.parametrize("key", ["qwen", "smollm2"])
@pytest.mark.parametrize("name", list(torture.texts()))
def test_torture(binary, real_model, tmp_path, key, name):
    text = torture.texts(FULL)[name]
    assert_same_ids(binary, real_model(key), tmp_path, {name: text.encode()})


@pytest.mark.parametrize("name", ["qwen2-gqa-tied-k", "llama-mqa-tied-q8_0"])
def test_small_vocabulary(binary, tiny_models, tmp_path, name):
    own = {p.name: p.read_bytes() for p in sorted((REPO / "tests/data/py").glob("*.py"))}
    texts = {k: v.encode() for k, v in torture.texts().items() if k in ("spaces", "digits", "contractions")}
    assert_same_ids(binary, tiny_models / f"{name}.gguf", tmp_path, own | texts)


def bytes_without_token(model):
    """Bytes that the vocabulary can't say: SmolLM2 lacks 21, mostly such as UTF-8 never has. They are dropped."""
    (tokens,) = gguf_fields(str(model), "tokenizer.ggml.tokens")
    known = set(tokens)
    return bytes(b for b, letter in enumerate(byte_letters()) if letter not in known)


def test_round_trip_of_any_bytes(binary, real_model, tmp_path):
    model = real_model("qwen")
    assert not bytes_without_token(model)
    contents = {k: v.encode() for k, v in torture.texts().items()} | torture.raw()
    for path in write_all(tmp_path, contents):
        binary.run("inspect", "tokens", "--model", model, "--roundtrip", path)


def test_round_trip_of_all_bytes_that_smollm2_knows(binary, real_model, tmp_path):
    model = real_model("smollm2")
    missing = bytes_without_token(model)
    assert len(missing) == 21
    contents = {k: v.encode() for k, v in torture.texts().items()} | torture.raw()
    for path in write_all(tmp_path, {k: v.translate(None, missing) for k, v in contents.items()}):
        binary.run("inspect", "tokens", "--model", model, "--roundtrip", path)
