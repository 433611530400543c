# SPDX-License-Identifier: MIT
"""R19, R20, R53 to R59: cancelling, superseding, order. That each request is answered once is checked as each client closes."""
import time

import pytest
from client import LONG, SLOW, ask_params, call, change_params, end_of, note

A, B = "file:///a.py", "file:///b.py"
METHODS = ["textDocument/inlineCompletion", "textDocument/completion"]


@pytest.fixture
def loaded(served):
    text = "def add(a, b):\n    return "
    served.open("file:///warm.py", text)
    assert served.complete("file:///warm.py", end_of(text)), "the model gives no completion at all"
    return served


def slow_text(tag):
    """Some seconds of prefill, new for each tag."""
    return f"# {tag}\n" + LONG + "def last(value):\n    total = "


def test_cancel_of_a_queued_request(loaded):
    loaded.open(A, slow_text("running"))
    loaded.open(B, slow_text("queued"))
    running, queued = loaded.ask(A, end_of(slow_text("running"))), loaded.ask(B, end_of(slow_text("queued")))
    loaded.notify("$/cancelRequest", {"id": queued})
    assert loaded.wait(queued)["error"]["code"] == -32800
    assert str(running) not in loaded.responses  # the queued one did not wait for it
    loaded.notify("$/cancelRequest", {"id": running})
    assert loaded.wait(running)["error"]["code"] == -32800


def test_cancel_of_a_running_request(loaded):
    took = []
    for i in range(5):
        loaded.open(A, slow_text(i))
        id = loaded.ask(A, end_of(slow_text(i)))
        time.sleep(0.05 * (i + 1))
        begin = time.monotonic()
        loaded.notify("$/cancelRequest", {"id": id})
        assert loaded.wait(id)["error"]["code"] == -32800
        took.append(time.monotonic() - begin)
    assert min(took) < 0.05 * SLOW
    assert max(took) < 1 * SLOW


def test_cancel_of_nothing(loaded):
    text = "x = "
    loaded.open(A, text)
    done = loaded.ask(A, end_of(text))
    loaded.wait(done)
    running_text = slow_text("alive")
    loaded.open(B, running_text)
    running = loaded.ask(B, end_of(running_text))
    for params in ({"id": done}, {"id": 99999}, {"id": str(running)}, {"id": None}, {"id": [running]}, {}, None, []):
        loaded.notify("$/cancelRequest", params)
    assert "result" in loaded.wait(running)


@pytest.mark.parametrize("method", METHODS)
def test_a_newer_automatic_request_supersedes(loaded, method):
    text = slow_text(method)
    loaded.open(A, text)
    ids = [loaded.ask(A, end_of(text), 2, method) for _ in range(5)]
    for id in ids[:-1]:
        assert loaded.wait(id, 5)["result"] is None
    assert str(ids[-1]) not in loaded.responses
    assert loaded.items(loaded.wait(ids[-1]))


def test_what_is_not_superseded(loaded):
    """Other documents, explicit requests, and the other method at the same place."""
    text = "def add(a, b):\n    return "
    loaded.open(A, text)
    loaded.open(B, text)
    ids = [loaded.ask(A, end_of(text), 1), loaded.ask(A, end_of(text), 1), loaded.ask(B, end_of(text), 2), loaded.ask(A, end_of(text), 2),
           loaded.ask(A, end_of(text), 2, METHODS[1])]
    assert all(loaded.items(loaded.wait(id)) for id in ids)


def test_a_change_does_not_cancel(loaded):
    text = "def add(a, b):\n    return "
    loaded.open(A, text)
    alone = loaded.complete(A, end_of(text))
    id = loaded.request(METHODS[0], ask_params(A, end_of(text)))
    loaded.notify("textDocument/didChange", change_params(A, 2, {"text": "gone"}))
    assert loaded.items(loaded.wait(id)) == alone  # of its own snapshot
    id = loaded.ask(A, end_of("gone"))
    loaded.notify("textDocument/didClose", {"textDocument": {"uri": A}})
    assert "result" in loaded.wait(id)


def test_requests_see_every_change_before_them(ready, log_lines):
    """1,000 times change and request in one write. The log tells which text each request was asked on."""
    ready.open(A, "")
    for i in range(1, 1001):
        at = {"line": 0, "character": i - 1}
        change = note("textDocument/didChange", change_params(A, i, {"range": {"start": at, "end": at}, "text": "x"}))
        ready.send(change, call(i + 10000, METHODS[i % 2], ask_params(A, {"line": 0, "character": i})))
    for i in range(1, 1001):
        assert ready.wait(i + 10000)["result"] is None  # there is no model
    seen = {line["id"]: (line["document_version"], line["document_bytes"]) for line in log_lines()}
    assert seen == {i + 10000: (i, i) for i in range(1, 1001)}


def test_other_methods_are_answered_during_a_generation(loaded):
    text = slow_text("loop")
    loaded.open(A, text)
    id = loaded.ask(A, end_of(text))
    took = []
    while str(id) not in loaded.responses and len(took) < 50:
        begin = time.monotonic()
        loaded.ping()
        took.append(time.monotonic() - begin)
        time.sleep(0.01)
    assert len(took) > 5
    assert sorted(took)[len(took) // 2] < 0.02 * SLOW
    loaded.notify("$/cancelRequest", {"id": id})
    loaded.wait(id)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change, field", [
    ({"textDocument": None}, "textDocument"), ({"textDocument": {}}, "textDocument.uri"), ({"textDocument": {"uri": 5}}, "textDocument.uri"),
    ({"position": None}, "position"), ({"position": {"line": -1, "character": 0}}, "position.line"), ({"position": {"line": "0", "character": 0}}, "position.line"),
    ({"position": {"line": 0}}, "position.character"), ({"position": {"line": 0.5, "character": 0}}, "position.line"), ({"context": 7}, "context"),
])
def test_wrong_params_are_named(ready, log_lines, method, change, field):
    ready.open(A, "x")
    answer = ready.call(method, {**ask_params(A, {"line": 0, "character": 0}), **change})
    assert answer["error"]["code"] == -32602 and field in answer["error"]["message"]
    assert [line["outcome"] for line in log_lines()] == ["invalid"]


@pytest.mark.parametrize("params", [5, "x", True, None, [], [1]])
def test_params_of_the_wrong_shape(ready, params):
    ready.send({"jsonrpc": "2.0", "id": "p", "method": METHODS[0], "params": params})
    assert ready.wait("p")["error"]["code"] == -32602
    ready.send({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params})
    ready.send({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": params})
    ready.ping()


def test_documents_in_turn_keep_their_answers(loaded):
    texts = {A: "class Circle:\n    radius = 1\n\nshape = Circle()\nprint(shape.", B: "class Bill:\n    amount = 250\n\nshape = Bill()\nprint(shape."}
    alone = {}
    for uri, text in texts.items():
        loaded.open(uri, text)
        alone[uri] = loaded.complete(uri, end_of(text))
    ids = [(uri, loaded.ask(uri, end_of(texts[uri]))) for _ in range(4) for uri in texts]
    for uri, id in ids:
        assert loaded.items(loaded.wait(id)) == alone[uri]
