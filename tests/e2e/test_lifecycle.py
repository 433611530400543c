# SPDX-License-Identifier: MIT
"""R17, R18, R22 to R31: start, end, and what may be said when."""
import os
import signal
import subprocess
import sys
import time

import pytest
from client import LONG, SLOW, Client, ask_params, call, end_of, frame, note

URI = "file:///life.py"


def test_before_initialize(bare):
    assert bare.call("textDocument/inlineCompletion", ask_params(URI, {"line": 0, "character": 0}))["error"]["code"] == -32002
    assert bare.call("shutdown")["error"]["code"] == -32002
    bare.open(URI, "x")
    bare.notify("initialized", {})
    assert bare.call("test/ping")["error"]["code"] == -32002
    bare.start()
    assert not bare.text_is(URI, "x") or not bare.resyncs()  # the early didOpen was dropped
    assert bare.complete(URI, {"line": 0, "character": 0}) == []


def test_nothing_comes_before_the_answer_to_initialize(bare):
    bare.notify("initialized", {})
    bare.open(URI, "x")
    time.sleep(0.3)
    bare.start({"window": {"workDoneProgress": True}, "workspace": {"configuration": True}})
    bare.ping()
    assert bare.messages[0].get("id") == 1 and "result" in bare.messages[0]


def test_exit_before_initialize(bare):
    bare.notify("exit")
    assert bare.status() == 1


def test_second_initialize(ready):
    assert ready.call("initialize", {"capabilities": {}})["error"]["code"] == -32600
    ready.ping()


@pytest.mark.parametrize("params", [{"capabilities": {}}, {}, None, {"processId": None, "rootUri": None, "workspaceFolders": None, "capabilities": {}},
                                    {"processId": None, "capabilities": None, "trace": "off", "clientInfo": None, "workspaceFolders": []}])
def test_sparse_initialize(bare, params):
    result = bare.call("initialize", params)["result"]
    assert result["capabilities"]["positionEncoding"] == "utf-16"
    assert result["capabilities"]["textDocumentSync"] == {"openClose": True, "change": 2, "save": {"includeText": True}}
    assert result["capabilities"]["inlineCompletionProvider"] is True
    assert "triggerCharacters" not in result["capabilities"]["completionProvider"]
    assert result["serverInfo"]["name"] == "maskstore" and result["serverInfo"]["version"]
    bare.notify("initialized", {})
    bare.ping()


def test_initialize_does_not_wait_for_the_model(start, model):
    best = 9
    for _ in range(3):
        client = start(model)
        client.wait_for(lambda: client.call("test/ping"))  # the process is up
        begin = time.monotonic()
        client.call("initialize", {"processId": None, "capabilities": {}})
        best = min(best, time.monotonic() - begin)
    assert best < 0.1 * SLOW


@pytest.mark.parametrize("params", ["absent", None, {}, []])
def test_shutdown_and_exit(ready, params):
    message = {"jsonrpc": "2.0", "id": 50, "method": "shutdown"}
    ready.send(message if params == "absent" else {**message, "params": params})
    assert ready.wait(50) == {"jsonrpc": "2.0", "id": 50, "result": None}
    assert ready.call("test/ping")["error"]["code"] == -32600
    assert ready.call("initialize", {"capabilities": {}})["error"]["code"] == -32600
    assert ready.proc.poll() is None
    begin = time.monotonic()
    ready.notify("exit")
    assert ready.status() == 0
    assert time.monotonic() - begin < 1 * SLOW


def test_exit_without_shutdown(ready):
    ready.notify("exit")
    assert ready.status() == 1


def busy(client, uri=URI):
    """A generation is running when this returns."""
    text = LONG + "def last(value):\n    "
    client.open(uri, text)
    client.complete("file:///none.py", {"line": 0, "character": 0})
    id = client.ask(uri, end_of(text))
    time.sleep(0.15 * SLOW)
    return id


@pytest.fixture
def loaded(served):
    """The model is loaded: a first answer came."""
    text = "def add(a, b):\n    return "
    served.open("file:///warm.py", text)
    served.complete("file:///warm.py", end_of(text))
    return served


def test_shutdown_during_a_generation(loaded):
    id = busy(loaded)
    begin = time.monotonic()
    assert "result" in loaded.call("shutdown")
    assert loaded.wait(id).get("result", 0) is None
    assert time.monotonic() - begin < 1 * SLOW
    loaded.notify("exit")
    assert loaded.status() == 0


@pytest.mark.parametrize("how", ["exit", "end of input"])
def test_end_during_a_generation(loaded, how):
    loaded.may_be_unanswered = how == "end of input"
    busy(loaded)
    begin = time.monotonic()
    if how == "exit":
        loaded.notify("exit")
    else:
        loaded.proc.stdin.close()
    assert loaded.status() == 1
    assert time.monotonic() - begin < 1 * SLOW


