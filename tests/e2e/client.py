# SPDX-License-Identifier: MIT
"""A raw client: whole control over the bytes, strict about what comes back.

Every message from the server is kept and, where the meta model is at hand, checked when the client is closed; so is
that each request was answered exactly once.
"""
import json
import os
import subprocess
import threading
import time

SLOW = float(os.environ.get("MASKSTORE_TEST_SLOW", "1"))  # sanitized builds multiply time limits
LONG = "".join(f"def step_{i}(value):\n    total = value + {i}\n    return total * {i}\n\n\n" for i in range(50))


def frame(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def call(id, method, params=None):
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def note(method, params=None):
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def units(text, encoding="utf-16"):
    return {"utf-8": len(text.encode()), "utf-16": len(text.encode("utf-16-le")) // 2, "utf-32": len(text)}[encoding]


def lines_of(text):
    """Lines as LSP counts them, without their ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def end_of(text, encoding="utf-16"):
    lines = lines_of(text)
    return {"line": len(lines) - 1, "character": units(lines[-1], encoding)}


def open_params(uri, text, version=1, language="python"):
    return {"textDocument": {"uri": uri, "languageId": language, "version": version, "text": text}}


def change_params(uri, version, *changes):
    return {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)}


def ask_params(uri, position, kind=1):
    return {"textDocument": {"uri": uri}, "position": position, "context": {"triggerKind": kind}}


class Client:
    def __init__(self, command, env=None, meta=None, **popen):
        self.meta = meta
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                                     **popen)
        self.arrived = threading.Condition()
        self.messages, self.responses, self.methods = [], {}, {}  # responses: id as JSON → list
        self.ended, self.junk, self.stderr, self.reply = False, None, b"", True
        self.last_id = 0
        self.may_be_unanswered = False
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self.read, self.read_stderr)]
        for t in self.threads:
            t.start()

    # reading
    def read_stderr(self):
        for chunk in iter(lambda: self.proc.stderr.read1(65536), b""):
            self.stderr += chunk

    def read(self):
        try:
            while (message := self.read_frame()) is not None:
                with self.arrived:
                    self.take(message)
                    self.arrived.notify_all()
        except (ValueError, AssertionError) as e:
            self.junk = repr(e)
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()

    def read_frame(self):
        header = b""
        while not header.endswith(b"\r\n\r\n"):
            line = self.proc.stdout.readline()
            if not line:
                assert not header, f"output ends in a header: {header!r}"
                return None
            assert line == b"\r\n" or line.startswith(b"Content-Length: "), f"not a header: {line!r:.80}"
            header += line
        n = int(header.split()[1])
        body = self.proc.stdout.read(n)
        assert len(body) == n, "output ends in a body"
        return json.loads(body.decode("utf-8"))

    def take(self, message):
        self.messages.append(message)
        if "method" not in message:
            self.responses.setdefault(json.dumps(message["id"]), []).append(message)
        elif "id" in message and self.reply:
            asked = message.get("params", {}).get("items")
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": [None] * len(asked) if asked else None})

    # writing
    def raw(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def remember(self, message):
        if "id" in message and "method" in message:
            self.methods.setdefault(json.dumps(message["id"]), []).append(message["method"])
        return message

    def send(self, *messages):
        try:
            self.raw(b"".join(frame(self.remember(m)) for m in messages))
        except BrokenPipeError:
            pass

    def new_id(self):
        self.last_id += 1
        return self.last_id

    def request(self, method, params=None, id=None):
        id = self.new_id() if id is None else id
        self.send(call(id, method, params))
        return id

    def notify(self, method, params=None):
        self.send(note(method, params))

    # waiting
    def wait_for(self, condition, timeout=20, what="a message"):
        end = time.monotonic() + timeout * SLOW
        with self.arrived:
            while not (found := condition()):
                left = end - time.monotonic()
                assert not self.ended, f"the server ended while the test waited for {what}: {self.stderr[-300:]!r} {self.junk}"
                assert left > 0, f"{what} did not come within {timeout * SLOW} s"
                self.arrived.wait(left)
            return found

    def wait(self, id, timeout=60):
        return self.wait_for(lambda: self.responses.get(json.dumps(id)), timeout, f"the answer to {id}")[0]

    def call(self, method, params=None, timeout=60):
        return self.wait(self.request(method, params), timeout)

    def notes(self, method):
        with self.arrived:
            return [m["params"] for m in self.messages if m.get("method") == method]

    def texts(self, method="window/logMessage"):
        return [p["message"] for p in self.notes(method)]

    def ping(self):
        """Everything sent before has been handled once this returns."""
        assert self.call("test/ping")["error"]["code"] == -32601

    # LSP
    def start(self, capabilities=None, **more):
        params = {"processId": None, "rootUri": None, "capabilities": capabilities or {}, **more}
        result = self.call("initialize", params)["result"]
        self.notify("initialized", {})
        return result

    def open(self, uri, text, version=1, language="python"):
        self.notify("textDocument/didOpen", open_params(uri, text, version, language))

    def change(self, uri, version, *changes):
        self.notify("textDocument/didChange", change_params(uri, version, *changes))

    def ask(self, uri, position, kind=1, method="textDocument/inlineCompletion"):
        return self.request(method, ask_params(uri, position, kind))

    def items(self, answer):
        result = answer["result"]
        return [] if result is None else result["items"] if isinstance(result, dict) else result

    def complete(self, uri, position, kind=1, method="textDocument/inlineCompletion"):
        return self.items(self.wait(self.ask(uri, position, kind, method)))

    def resyncs(self):
        return sum("resync" in t for t in self.texts())

    def text_is(self, uri, text):
        """Does the server hold exactly this text? A save with another one is logged as a resync (and taken over)."""
        before = self.resyncs()
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})
        self.ping()
        return self.resyncs() == before

    def shutdown(self):
        assert self.call("shutdown") == {"jsonrpc": "2.0", "id": self.last_id, "result": None}
        self.notify("exit")
        return self.status()

    def status(self, timeout=5):
        try:
            return self.proc.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            return None

    def close(self):
        if self.proc.poll() is None and not self.may_be_unanswered and not self.ended:
            self.call("test/ping")
        self.killed = self.proc.poll() is None
        if self.killed:
            self.proc.kill()
        self.proc.wait()
        try:
            self.proc.stdin.close()
        except BrokenPipeError:
            pass
        for t in self.threads:
            t.join(5)
        self.proc.stdout.close()
        self.proc.stderr.close()
        self.check()

    def check(self):
        assert self.junk is None, f"not a frame on standard output: {self.junk}"
        assert self.killed or self.proc.returncode in (0, 1), f"exit status {self.proc.returncode}: {self.stderr[-2000:]!r}"
        for id, sent in self.methods.items():
            got = len(self.responses.get(id, []))
            assert got <= len(sent), f"request {id} was answered {got} times"
            assert got == len(sent) or self.may_be_unanswered, f"request {id} ({sent}) was answered {got} times"
        for m in self.messages if self.meta else []:
            problem = self.meta.check_message(m, lambda id: self.methods.get(json.dumps(id), [None])[0])
            assert problem is None, f"{problem} in {m!r:.300}"
