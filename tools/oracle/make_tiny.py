#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny random GGUF models: MHA, GQA and MQA, with and without q/k/v bias (qwen2 and llama), tied and untied
head, all tensor types that maskstore reads.

    tools/oracle/make_tiny.py OUT_DIR [NAME...]

The bytes depend on nothing but this file and the versions in tests/requirements.txt: numpy's legacy
generator is frozen, and the digests in tests/golden/tiny.json tell when they differ all the same.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter, TokenType, dequantize, quantize

EPS = 1e-6
N_CTX = 4096
MERGES = (
    "Ġ Ġ|ĠĠ ĠĠ|Ċ ĠĠĠĠ|i n|r e|o n|e r|s e|a t|t h|l f|se lf|d e|de f|Ġ def|re t|Ġ i|Ġi f|Ġi n|( self|o r|f or|u r"
    "|ret ur|retur n|Ġ =|) :|n one|i m|p or|im por|impor t|Ġ self|e n|l e|le n|c l|a s|cl as|clas s|Ġ a|Ġa n|Ġan d"
).split("|")
SPECIALS = {
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
              "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"],
    "llama": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>"],
}  # fmt: skip

# A k-quant block is drawn, not quantised (gguf can't write them): its bytes as (offset, size) of the f16 scales,
# and the scale that gives weights of unit deviation; everything else in it is random.
K_BLOCKS = {
    T.Q4_K: dict(size=144, d=0, dmin=2, unit=1 / 160.0, min_ratio=7.5),
    T.Q5_K: dict(size=176, d=0, dmin=2, unit=1 / 320.0, min_ratio=15.5),
    T.Q6_K: dict(size=210, d=208, dmin=None, unit=1 / 1360.0, min_ratio=0),
}

# name: arch, (n_head, n_head_kv, head_dim), tied, the types that its matrices take in turn
MODELS = {
    "qwen2-mha-tied-f32": ("qwen2", (4, 4, 64), True, [T.F32]),
    "qwen2-mha-untied-q8_0": ("qwen2", (4, 4, 64), False, [T.Q8_0]),
    "qwen2-gqa-tied-k": ("qwen2", (4, 2, 64), True, [T.Q4_K, T.Q5_K, T.Q6_K]),
    "qwen2-gqa-untied-mixed": ("qwen2", (4, 2, 64), False, [T.Q5_0, T.Q8_0, T.Q6_K, T.Q4_K, T.F16]),
    "qwen2-mqa-tied-legacy": ("qwen2", (8, 1, 32), True, [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1]),
    "qwen2-mqa-untied-half": ("qwen2", (8, 1, 32), False, [T.F16, T.BF16]),
    "llama-mha-tied-q4_1": ("llama", (4, 4, 64), True, [T.Q4_1]),
    "llama-mha-untied-k": ("llama", (8, 8, 32), False, [T.Q6_K, T.Q5_K, T.Q4_K]),
    "llama-gqa-tied-half": ("llama", (4, 2, 64), True, [T.BF16, T.F16]),
    "llama-gqa-untied-legacy": ("llama", (8, 2, 32), False, [T.Q5_1, T.Q5_0, T.Q4_1, T.Q4_0]),
    "llama-mqa-tied-q8_0": ("llama", (4, 1, 64), True, [T.Q8_0]),
    "llama-mqa-untied-f32": ("llama", (4, 1, 64), False, [T.F32]),
    # head_dim not a multiple of 32: exact attention only
    "llama-gqa-tied-d48": ("llama", (4, 2, 48), True, [T.Q8_0, T.F32]),
    "qwen2-gqa-untied-d80": ("qwen2", (4, 2, 80), False, [T.Q8_0, T.Q5_0]),
}


