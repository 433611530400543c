# SPDX-License-Identifier: MIT
"""What the oracles compare with: paths, the tokenizers library on a GGUF vocabulary, transformers on a GGUF file.

Only load_hf needs torch, transformers and accelerate (tests/requirements-oracle.txt); the rest is used by the
tests in tests/golden too (tests/requirements.txt).
"""

import os
from functools import lru_cache
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskstore"
MODELS = {
    "qwen": CACHE / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "smollm2": CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf",
}

# Qwen2's split, as its tokenizer.json on the hub has it; its NFC normaliser is left out on purpose: a file's bytes
# must come back as they were.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def gguf_fields(path, *keys):
    """The values of these metadata keys, None for absent ones."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    return [reader.fields[key].contents() if key in reader.fields else None for key in keys]


@lru_cache(maxsize=None)
def tokenizer_from_gguf(path):
    """A tokenizers.Tokenizer that knows no special tokens, with the pre-tokeniser of the model family."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokens, merges, pre = gguf_fields(
        path, "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.pre"
    )
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges]))
    if pre == "qwen2":
        split = [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    elif pre == "smollm":
        split = [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    else:
        raise ValueError(f"no oracle for the pre-tokeniser {pre!r}")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def load_hf(path):
    """The model in float32 on the dequantised tensors of the file, eager attention (plain sums, no fused kernel)."""
    import torch
    from transformers import AutoModelForCausalLM

    path = Path(path)
    model = AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    check_config(model.config, path)
    return model.eval()


def check_config(config, path):
    """Stops where the loader and the file disagree on what decides the logits."""
    (arch,) = gguf_fields(path, "general.architecture")
    keys = ["rope.freq_base", "attention.layer_norm_rms_epsilon", "attention.head_count", "attention.head_count_kv"]
    theta, eps, n_head, n_head_kv = gguf_fields(path, *(f"{arch}.{key}" for key in keys))
    rope = getattr(config, "rope_parameters", None) or {}
    got = (rope.get("rope_theta", getattr(config, "rope_theta", None)), config.rms_norm_eps)
    want = (theta if theta is not None else 10000.0, eps)
    for a, b in zip(got, want):
        if a is None or abs(a - b) > 1e-6 * abs(b):
            raise ValueError(f"{path.name}: transformers has (theta, eps) {got}, the file {want}")
    if (config.num_attention_heads, config.num_key_value_heads) != (n_head, n_head_kv):
        raise ValueError(f"{path.name}: head counts differ")
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"{path.name}: unexpected RoPE scaling {rope}")
