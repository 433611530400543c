# SPDX-License-Identifier: MIT
"""R34 to R45, R49, R50: the server's text is the editor's text. The oracle is didSave with text: a difference is logged as a resync."""
import random

import pytest
from client import SLOW, lines_of, units

URI = "file:///sync.py"
ENCODINGS = ["utf-16", "utf-8", "utf-32"]


def span(l1, c1, l2, c2):
    return {"start": {"line": l1, "character": c1}, "end": {"line": l2, "character": c2}}


def start(bare, encodings):
    return bare.start({"general": {"positionEncodings": encodings}})["capabilities"]["positionEncoding"]


@pytest.mark.parametrize("offered, chosen", [
    (["utf-8", "utf-16", "utf-32"], "utf-8"), (["utf-32", "utf-8", "utf-16"], "utf-32"), (["utf-16"], "utf-16"), (["utf-7", "utf-8"], "utf-8"),
    (["utf-7"], "utf-16"), ([], "utf-16"),
])
def test_position_encoding(bare, offered, chosen):
    assert start(bare, offered) == chosen


def test_the_oracle_sees_a_difference(ready):
    ready.open(URI, "abc")
    assert ready.text_is(URI, "abc")
    assert not ready.text_is(URI, "abd")  # and takes the saved text over
    assert ready.text_is(URI, "abd")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_edits_beside_astral_characters(bare, encoding):
    assert start(bare, [encoding]) == encoding
    bare.open(URI, "a\U0001f600b\u00e9\n")
    at = [units("a", encoding), units("a\U0001f600", encoding), units("a\U0001f600b\u00e9", encoding)]
    bare.change(URI, 2, *[{"range": span(0, c, 0, c), "text": "|"} for c in reversed(at)])
    assert bare.text_is(URI, "a|\U0001f600|b\u00e9|\n")
    bare.change(URI, 3, {"range": span(0, at[0] + 1, 0, at[1] + 1), "text": ""})
    assert bare.text_is(URI, "a||b\u00e9|\n")


def test_inside_a_pair_is_the_character_start(ready):
    ready.open(URI, "\U0001f600x")
    ready.change(URI, 2, {"range": span(0, 1, 0, 1), "text": "|"})
    assert ready.text_is(URI, "|\U0001f600x")


@pytest.mark.parametrize("change, text", [
    (span(0, 99, 0, 99), "ab|\ncd\n"), (span(0, 2**31 - 1, 0, 2**31 - 1), "ab|\ncd\n"), (span(9, 0, 9, 0), "ab\ncd\n|"),
    (span(1, 1, 2**31 - 1, 2**31 - 1), "ab\nc|"), (span(0, 2, 2, 0), "ab|"), (span(0, 1, 0, 0), "|b\ncd\n"), (span(1, 2, 3, 0), "ab\ncd|"),
])
def test_positions_are_clamped(ready, change, text):
    ready.open(URI, "ab\ncd\n")
    ready.change(URI, 2, {"range": change, "text": "|"})
    assert ready.text_is(URI, text)


def test_line_ends(ready):
    text = "a\r\nb\rc\nd\u2028e\x0cf\x0bg\x85h"
    ready.open(URI, text)
    ready.change(URI, 2, {"range": span(3, 8, 3, 99), "text": "|"}, {"range": span(2, 0, 2, 0), "text": "2"}, {"range": span(1, 9, 1, 9), "text": "1"},
                 {"range": span(0, 1, 0, 99), "text": "0"})
    assert ready.text_is(URI, "a0\r\nb1\r2c\nd\u2028e\x0cf\x0bg\x85|")


def test_byte_order_mark_is_kept(ready):
    ready.open(URI, "\ufeffab")
    ready.change(URI, 2, {"range": span(0, 1, 0, 1), "text": "|"})
    assert ready.text_is(URI, "\ufeff|ab")


def test_changes_in_order_and_whole_texts(ready):
    ready.open(URI, "one")
    ready.change(URI, 2, {"range": span(0, 0, 0, 0), "text": "x"}, {"text": "two\n"}, {"range": span(0, 3, 0, 3), "text": "!"},
                 {"range": span(0, 0, 0, 1), "rangeLength": 7000, "text": "T"}, {"range": span(0, 1, 0, 1), "rangeLength": -1, "text": "-"})
    assert ready.text_is(URI, "T-wo!\n")
    ready.change(URI, 3)
    assert ready.text_is(URI, "T-wo!\n")


def test_odd_versions(ready):
    ready.open(URI, "", version=0)
    for i, version in enumerate((5, 5, 3, -1, 2**31, None, "x", 1.0, 10**30)):
        ready.change(URI, version, {"range": span(0, i, 0, i), "text": str(i)})
    assert ready.text_is(URI, "012345678")
    assert sum("version went from" in t for t in ready.texts()) == 1