def byte_letters():
    """GPT-2's printable stand-ins for the 256 bytes, by byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    letters = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return [letters[b] for b in range(256)]


def vocabulary(arch):
    """Tokens, merges and token types: bytes, merges, then specials."""
    known = byte_letters()
    merges = []
    for merge in MERGES:
        left, right = merge.split(" ")
        if left in known and right in known and left + right not in known:
            known.append(left + right)
            merges.append(merge)
    specials = SPECIALS[arch]
    types = [TokenType.NORMAL] * len(known) + [TokenType.CONTROL] * len(specials)
    return known + specials, merges, types


def draw_k_blocks(random, type_, n_rows, n_columns, deviation):
    shape = K_BLOCKS[type_]
    n_blocks = n_rows * n_columns // 256
    blocks = random.randint(0, 256, size=(n_blocks, shape["size"]), dtype=np.uint8)
    d = (deviation * shape["unit"] * random.uniform(0.5, 1.5, n_blocks)).astype(np.float16)
    blocks[:, shape["d"] : shape["d"] + 2] = d.view(np.uint8).reshape(-1, 2)
    if shape["dmin"] is not None:
        dmin = (d.astype(np.float32) * shape["min_ratio"]).astype(np.float16)
        blocks[:, shape["dmin"] : shape["dmin"] + 2] = dmin.view(np.uint8).reshape(-1, 2)
    data = blocks.reshape(n_rows, -1)
    assert np.isfinite(dequantize(data, type_)).all()
    return data


def draw_matrix(random, type_, n_rows, n_columns, deviation):
    if type_ in K_BLOCKS:
        return draw_k_blocks(random, type_, n_rows, n_columns, deviation)
    weights = (random.standard_normal((n_rows, n_columns)) * deviation).astype(np.float32)
    if type_ == T.F32:
        return weights
    return weights.astype(np.float16) if type_ == T.F16 else quantize(weights, type_)


def write_metadata(writer, arch, heads, n_embd, n_ff):
    n_head, n_head_kv, head_dim = heads
    tokens, merges, types = vocabulary(arch)
    writer.add_name(f"tiny {arch}")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(n_embd)
    writer.add_block_count(2)
    writer.add_feed_forward_length(n_ff)
    writer.add_head_count(n_head)
    writer.add_head_count_kv(n_head_kv)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(1000000.0 if arch == "qwen2" else 10000.0)
    if arch == "llama":
        writer.add_rope_dimension_count(head_dim)
        writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if arch == "qwen2" else "smollm")
    writer.add_token_list(tokens)
    writer.add_token_merges(merges)
    writer.add_token_types(types)
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    return len(tokens)


def write_model(path, name):
    arch, heads, tied, types = MODELS[name]
    n_head, n_head_kv, head_dim = heads
    n_embd, n_ff = n_head * head_dim, 256
    random = np.random.RandomState(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))
    writer = GGUFWriter(path, arch)
    n_vocab = write_metadata(writer, arch, heads, n_embd, n_ff)
    turn = 0

    def matrix(tensor, n_rows, n_columns, deviation=None):
        nonlocal turn
        type_ = types[turn % len(types)]
        turn += 1
        data = draw_matrix(random, type_, n_rows, n_columns, deviation or n_columns**-0.5)
        writer.add_tensor(f"{tensor}.weight", data, raw_dtype=type_)

    def vector(tensor, n, mean, deviation):
        writer.add_tensor(tensor, (mean + deviation * random.standard_normal(n)).astype(np.float32))

    # The embedding and a tied head share one matrix: a deviation of 0.1 keeps the logits near unit size.
    matrix("token_embd", n_vocab, n_embd, 0.1)
    for i in range(2):
        vector(f"blk.{i}.attn_norm.weight", n_embd, 1.0, 0.1)
        vector(f"blk.{i}.ffn_norm.weight", n_embd, 1.0, 0.1)
        for letter, n in (("q", n_head), ("k", n_head_kv), ("v", n_head_kv)):
            matrix(f"blk.{i}.attn_{letter}", n * head_dim, n_embd, n_embd**-0.5)
            if arch == "qwen2":
                vector(f"blk.{i}.attn_{letter}.bias", n * head_dim, 0.0, 0.5)
        matrix(f"blk.{i}.attn_output", n_embd, n_head * head_dim)
        for gate in ("gate", "up"):
            matrix(f"blk.{i}.ffn_{gate}", n_ff, n_embd)
        matrix(f"blk.{i}.ffn_down", n_embd, n_ff)
    vector("output_norm.weight", n_embd, 1.0, 0.1)
    if not tied:
        matrix("output", n_vocab, n_embd)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    digests = {name: write_model(out / f"{name}.gguf", name) for name in sys.argv[2:] or MODELS}
    print(json.dumps(digests, indent=1))


if __name__ == "__main__":
    main()
