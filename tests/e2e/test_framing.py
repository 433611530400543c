# SPDX-License-Identifier: MIT
"""R1 to R16 through the pipes of a real process."""
import json
import os
import time

import pytest
from client import SLOW, Client, call, frame, note, open_params

PING = json.dumps(call("ping", "test/ping")).encode()
URI = "file:///framing.py"


def session():
    return b"".join(map(frame, (call(1, "initialize", {"processId": None, "capabilities": {}}), note("initialized", {}),
                                note("textDocument/didOpen", open_params(URI, "x = '\U0001f600'\n")), call(2, "shutdown"), note("exit"))))


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100, 10**6])
def test_frames_cut_anywhere(bare, step):
    data = session()
    bare.methods = {"1": ["initialize"], "2": ["shutdown"]}
    for at in range(0, len(data), step):
        bare.raw(data[at:at + step])
        if step < 100:
            time.sleep(0.0002)  # lets the server see the pieces
    assert bare.status() == 0
    assert bare.wait_for(lambda: bare.ended) and [m["id"] for m in bare.messages if "id" in m] == [1, 2]


@pytest.mark.parametrize("head", [
    b"content-length: %d\r\n\r\n", b"CONTENT-LENGTH:%d\r\n\r\n", b"Content-Length: \t %d  \r\n\r\n", b"X-Other: a: b\r\nContent-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
    b"Content-Type: application/vscode-jsonrpc; charset=UTF8\r\nContent-Length: %d\r\n\r\n",
])
def test_header_forms(ready, head):
    ready.remember(call("ping", "test/ping"))
    ready.raw(head % len(PING) + PING)
    assert ready.wait("ping")["error"]["code"] == -32601


def test_foreign_charset_is_an_error_with_id_null(ready):
    ready.raw(b"Content-Type: text/plain; charset=latin1\r\nContent-Length: %d\r\n\r\n" % len(PING) + PING)
    answer = ready.wait(None)
    assert answer["error"]["code"] == -32600 and "charset" in answer["error"]["message"]
    ready.ping()


@pytest.mark.parametrize("head", [
    b"Content-Length: a\r\n\r\n{}", b"Content-Length: -5\r\n\r\n{}", b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    b"Content-Length: 900000000000\r\n\r\n{}", b"Content-Type: text/plain\r\n\r\n{}", b'{"jsonrpc":"2.0"}\r\n\r\n',
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"A" * 1000000 + b"\r\n\r\n",
])
def test_broken_headers_end_the_process_with_a_reason(ready, head):
    ready.ping()
    ready.raw(head)
    assert ready.status() == 1
    assert b"not a stream of LSP messages" in ready.stderr
    assert any("not a stream of LSP messages" in t for t in ready.texts())
    assert len(ready.stderr) < 1000


def test_message_over_the_limit_is_read_over(ready):
    n = (64 << 20) + 1
    ready.raw(b"Content-Length: %d\r\n\r\n" % n + b" " * n)
    assert "limit" in ready.wait(None)["error"]["message"]
    assert any("limit" in t for t in ready.texts())
    with open(f"/proc/{ready.proc.pid}/status") as f:
        peak_kb = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    assert peak_kb < 60000 * (10 if SLOW > 1 else 1)
    ready.ping()


@pytest.mark.parametrize("body, code", [
    (b'{"jsonrpc": "2.0", "id": 7, "method": ', -32700), (b"", -32700), (b"nonsense", -32700), (b"[" * 100000 + b"]" * 100000, -32700),
    (b'[{"jsonrpc":"2.0","id":8,"method":"test/ping"}]', -32600), (b"[]", -32600), (b"42", -32600), (b'"x"', -32600), (b"null", -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"test/ping"}', -32600), (b'{"jsonrpc":"2.0","id":' + b"9" * 40 + b',"method":"test/ping"}', -32600),
])
def test_bad_bodies(ready, body, code):
    ready.raw(frame(body))
    assert ready.wait(None)["error"]["code"] == code
    ready.ping()


@pytest.mark.parametrize("id", ["1", "{a-b-c}", "", 0, -1, 2147483647, "\u00e9\U0001f600", "a\u0000b"])
def test_ids_come_back_as_they_were(ready, id):
    # The frame that holds an astral character also shows that our Content-Length counts bytes: the reader is strict.
    ready.request("test/ping", id=id)
    assert ready.wait(id)["id"] == id and type(ready.wait(id)["id"]) is type(id)


