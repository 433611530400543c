# SPDX-License-Identifier: MIT
"""Logits of the built binary against Hugging Face transformers on the dequantised file (tools/oracle/make_logits.py)."""

import json
from pathlib import Path

import numpy as np
import pytest
from make_tiny import MODELS as TINY_MODELS

HERE = Path(__file__).parent
EXACT = ("--activations", "f32", "--kv", "f32")
FAST = ("--activations", "q8", "--kv", "f16")
TOLERANCE = 1e-3
STRIDE = 37  # as in make_logits.py


def fixture(name):
    return np.load(HERE / f"{name}.npz")


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


@pytest.mark.parametrize("name", TINY_MODELS)
def test_tiny_matches_transformers(binary, tiny_models, name):
    golden = fixture("tiny_logits")
    want = golden[f"{name}/logits"]
    got = binary.logits(tiny_models / f"{name}.gguf", golden[f"{name}/tokens"], [1, 33, 512], *EXACT)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= TOLERANCE


@pytest.mark.parametrize("name", TINY_MODELS)
def test_tiny_with_8_bit_activations(binary, tiny_models, name):
    golden = fixture("tiny_logits")
    got = binary.logits(tiny_models / f"{name}.gguf", golden[f"{name}/tokens"], [1, 33, 512], *FAST)
    assert cosine(got, golden[f"{name}/logits"]).min() >= 0.999


@pytest.mark.parametrize("name", ["qwen2-gqa-untied-mixed", "llama-mha-untied-k", "qwen2-mqa-tied-legacy"])
@pytest.mark.parametrize("flags", [EXACT, FAST], ids=["f32", "q8"])
def test_same_bits_for_any_threads_and_chunk(binary, tiny_models, name, flags):
    tokens = fixture("tiny_logits")[f"{name}/tokens"]
    results = [
        binary.logits(tiny_models / f"{name}.gguf", tokens, [1, 33, 511], *flags, "--threads", threads, "--chunk", chunk)
        for threads, chunk in [(1, 512), (2, 512), (1, 1), (2, 7), (2, 64)]
    ]
    for other in results[1:]:
        assert other.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("key", ["qwen", "smollm2"])
def test_real_matches_transformers(binary, real_model, key):
    golden = fixture("real_logits")
    at = golden[f"{key}/at"]
    got = binary.logits(real_model(key), golden[f"{key}/tokens"], at, *EXACT)
    wide = got.astype(np.float64)
    log_sum = np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1)) + wide.max(1)
    top = np.take_along_axis(got, golden[f"{key}/top_ids"], axis=1)
    worst = {
        "strided": np.abs(got[:, ::STRIDE] - golden[f"{key}/strided"]).max(1),
        "top": np.abs(top - golden[f"{key}/top"]).max(1),
        "logsumexp": np.abs(log_sum - golden[f"{key}/logsumexp"]),
    }
    print(key, dict(zip(at.tolist(), np.max(list(worst.values()), axis=0))))
    assert max(w.max() for w in worst.values()) <= TOLERANCE, worst


def share_of_equal(binary, model, key):
    """Of 2,000 positions of real code, teacher forced: the share with transformers' best token, of all and of clear ones."""
    golden = fixture("real_positions")
    best = np.stack([binary.best_everywhere(model, row, *FAST)[0] for row in golden[f"{key}/tokens"]])
    equal = best == golden[f"{key}/top1"]
    clear = golden[f"{key}/gap"] >= 0.2
    print(key, f"equal {equal.mean():.4%} of {equal.size}, {equal[clear].mean():.4%} of {clear.sum()} clear ones")
    assert equal.size >= 2000
    return equal.mean(), equal[clear].mean()


def test_8_bit_activations_keep_the_best_token(binary, real_model):
    of_all, of_clear = share_of_equal(binary, real_model("qwen"), "qwen")
    assert of_all >= 0.99
    assert of_clear >= 0.998


def test_8_bit_activations_of_smollm2_cost_no_more_than_rounding(binary, real_model):
    """SmolLM2 loses 4 % of its best tokens to such activations in transformers too (tools/oracle/make_rounding.py)."""
    of_all, of_clear = share_of_equal(binary, real_model("smollm2"), "smollm2")
    rounding = json.loads((HERE / "rounding.json").read_text())["smollm2"]
    assert of_all >= np.mean(rounding["equal"]) - 0.01
    assert of_clear >= np.mean(rounding["clear"]) - 0.003


@pytest.mark.parametrize("key, least", [("qwen", 0.999), ("smollm2", 0.998)])
def test_8_bit_activations_keep_the_direction(binary, real_model, key, least):
    """SmolLM2's logits are taken about their mean: a shift of all of them by 1.1 at one position changes no probability,
    yet takes the plain cosine there to 0.988."""
    golden = fixture("real_positions")
    for row, at, want in zip(golden[f"{key}/tokens"], golden[f"{key}/kept_at"], golden[f"{key}/kept_strided"]):
        got = binary.logits(real_model(key), row, at, *FAST)[:, ::STRIDE]
        if key == "smollm2":
            got, want = (x - x.mean(-1, keepdims=True) for x in (got, want))
        assert cosine(got, want).min() >= least, cosine(got, want)
