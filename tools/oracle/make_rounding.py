#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/rounding.json: how far 8-bit activations alone move SmolLM2, in transformers.

    OMP_NUM_THREADS=1 tools/oracle/make_rounding.py

Each input of a matrix is rounded to 8 bits with one scale for each 32 values; all else stays float32. What is left of
the best tokens in tests/golden/real_positions.npz is the most that an engine with such activations can be asked for.
"""

import json

import numpy as np
import torch

from reference import MODELS, REPO, load_hf

KEY = "smollm2"
GOLDEN = REPO / "tests" / "golden"


def rounded(x):
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    codes = torch.where(scale > 0, torch.round(blocks / scale.clamp(min=1e-38)), torch.zeros_like(blocks))
    return (codes * scale).reshape(x.shape)


def main():
    golden = np.load(GOLDEN / "real_positions.npz")
    model = load_hf(MODELS[KEY])
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))
    result = {"equal": [], "clear": []}
    for tokens, top1, gap in zip(*(golden[f"{KEY}/{name}"] for name in ("tokens", "top1", "gap"))):
        with torch.no_grad():
            best = model(torch.tensor(tokens[None].astype(np.int64))).logits[0].argmax(1).numpy()
        result["equal"].append(round(float((best == top1).mean()), 4))
        result["clear"].append(round(float((best == top1)[gap >= 0.2].mean()), 4))
        print(result, flush=True)
    (GOLDEN / "rounding.json").write_text(json.dumps({KEY: result}) + "\n")


if __name__ == "__main__":
    main()