def test_exit_while_the_model_loads(start, model):
    client = start(model)
    client.start()
    client.open(URI, "x = ")
    id = client.ask(URI, {"line": 0, "character": 4})
    begin = time.monotonic()
    client.notify("exit")
    assert client.status() == 1
    assert time.monotonic() - begin < 1 * SLOW
    client.wait_for(lambda: client.ended)
    assert len(client.responses[str(id)]) == 1


def sleeper():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


@pytest.mark.parametrize("how", ["initialize", "flag"])
def test_death_of_the_editor_is_noticed(start, how):
    """The pipes stay open: another process holds them (here: this one)."""
    editor = sleeper()
    try:
        client = start(flags=[f"--clientProcessId={editor.pid}"] if how == "flag" else [])
        client.call("initialize", {"processId": editor.pid if how == "initialize" else None, "capabilities": {}})
        client.notify("initialized", {})
        time.sleep(1.2)
        client.ping()
        editor.send_signal(signal.SIGKILL)  # not waited for: a zombie is dead too
        assert client.status(5) == 1
    finally:
        editor.kill()
        editor.wait()


@pytest.mark.parametrize("pid", [None, 1, 0, -1, 2**31 - 1, 2**40, "x"])
def test_processes_that_are_not_the_editors(bare, pid):
    """Nothing to watch, not ours to watch, or a pid of another machine: the server stays."""
    bare.call("initialize", {"processId": pid, "capabilities": {}})
    bare.notify("initialized", {})
    time.sleep(1.5)
    bare.ping()


@pytest.mark.parametrize("flags", [["--stdio"], ["--pipe=/tmp/x"], ["--socket=5000"], ["--node-ipc"]])
def test_transport_switches(start, flags):
    client = start(flags=flags)
    client.start()
    assert client.shutdown() == 0


def test_version_and_help(binary):
    for flag in ("--version", "--help"):
        done = subprocess.run([binary, flag], capture_output=True, timeout=10)
        assert done.returncode == 0 and b"maskstore" in done.stdout


def test_unknown_methods(ready):
    for method in ("textDocument/hover", "$/unknown", "workspace/executeCommand", "", "x" * 5000, "textDocument/didOpen"):
        assert ready.call(method, {})["error"]["code"] == -32601
    before = len(ready.messages)
    for method in ("$/unknown", "textDocument/unknown", "workspace/didChangeWatchedFiles", "$/setTrace", "window/workDoneProgress/cancel",
                   "textDocument/didFocus", "textDocument/inlineCompletion", "shutdown", "", "initialized"):
        ready.notify(method, {"value": "off"})
    ready.notify("textDocument/hover", [1])
    ready.ping()
    assert len(ready.messages) == before + 1


def test_responses_to_nobody(ready):
    for id in (77, "x", None, -1, 0):
        ready.send({"jsonrpc": "2.0", "id": id, "result": None}, {"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}})
    ready.ping()


def test_id_in_use(start, model):
    client = start(model)
    client.start()
    client.open(URI, LONG + "x = ")
    first = client.ask(URI, end_of(LONG + "x = "))
    client.request("test/ping", id=first)
    answers = client.wait_for(lambda: len(client.responses.get(str(first), [])) == 2 and client.responses[str(first)], 90)
    assert answers[0]["error"]["code"] == -32600 and "result" in answers[1]


def test_progress_of_loading(start, model):
    client = start(model)
    client.start({"window": {"workDoneProgress": True}})
    client.wait_for(lambda: [p for p in client.notes("$/progress") if p["value"]["kind"] == "end"], 60, "the end of the progress")
    assert [p["value"]["kind"] for p in client.notes("$/progress")] == ["begin", "end"]
    assert len({p["token"] for p in client.notes("$/progress")}) == 1
    order = [m.get("method") for m in client.messages]
    assert order.index("window/workDoneProgress/create") < order.index("$/progress")


def test_no_progress_where_the_client_refuses_it(start, model):
    client = start(model)
    client.reply = False
    client.start({"window": {"workDoneProgress": True}})
    create = client.wait_for(lambda: [m for m in client.messages if m.get("method") == "window/workDoneProgress/create"])[0]
    assert isinstance(create["id"], int)
    client.send({"jsonrpc": "2.0", "id": create["id"], "error": {"code": -32601, "message": "no"}})
    client.open(URI, "x = ")
    client.complete(URI, {"line": 0, "character": 4})
    assert not client.notes("$/progress")


def test_starts_and_stops_leave_nothing(binary, env, tmp_path):
    for i in range(50):
        client = Client([binary, "--stdio", "--model", "/nonexistent", "--cache-dir", str(tmp_path)], env=env)
        client.start()
        assert client.shutdown() == 0
        client.close()
    leftovers = [p for p in os.listdir("/proc") if p.isdigit() and str(tmp_path).encode() in cmdline(p)]
    assert leftovers == []


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def test_whole_session_in_one_write(bare):
    messages = [call(1, "initialize", {"capabilities": {}}), note("initialized", {}), call(2, "shutdown"), note("exit")]
    bare.methods = {"1": ["initialize"], "2": ["shutdown"]}
    bare.raw(b"".join(map(frame, messages)))
    assert bare.status() == 0
