#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/model/bpe_qwen2.gguf and bpe_smollm.gguf (vocabularies of 600 tokens, trained on tests/data/py by the `tokenizers`
library) and bpe_cases.txt: texts and the ids that the library gives them, one case a line as
    <vocabulary> <text in hex> <id> <id> ...

    python3 tools/oracle/make_bpe_cases.py
"""
import json
import pathlib
import random
import sys

from make_gguf_seeds import file, pair, tokenizer
from reference import tokenizer_from_gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPECIALS = ["<|endoftext|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]
TEXTS = [
    "def add(a, b):\n    return a + b\n", "don't I'VE you'Re he'LL she'd it'S 'twas 'ſo", "x = 12345 + 0x1F - 3.14e-10", "a  b   c    d\t\te \n \n\n  f\r\n\r\ng",
    "   ", "\n", " \n \r ", "trailing   ", "   leading", "  9  9 9", "é\u0301 naïve café ÅNGSTRÖM", "中文字符，测试。", "हिन्दी ١٢٣ ½ ² Ⅷ", "😀👩\u200d👩\u200d👧 emoji", "a\u00a0b\u3000c\u2028d\u0085e",
    "(self._x[0]['key']!=None)//2**3", "!!!???...\n\n---\r\nx", "_private __dunder__ snake_case CamelCase", "<|endoftext|> <|fim_prefix|>", "\x00\x01\x1c\x7f", "'", "''''", "'s's'S",
    "\U00011de0\U00016ff4 \U0001e4d0", "tab\tthen\ttabs\t\t", "1st 2nd 3rd v1.2.3", "====================", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]


def letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 324))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def train(pre):
    # Trained without the pre-tokeniser's rules on purpose: merges across words, blanks and digits show where a wrong piece begins.
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre == "smollm")
    files = [str(p) for p in sorted((ROOT / "tests/data/py").glob("*.py"))]
    t.train(files, trainers.BpeTrainer(vocab_size=592, initial_alphabet=letters(), show_progress=False, max_token_length=12))
    merges = [" ".join(m) if isinstance(m, list) else m for m in json.loads(t.to_str())["model"]["merges"]]
    assert len({m.replace(" ", "") for m in merges}) == len(merges)
    return merges[: 592 - 256]


def torture():
    random.seed(11)
    some = list("aZé'sStTlLeErRvVdDmM019²½ \t\n\r\u00a0\u3000.,_(ſß中\u0301😀")
    return ["".join(random.choice(some) for _ in range(60)) for _ in range(40)]


def main():
    out = ROOT / "tests/model"
    lines = []
    for pre in ("qwen2", "smollm"):
        path = out / f"bpe_{pre}.gguf"
        specials = SPECIALS if pre == "qwen2" else ["<|endoftext|>", "<|im_end|>", "<repo_name>", "<file_sep>"]
        pairs = tokenizer(pre, specials, letters(), train(pre), eos="<|im_end|>", bos="<|endoftext|>")
        path.write_bytes(file(pairs))
        oracle = tokenizer_from_gguf(str(path))
        for text in TEXTS + torture():
            ids = oracle.encode(text, add_special_tokens=False).ids
            lines.append(f"{pre} {text.encode().hex()} {' '.join(map(str, ids))}\n")
    (out / "bpe_cases.txt").write_text("".join(lines))
    print(f"{len(lines)} cases", file=sys.stderr)


main()
