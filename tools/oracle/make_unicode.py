#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/model/unicode_table.h: the character classes that the pre-tokenisers need, as runs of code points.

The classes are asked of the `tokenizers` library itself (pip install tokenizers), because its answer is the one to agree with:
its regular expressions (Oniguruma) and its digit splitter (Rust's char::is_numeric) know different versions of Unicode.

    python3 tools/oracle/make_unicode.py > src/model/unicode_table.h
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

LETTER, NUMBER, SPACE, DIGIT = 1, 2, 4, 8
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matching(pattern):
    """the code points that a one-character regular expression matches"""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for i in range(0, len(ALL), 4096):
        for piece, _ in split.pre_tokenize_str("".join(map(chr, ALL[i : i + 4096]))):
            found.update(map(ord, piece))
    return found


def split_off():
    """the code points that the digit splitter cuts out of a word"""
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in ALL if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def runs():
    classes = [(LETTER, matching(r"\p{L}")), (NUMBER, matching(r"\p{N}")), (SPACE, matching(r"\s")), (DIGIT, split_off())]
    out, before = [], None
    for c in range(0x110000):
        bits = sum(bit for bit, members in classes if c in members)
        if bits != before:
            out.append(c << 4 | bits)
            before = bits
    return out


def main():
    table = runs()
    print("// SPDX-License-Identifier: MIT")
    print(f"// Made by tools/oracle/make_unicode.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("#include <stdint.h>\n")
    print("// Runs of code points of one class, ascending: first code point << 4 | class bits (see pretokenize.c).")
    print("static const uint32_t unicode_runs[] = {")
    for i in range(0, len(table), 12):
        print("\t" + " ".join(f"{x:#x}," for x in table[i : i + 12]))
    print("};")


main()
