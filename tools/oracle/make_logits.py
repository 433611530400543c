#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/tiny.json, tiny_logits.npz, real_logits.npz and real_positions.npz with transformers in float32.

    tools/oracle/make_logits.py [tiny] [qwen] [smollm2]      all without arguments; others' entries are kept

For the real models a fixture holds every 37th logit, the 64 largest with their ids, and the log of the sum of
exponentials; the tiny ones are whole. Needs tests/requirements-oracle.txt; a few minutes on two cores.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import corpus
import make_tiny
from reference import MODELS, REPO, load_hf, tokenizer_from_gguf

GOLDEN = REPO / "tests" / "golden"
STRIDE = 37
N_TOP = 64
AT = {"qwen": [1, 33, 512], "smollm2": [1, 33, 512, 3000]}
N_CONTEXTS, N_POSITIONS = 4, 500
N_COSINE = 4  # positions of each context whose logits are kept, for the cosine
# Files of the corpus that the contexts of 500 tokens are cut from, at a line of their second third.
CONTEXT_FILES = [
    "django/db/models/query.py",
    "networkx/algorithms/community/louvain.py",
    "rich/progress.py",
    "sqlglot/optimizer/scope.py",
]


def own_text():
    """The text of the logit fixtures: the repository's own Python test data."""
    paths = sorted((REPO / "tests" / "data" / "py").glob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def logits_of(model, tokens, at):
    """[len(at)][n_vocab] float32, each after the first n tokens, from one pass."""
    with torch.no_grad():
        out = model(torch.tensor([tokens[: max(at)]]), logits_to_keep=torch.tensor([n - 1 for n in at]))
    return out.logits[0].float().numpy()


def sample_of(prefix, logits):
    """The committed part of [n][n_vocab] logits."""
    top = np.argsort(-logits, axis=1, kind="stable")[:, :N_TOP]
    wide = logits.astype(np.float64)
    peak = wide.max(axis=1, keepdims=True)
    return {
        f"{prefix}/strided": logits[:, ::STRIDE].copy(),
        f"{prefix}/top_ids": top.astype(np.int32),
        f"{prefix}/top": np.take_along_axis(logits, top, axis=1),
        f"{prefix}/logsumexp": np.log(np.exp(wide - peak).sum(axis=1)) + peak[:, 0],
    }


def make_tiny_fixtures():
    digests, arrays = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in make_tiny.MODELS:
            path = Path(folder) / f"{name}.gguf"
            digests[name] = make_tiny.write_model(path, name)
            tokens = tokenizer_from_gguf(str(path)).encode(own_text()).ids[:512]
            logits = logits_of(load_hf(path), tokens, [1, 33, 512])
            arrays[f"{name}/tokens"] = np.array(tokens, np.int32)
            arrays[f"{name}/logits"] = logits
            print(name, "deviation of logits", logits.std(axis=1))
    (GOLDEN / "tiny.json").write_text(json.dumps(digests, indent=1) + "\n")
    np.savez_compressed(GOLDEN / "tiny_logits.npz", **arrays)


def contexts_of(tokenizer):
    """[N_CONTEXTS][N_POSITIONS] token ids of real code."""
    rows = []
    for path in CONTEXT_FILES:
        text = corpus.sources()[path].decode()
        lines = text.splitlines(keepends=True)
        ids = tokenizer.encode("".join(lines[len(lines) // 3 :])).ids
        rows.append(ids[:N_POSITIONS])
        assert len(rows[-1]) == N_POSITIONS, path
    return np.array(rows, np.int32)


def make_real_fixtures(key):
    model = load_hf(MODELS[key])
    tokenizer = tokenizer_from_gguf(str(MODELS[key]))
    tokens = tokenizer.encode(own_text()).ids[: max(AT[key])]
    assert len(tokens) == max(AT[key])
    logits = {f"{key}/tokens": np.array(tokens, np.int32), f"{key}/at": np.array(AT[key], np.int32)}
    logits |= sample_of(key, logits_of(model, tokens, AT[key]))

    contexts = contexts_of(tokenizer)
    positions = {f"{key}/tokens": contexts}
    top1, gaps, kept, kept_at = [], [], [], []
    for i, row in enumerate(contexts):
        with torch.no_grad():
            all_logits = model(torch.tensor(row[None].astype(np.int64))).logits[0]
        best = all_logits.topk(2, dim=1)
        top1.append(best.indices[:, 0].numpy().astype(np.int32))
        gaps.append((best.values[:, 0] - best.values[:, 1]).numpy())
        at = np.linspace(40 + 7 * i, N_POSITIONS, N_COSINE).astype(np.int32)
        kept_at.append(at)
        kept.append(all_logits[at - 1, ::STRIDE].numpy())
    positions |= {f"{key}/top1": np.array(top1), f"{key}/gap": np.array(gaps)}
    positions |= {f"{key}/kept_at": np.array(kept_at), f"{key}/kept_strided": np.array(kept)}
    print(key, "positions with a gap of 0.2 or more:", int((np.array(gaps) >= 0.2).sum()))
    update(GOLDEN / "real_logits.npz", logits)
    update(GOLDEN / "real_positions.npz", positions)


def update(path, arrays):
    old = dict(np.load(path)) if path.exists() else {}
    np.savez_compressed(path, **(old | arrays))


def main():
    wanted = sys.argv[1:] or ["tiny", *MODELS]
    GOLDEN.mkdir(exist_ok=True)
    for what in wanted:
        make_tiny_fixtures() if what == "tiny" else make_real_fixtures(what)


if __name__ == "__main__":
    main()
