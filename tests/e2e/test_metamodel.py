# SPDX-License-Identifier: MIT
"""The walker finds what it should: without this, a walker that accepts everything would go unseen."""
import pytest
from conftest import meta_model_path

R = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


@pytest.fixture
def walker(meta):
    if not meta:
        pytest.skip(f"{meta_model_path()} is missing (MASKSTORE_SHARED names the folder): server messages are not checked against it")
    return meta


def result(walker, method, value):
    return walker.check_message({"jsonrpc": "2.0", "id": 1, "result": value}, lambda id: method)


def test_good_messages(walker):
    assert result(walker, "textDocument/inlineCompletion", {"items": [{"insertText": "a", "range": R, "filterText": "a"}]}) is None
    assert result(walker, "textDocument/inlineCompletion", None) is None
    assert result(walker, "shutdown", None) is None
    assert walker.check_message({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 3, "message": "a"}}, None) is None
    assert walker.check_message({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "a"}}, None) is None


@pytest.mark.parametrize("method, value", [
    ("textDocument/inlineCompletion", {"items": [{"range": R}]}),
    ("textDocument/inlineCompletion", {"items": [{"insertText": "a", "surprise": 1}]}),
    ("textDocument/inlineCompletion", {"items": [{"insertText": "a", "range": {**R, "start": {"line": -1, "character": 0}}}]}),
    ("textDocument/completion", {"items": []}),
    ("textDocument/completion", {"isIncomplete": True, "items": [{"label": "a", "kind": 99}]}),
    ("initialize", {"capabilities": {"inlineCompletionProvider": 5}}),
    ("shutdown", {}),
])
def test_bad_results(walker, method, value):
    assert result(walker, method, value)


@pytest.mark.parametrize("message", [
    {"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 9, "message": "a"}},
    {"jsonrpc": "2.0", "method": "window/logMessage", "params": {"message": "a"}},
    {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {}},
    {"jsonrpc": "2.0", "method": "$/progress", "params": {"token": 1, "value": {"kind": "begin"}}},
    {"jsonrpc": "2.0", "id": 1, "result": None, "error": {"code": 1, "message": ""}},
    {"id": 1, "result": None},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": ""}},
])
def test_bad_messages(walker, message):
    assert walker.check_message(message, lambda id: "shutdown")
