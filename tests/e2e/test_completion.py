# SPDX-License-Identifier: MIT
"""R51, R60, R62, R64, R65, R68, R70 to R71 with the real model: what the items look like."""
import os

import pytest
from client import end_of, lines_of, units

URI = "file:///items.py"
INLINE, LIST = "textDocument/inlineCompletion", "textDocument/completion"
TEXTS = {
    "line": ("def add(a, b):\n    return ", ""), "block": ("def mean(values):\n    ", "\n\n\nprint(mean([1, 2]))\n"), "bracket": ("import os\nprint(os.path.join(", ")\n"),
    "word": ("import os\nname = os.pa", "\n"), "astral": ("s = '\U0001f600'; n = len(", ")\n"), "crlf": ("class A:\r\n    def f(self):\r\n        ", "\r\n\r\n"),
    "empty": ("", ""), "generic": ("fn main() {\n    let x = ", "\n}\n"),
}


def units_to(text, at, encoding):
    """Characters of the line before `at` units."""
    for i in range(len(text) + 1):
        if units(text[:i], encoding) == at:
            return i
    raise AssertionError(f"unit {at} of {text!r} is no character start")


def check_edit(before, after, encoding, r, inserted, filters):
    """The rules for ranges, and the document as an editor would have it."""
    cursor, whole = end_of(before, encoding), before + after
    assert r["start"]["line"] == r["end"]["line"] == cursor["line"]
    assert r["start"]["character"] <= cursor["character"] <= r["end"]["character"]
    line = lines_of(whole)[cursor["line"]]
    a, b = (units_to(line, r[k]["character"], encoding) for k in ("start", "end"))
    assert any(t.startswith(line[a:b]) for t in filters + [inserted])
    assert inserted.strip()
    new = line[:a] + inserted + line[b:]
    assert new.startswith(line[:units_to(line, cursor["character"], encoding)])  # what stands before the cursor stays
    return new


@pytest.fixture(params=["utf-16", "utf-8", "utf-32"])
def encoded(request, start, model):
    client = start(model)
    client.start({"general": {"positionEncodings": [request.param]}, "textDocument": {"completion": {"completionItem": {
        "insertTextModeSupport": {"valueSet": [1, 2]}}}}})
    return client, request.param


def test_items_in_every_encoding(encoded):
    client, encoding = encoded
    shown = 0
    for name, (before, after) in TEXTS.items():
        uri = f"file:///{name}.py"
        client.open(uri, before + after, language="rust" if name == "generic" else "python")
        at = end_of(before, encoding)
        inline, menu = client.complete(uri, at), client.complete(uri, at, method=LIST)
        assert len(inline) == len(menu) <= 1, name
        for item, entry in zip(inline, menu):
            shown += 1
            new = check_edit(before, after, encoding, item["range"], item["insertText"], [item.get("filterText", "")])
            assert new == check_edit(before, after, encoding, entry["textEdit"]["range"], entry["textEdit"]["newText"], [entry["filterText"]])
            assert entry["label"] and "\n" not in entry["label"] and entry["insertTextMode"] == 1
            if name == "crlf":
                assert "\n" not in item["insertText"].replace("\r\n", "")
    assert shown >= 4


def test_the_menu_keeps_the_typed_word(served):
    before = "import os\nname = os.pa"
    served.open(URI, before)
    answer = served.wait(served.ask(URI, end_of(before), method=LIST))["result"]
    assert answer["isIncomplete"] is True
    for item in answer["items"]:
        assert item["textEdit"]["newText"].startswith("pa") and item["filterText"].startswith("pa")
        assert "insertTextMode" not in item  # this client did not say that it knows it


def test_text_of_the_open_document_not_of_the_disk(served, tmp_path):
    path = tmp_path / "disk.py"
    path.write_text("x = 1\n" * 100)
    uri, before = path.as_uri(), "def add(a, b):\n    return "
    served.open(uri, before)
    on_disk = served.complete(uri, end_of(before))
    served.open("file:///nowhere.py", before)
    assert served.complete("file:///nowhere.py", end_of(before)) == on_disk


@pytest.mark.parametrize("kind", [1, 2, 99])
def test_kinds_of_trigger(served, kind):
    before = "def add(a, b):\n    return "
    served.open(URI, before)
    assert len(served.complete(URI, end_of(before), kind)) == 1


def test_selected_menu_item(served):
    before = "import os\nprint(os.pa"
    served.open(URI, before)
    r = {"start": {"line": 1, "character": 9}, "end": {"line": 1, "character": 11}}
    params = {"textDocument": {"uri": URI}, "position": end_of(before), "context": {"triggerKind": 1}}
    plain = served.complete(URI, end_of(before))
    for selected in ("pa", "zzz", plain[0]["insertText"] if plain else ""):
        context = {"triggerKind": 1, "selectedCompletionInfo": {"range": r, "text": selected}}
        for item in served.items(served.call(INLINE, {**params, "context": context})):
            assert item["range"] == r and item["insertText"].startswith(selected)


def test_missing_model(ready):
    """Null, one message with the reason and the fix, and a server that lives on."""
    ready.open(URI, "def add(a, b):\n    return ")
    for _ in range(5):
        assert ready.wait(ready.ask(URI, {"line": 1, "character": 11}))["result"] is None
    shown = ready.notes("window/showMessage")
    assert len(shown) == 1 and shown[0]["type"] == 1
    assert "/nonexistent/model.gguf" in shown[0]["message"] and "fetch-model" in shown[0]["message"]
    assert ready.shutdown() == 0


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_broken_model(start, tmp_path, content):
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    client = start(str(path))
    client.start({"window": {"workDoneProgress": True}})
    client.open(URI, "x = ")
    assert client.wait(client.ask(URI, {"line": 0, "character": 4}))["result"] is None
    client.wait_for(lambda: client.notes("window/showMessage"))
    client.ping()
    assert len(client.notes("window/showMessage")) == 1
    assert "broken.gguf" in client.notes("window/showMessage")[0]["message"]


def test_requests_while_the_model_loads(served):
    before = "def add(a, b):\n    return "
    served.open(URI, before)
    assert served.items(served.wait(served.ask(URI, end_of(before))))


def test_the_server_keeps_no_descriptor_of_a_document(served, tmp_path):
    served.open("file:///proc/self/environ", "x = ")
    served.complete("file:///proc/self/environ", {"line": 0, "character": 4})
    names = [os.readlink(f"/proc/{served.proc.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{served.proc.pid}/fd")]
    assert not any("environ" in n for n in names)