def test_documents_that_are_not_open(ready):
    ready.change(URI, 2, {"text": "x"})
    ready.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert ready.complete(URI, {"line": 0, "character": 0}) == []
    assert ready.complete(URI, {"line": 0, "character": 0}, method="textDocument/completion") == []
    ready.ping()
    assert sum("not open" in t for t in ready.texts()) == 1
    assert ready.resyncs() == 0


def test_open_twice_and_close_twice(ready):
    ready.open(URI, "one")
    ready.open(URI, "two", version=9)
    assert ready.text_is(URI, "two")
    for _ in range(2):
        ready.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert ready.complete(URI, {"line": 0, "character": 0}) == []


def test_a_change_that_cannot_be_read_makes_the_text_stale_until_a_whole_one_comes(ready):
    ready.open(URI, "one")
    ready.change(URI, 2, {"range": span(-1, 0, 0, 0), "text": "x"})
    ready.ping()
    assert any("contentChanges[0]" in t and "start.line" in t for t in ready.texts())
    assert not ready.text_is(URI, "one")  # taken over by the save, whatever it was
    assert ready.text_is(URI, "one")


@pytest.mark.parametrize("opened, used", [
    ("file:///c%3A/a%20b.py", "file:///C:/a b.py"), ("file:///%C3%A9.py", "file:///\u00e9.py"), ("untitled:Untitled-1", "untitled:Untitled-1"),
    ("file://", "file://"), ("", ""), ("buffer:7", "buffer:7"), ("unsaved://x/1", "unsaved://x/1"),
    ("vscode-notebook-cell:/a.ipynb#W0sZ", "vscode-notebook-cell:/a.ipynb#W0sZ"), ("file:///" + "x" * 1000000, "file:///" + "x" * 1000000),
])
def test_uris(ready, opened, used):
    ready.open(opened, "a")
    ready.change(used, 2, {"range": span(0, 1, 0, 1), "text": "b"})
    assert ready.text_is(opened, "ab")
    assert "textDocument/didSave" not in "".join(ready.texts())


@pytest.mark.parametrize("language", ["", "Python", "rust", "a" * 3000, "p\u00fdthon", None, 5])
def test_languages(ready, language):
    ready.open(URI, "x = 1\n", language=language)
    assert ready.text_is(URI, "x = 1\n")
    assert ready.complete(URI, {"line": 1, "character": 0}) == []


PIECES = ["x", "\n", "\r\n", "\r", "\u00e9", "\U0001f600", "e\u0301", "\t", "def f():\n    pass\n", "\u2028", "\ufeff", "", "(\n"]


def offset(text, line, character, encoding):
    """Plain model of a position: offset in code points."""
    at = 0
    for _ in range(line):
        ends = [(text.find(e, at), len(e)) for e in ("\r\n", "\n", "\r") if text.find(e, at) >= 0]
        if not ends:
            return len(text)
        first = min(ends, key=lambda e: (e[0], -e[1]))
        at = first[0] + first[1]
    while at < len(text) and text[at] not in "\r\n" and character >= units(text[at], encoding):
        character -= units(text[at], encoding)
        at += 1
    return at


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_random_edits_against_a_plain_model(bare, encoding):
    assert start(bare, [encoding]) == encoding
    rng = random.Random(encoding)
    text = "".join(rng.choice(PIECES) for _ in range(60))
    bare.open(URI, text, language="plaintext")
    for version in range(2, 402):
        changes = []
        for _ in range(rng.randrange(1, 4)):
            lines = lines_of(text)
            a, b = ((rng.randrange(len(lines) + 2), rng.randrange(9)) for _ in range(2))
            a, b = sorted((offset(text, *p, encoding), p) for p in (a, b))
            new = "".join(rng.choice(PIECES) for _ in range(rng.randrange(4)))
            changes.append({"range": span(*a[1], *b[1]), "text": new})
            text = text[:a[0]] + new + text[b[0]:]
        bare.change(URI, version, *changes)
        if version % 20 == 0:
            assert bare.text_is(URI, text), f"after version {version}"


def test_large_document(ready):
    """Over 20 MB: in step, but no completions, and one message."""
    text = "x = 1\n" * 3600000
    ready.open(URI, text)
    ready.change(URI, 2, {"range": span(0, 0, 0, 0), "text": "#"})
    for _ in range(2):
        assert ready.wait(ready.ask(URI, {"line": 1, "character": 0}), 60 * SLOW)["result"] is None
    assert ready.text_is(URI, "#" + text)
    shown = [t for t in ready.texts("window/showMessage") if "MB" in t]
    assert len(shown) == 1
