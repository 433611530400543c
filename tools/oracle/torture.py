# SPDX-License-Identifier: MIT
"""Text that tokenizers get wrong, made from fixed seeds: for the tokenizer's golden tests.

texts(full) gives named Unicode texts; raw() gives bytes that are no valid UTF-8, for the round trip alone.
"""

import random
import unicodedata

SPACES = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    "\u180e\u200b\u2060\ufeff"
)
DIGITS = "0123456789٠١٢٣۴۵६७৮੯௧௨௰௱०๐๑໒༣၄៥᠖０１２𝟎𝟗²³¹₀₁½¾⅓ⅠⅫↂ①⑳〇〡㊿一二百𐄇𒐀"
MARKS = "\u0300\u0301\u0308\u0327\u0345\u0483\u05b0\u064b\u0900\u093e\u094d\u0e31\u200d\ufe0f\u20e3\U000e0100\U0001f3fb"
LETTERS = "aZéßıİſKÅⁿªǅⅎДяאبहกあア漢字가힣각ꙮ𝒜𐐀𠀀𞤀ﬁ"
OTHER = "'\"`_-+*/%=<>()[]{}:;,.!?@#$^&|~\\§€→∑😀👩🏽‍💻🇩🇪\x00\x01\x7f\xad\ue000\U000f0000\U0010ffff\ufffd"
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'rE", "'ve", "'VE", "'m", "'ll", "'lL", "'d", "'ſ", "’s", "''s", "'", "it", " we"]
SPECIAL_TEXTS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<s>", "</s>", "<unk>", "<jupyter_start>", "<empty_output>", "<think>", "<tool_call>",
]  # fmt: skip


def is_bulk(point):
    """Blocks of thousands of like characters, of which a part will do."""
    return 0x3400 <= point < 0xA000 or 0xAC00 <= point < 0xD7A4 or point >= 0x17000


def every_character(full):
    """Each character in contexts that show its class: inside a word, beside digits, after a space, doubled."""
    pieces = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000:
            continue
        assigned = unicodedata.category(chr(point)) != "Cn"
        if not full and ((is_bulk(point) and point % 61) or (not assigned and point % 251)):
            continue
        c = chr(point)
        pieces.append(f"x{c}y {c}{c}7{c}\n'{c} .{c}")
    return "".join(pieces)


def mixture(seed, alphabet, n):
    chooser = random.Random(seed)
    return "".join(chooser.choice(alphabet) for _ in range(n))


def runs(seed, alphabet, n):
    """Characters repeated 1 to 40 times."""
    chooser = random.Random(seed)
    return "".join(chooser.choice(alphabet) * chooser.choice([1, 1, 2, 3, 4, 7, 8, 16, 40]) for _ in range(n))


def texts(full=False):
    code = ["def ", "return", "self.", "    ", "\n", "\r\n", "\n\n", "(", "):", " = ", "0x1F", "3.14", "_a1", "#", "\t"]
    everything = [*SPACES, *DIGITS, *MARKS, *LETTERS, *OTHER, *CONTRACTIONS, *SPECIAL_TEXTS, *code]
    accents = "".join(chr(p) for p in range(0xC0, 0x250))
    return {
        "every_character": every_character(full),
        "spaces": mixture(1, [*SPACES, *SPACES, "a", "1", ".", "é"], 60000),
        "line_ends": mixture(2, ["\r", "\n", "\r\n", "\n\r", " ", "\t", "x", ")", "7"], 60000),
        "space_runs": runs(3, [" ", " ", "\n", "\t", "\r\n", "a", ";", "\u3000", "\xa0"], 20000),
        "digits": mixture(4, [*DIGITS, " ", "a", ".", "-"], 60000),
        "marks": mixture(5, [*MARKS, *LETTERS, " ", "1"], 60000),
        "letters": mixture(6, [*LETTERS, " ", "'"], 60000),
        "contractions": mixture(7, [*CONTRACTIONS, " ", "\n", "x", "1", "ſ"], 60000),
        "special_texts": mixture(8, [*SPECIAL_TEXTS, " ", "\n", "<|", "|>", "<", "x"], 20000),
        "composed": accents + unicodedata.normalize("NFD", accents) + unicodedata.normalize("NFKD", accents),
        "long_runs": "".join(c * 20000 + "|" for c in [" ", "a", "\n", "1", "=", "\t", "é", "漢", "\r", "ab", " a", "'s"]),
        "everything": mixture(9, everything, 250000),
        "empty": "",
    }


def raw():
    chooser = random.Random(10)
    whole = "aé漢😀\n ".encode()
    broken = [
        bytes(chooser.randrange(256) for _ in range(100000)),
        bytes(range(256)) * 8,
        b"".join(whole[: chooser.randrange(len(whole))] + b" x" for _ in range(5000)),
        b"\xc0\x80 \xe0\x80\x80 \xf0\x80\x80\x80 \xf8\x88\x80\x80\x80",  # overlong and 5 bytes
        b"\xed\xa0\x80\xed\xb0\x80 \xf4\x90\x80\x80 \xff\xfe\x00 \x80\xbf",  # surrogates, beyond the last plane
        b"def f():\r\n\treturn '\xe9\xe8'  # latin-1\r\n" * 100,
        b"\xf0\x9f\x98",
        b"\x00",
    ]
    return {f"raw_{i}": data for i, data in enumerate(broken)}
