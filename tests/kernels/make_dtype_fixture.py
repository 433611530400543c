#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes dtype_fixture.bin: random blocks of every tensor type and their values by the gguf package.

Usage: make_dtype_fixture.py [OUTPUT]. Needs gguf==0.19.0 and numpy. Deterministic.
Layout, little endian, per type: uint32 type, uint32 n_bytes, uint32 n_values, bytes (padded to 4), values as float32.
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

TYPES = {
    # type: (bytes of a block, values of a block, offsets of f16 scales)
    T.F32: (4, 1, []),
    T.F16: (2, 1, [0]),
    T.BF16: (2, 1, []),
    T.Q4_0: (18, 32, [0]),
    T.Q4_1: (20, 32, [0, 2]),
    T.Q5_0: (22, 32, [0]),
    T.Q5_1: (24, 32, [0, 2]),
    T.Q8_0: (34, 32, [0]),
    T.Q4_K: (144, 256, [0, 2]),
    T.Q5_K: (176, 256, [0, 2]),
    T.Q6_K: (210, 256, [208]),
}
N_VALUES = 512


def blocks(rng, block_bytes, n_blocks, scales):
    data = rng.integers(0, 256, size=(n_blocks, block_bytes), dtype=np.uint8)
    for offset in scales:
        halves = (rng.uniform(-1, 1, n_blocks) * 0.1).astype("<f2")
        halves[0] = np.float16(3e-7)  # a subnormal half
        data[:, offset:offset + 2] = halves.view(np.uint8).reshape(n_blocks, 2)
    return data


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("dtype_fixture.bin"))
    rng = np.random.default_rng(4)
    with out.open("wb") as f:
        for kind, (block_bytes, block_values, scales) in TYPES.items():
            n_blocks = N_VALUES // block_values
            data = blocks(rng, block_bytes, n_blocks, scales)
            if kind == T.F32:
                data = rng.uniform(-1, 1, (n_blocks, 1)).astype("<f4").view(np.uint8)
            if kind == T.BF16:
                data = rng.uniform(-1, 1, (n_blocks, 1)).astype("<f4").view(np.uint8)[:, 2:].copy()
            if kind == T.F32:
                values = data.reshape(-1).view("<f4")
            elif kind == T.F16:
                values = data.reshape(-1).view("<f2").astype("<f4")
            else:
                values = quants.dequantize(data.reshape(1, -1), kind).reshape(-1).astype("<f4")
            assert values.size == N_VALUES
            raw = data.tobytes()
            f.write(struct.pack("<III", int(kind), len(raw), N_VALUES))
            f.write(raw + b"\0" * (-len(raw) % 4))
            f.write(values.tobytes())


if __name__ == "__main__":
    main()