def test_nothing_else_reaches_standard_output(ready):
    ready.ping()
    fds = {fd: os.readlink(f"/proc/{ready.proc.pid}/fd/{fd}") for fd in (0, 1, 2)}
    assert fds[1] == fds[2]


@pytest.mark.parametrize("data", [b"Content-Le", b"Content-Length: 5\r\n", b"Content-Length: 50\r\n\r\n" + PING[:49]])
def test_end_of_input_in_a_frame(bare, data):
    bare.raw(data)
    bare.proc.stdin.close()
    start = time.monotonic()
    assert bare.status() == 1
    assert time.monotonic() - start < 1 * SLOW
    assert not bare.messages


def test_a_client_that_reads_nothing(binary, env):
    """It cannot keep us from reading: all of its 100 MB are taken, or we end with a reason."""
    client = Client([binary, "--stdio", "--model", "/nonexistent"], env=env)
    client.may_be_unanswered = True
    blocked = client.arrived  # the reader stops at its first message while we hold this
    with blocked:
        big = "i" * 1000000
        try:
            for i in range(100):
                client.raw(frame(call(f"{i}{big}", "test/ping")))
        except BrokenPipeError:
            pass
        status = client.status(20)
    client.wait_for(lambda: client.ended, 20)
    client.junk = None  # the last frame was cut when the process ended
    client.close()
    assert status == 1 and b"reads nothing" in client.stderr


def test_the_client_closes_its_end(binary, env):
    client = Client([binary, "--stdio", "--model", "/nonexistent"], env=env)
    client.may_be_unanswered = True
    client.start()
    # Closing the descriptor itself: a buffered reader in another thread holds the Python object.
    read_end = client.proc.stdout.fileno()
    null = os.open(os.devnull, os.O_RDONLY)
    client.request("test/ping")
    client.wait(client.last_id)
    os.dup2(null, read_end)
    os.close(null)
    try:
        for i in range(200):
            client.raw(frame(call(i + 100, "test/ping")))
            time.sleep(0.005)
    except BrokenPipeError:
        pass
    assert client.status() == 1
    client.junk = None
    client.close()


@pytest.mark.parametrize("escape, text", [
    (b"a\\u0000b", "a\0b"), (b"\\ud83d", "\ufffd"), (b"\\udc00x", "\ufffdx"), (b"\\ud83d\\ude00", "\U0001f600"), (b"\xff\xfe", "??"),
    (b"\xed\xa0\x80", "\ufffd"),
])
def test_texts_that_json_libraries_refuse(ready, escape, text):
    """The change is applied, and one unit of the client is one unit here: the next edit lands where it should."""
    ready.open(URI, "ab\n")
    ready.raw(frame(b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"' + URI.encode() + b'","version":'
                    b'99999999999999999999},"contentChanges":[{"range":{"start":{"line":0,"character":1},"end":{"line":0,"character":1}},"text":"'
                    + escape + b'"}]}}'))
    assert ready.text_is(URI, f"a{text}b\n")
    at = {"line": 0, "character": 1 + len(text.encode("utf-16-le")) // 2}
    ready.change(URI, 3, {"range": {"start": at, "end": at}, "text": "|"})
    assert ready.text_is(URI, f"a{text}|b\n")


def test_deep_nesting_leaves_the_text_alone(ready):
    ready.open(URI, "a\n")
    deep = b"[" * 10000 + b"]" * 10000
    ready.raw(frame(b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":' + deep + b"}"))
    assert ready.text_is(URI, "a\n")


def test_large_messages_keep_the_order(ready):
    """5 MB are parsed by a worker; what comes behind them in the same write still comes after them."""
    large = "x = '\U0001f600'\n" * 400000
    at = {"line": 0, "character": 0}
    changes = [note("textDocument/didChange", {"textDocument": {"uri": URI, "version": v},
                                               "contentChanges": [{"range": {"start": at, "end": at}, "text": str(v % 10)}]}) for v in range(2, 50)]
    data = b"".join(map(frame, [note("textDocument/didOpen", open_params(URI, large)), *changes]))
    for i in range(0, len(data), 65536):
        ready.raw(data[i:i + 65536])
    text = "".join(str(v % 10) for v in range(49, 1, -1)) + large
    assert ready.text_is(URI, text)
