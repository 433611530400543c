#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of tests/fuzz/corpus/gguf: small whole GGUF files with a tokenizer, and a few broken ones.

    python3 tools/oracle/make_gguf_seeds.py tests/fuzz/corpus/gguf
"""
import pathlib
import struct
import sys

U8, U32, I32, F32, BOOL, STR, ARRAY, U64, F64 = 0, 4, 5, 6, 7, 8, 9, 10, 12
FORMS = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", F64: "<d"}


def string(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    return string(v) if kind == STR else struct.pack(FORMS[kind], v)


def pair(key, kind, v):
    if isinstance(v, list):
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(value(kind, x) for x in v)
    return string(key) + struct.pack("<I", kind) + value(kind, v)


def tensor(name, dims, kind, offset):
    return string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def file(pairs, tensors=(), n_data=0, version=3, align=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % align) + bytes(i % 251 for i in range(n_data))


def alphabet():
    """the character that byte-level BPE writes for each byte"""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 324))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def tokenizer(pre, specials, letters, merges, **ids):
    tokens = letters + [m.replace(" ", "") for m in merges] + specials
    types = [1] * (len(tokens) - len(specials)) + [3] * len(specials)
    out = [pair("tokenizer.ggml.model", STR, "gpt2"), pair("tokenizer.ggml.pre", STR, pre), pair("tokenizer.ggml.tokens", STR, tokens),
           pair("tokenizer.ggml.token_type", I32, types), pair("tokenizer.ggml.merges", STR, merges)]
    return out + [pair(f"tokenizer.ggml.{key}_token_id", U32, tokens.index(text)) for key, text in ids.items()]


def seeds():
    merges = ["Ġ Ġ", "i n", "Ġ t", "d e", "de f", "Ġ in", "ĠĠ ĠĠ", "Ġt h"]
    fim = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|endoftext|>"]
    few = [c for c in "abcdefinth0123456789()_:.'Ġ"] + ["Ċ", "č"]
    data = [tensor("a.weight", (32, 2), 0, 0), tensor("b.weight", (32, 3), 8, 256)]
    yield "empty-tables", file([])
    yield "kinds", file([pair("general.architecture", STR, "llama"), pair("general.alignment", U32, 64), pair("llama.context_length", U64, 256),
                         pair("llama.rope.freq_base", F32, 1e4), pair("x.f64", F64, 0.5), pair("x.flag", BOOL, 1),
                         pair("x.flags", BOOL, [0, 1]), pair("x.bytes", U8, [1, 2, 3])], data, 256 + 102, align=64)
    yield "version2", file([pair("general.name", STR, "v2")], data, 256 + 102, version=2)
    yield "qwen2", file(tokenizer("qwen2", fim, few, merges, eos="<|endoftext|>"), data[:1], 256)
    yield "smollm", file(tokenizer("smollm", ["<|endoftext|>", "<file_sep>"], few, merges, eos="<|endoftext|>", fim_sep="<file_sep>"))
    yield "all-bytes", file(tokenizer("qwen2", fim, alphabet(), merges, eos="<|endoftext|>", bos="<|endoftext|>"))
    yield "bad-merge", file(tokenizer("smollm", [], few, merges + ["q z"])[:-1] + [pair("tokenizer.ggml.merges", STR, ["q z"])])
    yield "wrapping-dims", file([], [tensor("a", (32, 2**59), 0, 0)], 64)


def main(folder):
    for name, content in seeds():
        (pathlib.Path(folder) / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
