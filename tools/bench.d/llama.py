# SPDX-License-Identifier: MIT
"""The peer: llama-server's /infill, asked as llama.vim asks (autoload/llama.vim of a1c8e6e, 2026-01-31).

Two differences, both in its favour: the answer is streamed, so that its first token and first line can be timed (the
plugin shows nothing before the whole answer is there), and no chunks of other files and no speculative requests are
sent. The plugin's own store of answers is kept: the same text is not asked for twice, and text typed as suggested
shows the rest at once (the plugin still asks for it anew, and so does this).
"""

import hashlib
import http.client
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from ours import cpu_seconds, wait_idle

HERE = Path(__file__).resolve().parent
N_PREFIX, N_SUFFIX, N_PREDICT, T_PREDICT_MS = 256, 64, 128, 250  # the plugin's; its first request has 250 ms
QUIET_S = 0.4
RETRY_S = 0.1  # while a request runs the plugin tries again so late, with the text of then
LOOK_BACK, KEPT_ANSWERS = 128, 250


def find_program():
    """The built llama-server and its folder's name, or None."""
    found = subprocess.run([HERE / "build-peer", "--where", "llama-server"], stdout=subprocess.PIPE, text=True)
    folder = Path(found.stdout.strip())
    return (folder / "bin" / "llama-server", folder.name) if found.returncode == 0 else (None, None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def context(text, cursor, n_suffix=N_SUFFIX):
    """s:fim_ctx_local without an earlier completion."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()  # Vim counts no line after the last line end
    y = min(cursor[0], len(lines) - 1) if lines else 0
    current = lines[y] if lines else ""
    if y < cursor[0]:
        lines.append("")
        y, current = cursor[0], ""
    blank = not current.strip()
    return {
        "prefix": "\n".join(lines[max(0, y - N_PREFIX) : y]) + "\n",
        "middle": "" if blank else current[: cursor[1]],
        "suffix": ("" if blank else current[cursor[1] :]) + "\n" + "\n".join(lines[y + 1 : y + 1 + n_suffix]) + "\n",
        "indent": 0 if blank else len(re.match(r"\s*", current)[0]),
    }


def request_of(c, n_predict=N_PREDICT, greedy=False):
    """Body of the request. The seed makes a replay repeatable; the plugin leaves it to the server."""
    body = {
        "id_slot": 0,
        "input_prefix": c["prefix"],
        "input_suffix": c["suffix"],
        "input_extra": [],
        "prompt": c["middle"],
        "n_predict": n_predict,
        "stop": [],
        "n_indent": c["indent"],
        "top_k": 40,
        "top_p": 0.90,
        "samplers": ["top_k", "top_p", "infill"],
        "stream": True,
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": T_PREDICT_MS,
        "seed": 1,
    }
    return body | {"samplers": ["temperature"], "temperature": 0.0, "t_max_predict_ms": 0, "n_indent": 0} if greedy else body


class Answers:
    """The plugin's store of answers: key is the whole text around the cursor."""

    def __init__(self):
        self.known = {}

    @staticmethod
    def key(before, suffix):
        return hashlib.sha256(f"{before}Î{suffix}".encode()).digest()

    def put(self, c, content):
        """s:fim_on_response: also under the same text with one to three of its first lines missing."""
        prefix = c["prefix"]
        for _ in range(4):
            self.known.pop(key := self.key(prefix + c["middle"], c["suffix"]), None)
            self.known[key] = content
            _, _, prefix = prefix.partition("\n")
            if not prefix:
                break
        while len(self.known) > KEPT_ANSWERS:
            del self.known[next(iter(self.known))]

    def exact(self, c):
        """Would the plugin leave out the request?"""
        prefix = c["prefix"]
        for _ in range(4):
            content = self.known.get(self.key(prefix + c["middle"], c["suffix"]))
            if content is not None:
                return content
            _, _, prefix = prefix.partition("\n")
            if not prefix:
                break
        return None

    def hint(self, c):
        """s:fim_try_hint: the rest of an answer whose beginning was typed since, or None."""
        before = c["prefix"] + c["middle"]
        content = self.known.get(self.key(before, c["suffix"]))
        if content is not None:
            return content
        best = None
        for n in range(1, min(LOOK_BACK, len(before) - 1) + 1):
            content = self.known.get(self.key(before[:-n], c["suffix"]))
            if content and content[:n] == before[-n:] and len(content) > n and len(content) - n > len(best or ""):
                best = content[n:]
        return best


class Peer:
    """One llama-server process."""

    def __init__(self, options, folder, n_suffix=N_SUFFIX, *more):
        program, _ = find_program()
        self.n_suffix, self.answers, self.port = n_suffix, Answers(), free_port()
        command = [program, "-m", options.model, "--host", "127.0.0.1", "--port", self.port, "-t", options.threads, "-b",
                   1024, "-ub", 1024, "-c", 0, "-np", 1, "--cache-reuse", 256, "--offline", "--no-ui", *more]
        self.errors = open(Path(folder) / "llama-server.log", "w")
        env = os.environ | {"LD_LIBRARY_PATH": str(program.parent)}
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=self.errors,
                                        stderr=subprocess.STDOUT, env=env)
        self.pid = self.process.pid
        self.wait_ready(folder)

    def wait_ready(self, folder):
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.get("/health").get("status") == "ok":
                    return
            except OSError:
                pass
            time.sleep(0.02)
        self.close()
        sys.exit(f"llama-server did not start; see {folder}/llama-server.log")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    def stream(self, body, path="/infill"):
        """The streamed answer: text, times since sending, token counts of its own timings."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        data = json.dumps(body)
        start = time.monotonic()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"llama-server: {response.status} {response.read()[:300]}")
        text, first, first_line, timings = "", None, None, None
        for raw in iter(response.readline, b""):
            if not raw.startswith(b"data: "):
                continue
            message = json.loads(raw[6:])
            now = (time.monotonic() - start) * 1000
            text += message.get("content", "")
            first = now if first is None else first
            if first_line is None and "\n" in text.lstrip("\n"):
                first_line = now
            timings = message.get("timings", timings)
            if message.get("stop"):
                break
        total = (time.monotonic() - start) * 1000
        connection.close()
        return {"text": text, "ttft_ms": first, "first_line_ms": first_line or total, "total_ms": total,
                "new": timings["prompt_n"], "hit": timings.get("cache_n"), "generated": timings["predicted_n"]}

    def ask(self, kind, text, cursor):
        """What the plugin does when the cursor has moved."""
        c = context(text, cursor, self.n_suffix)
        if (content := self.answers.exact(c)) is not None:
            return {"kind": kind, "asked": False, "shown_text": bool(content), "ttft_ms": 0, "first_line_ms": 0,
                    "total_ms": 0, "new": 0, "hit": None, "generated": 0, "text": content}
        hint = self.answers.hint(c)
        entry = self.stream(request_of(c)) | {"kind": kind, "asked": True, "shown_text": bool(hint)}
        self.answers.put(c, entry["text"])
        if hint:
            entry["first_line_ms"] = 0
        return entry

    def warm(self):
        self.stream(request_of({"prefix": "x = 1\n", "middle": "", "suffix": "\n", "indent": 0}))
        wait_idle(self.pid, QUIET_S)

    def cpu(self):
        return cpu_seconds(self.pid)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def replay_serial(options, session, folder, n_suffix, texts):
    """texts: (event, text after it), from sessions.replay."""
    peer = Peer(options, folder, n_suffix)
    try:
        peer.warm()
        cpu_before = peer.cpu()
        cold = peer.ask("open", session.text, session.start)
        wait_idle(peer.pid, QUIET_S)
        fill_s, cpu_before = peer.cpu() - cpu_before, peer.cpu()
        records = [peer.ask(event.kind, text, event.cursor) for event, text in texts]
        wait_idle(peer.pid, QUIET_S)
        cpu_s = peer.cpu() - cpu_before
    finally:
        peer.close()
    return {"cold": cold, "fill_cpu_s": fill_s, "cpu_s": cpu_s, "events": records}


class Plugin:
    """llama#fim and s:fim_on_response against the clock: one request at a time, keys in between only put off the next."""

    def __init__(self, peer):
        self.peer, self.done = peer, queue.Queue()
        self.busy, self.retry_at, self.context = False, None, None

    def moved(self, context):
        """The cursor has moved: is there something to show at once?"""
        self.context = context
        hint = self.peer.answers.hint(context)
        self.ask()
        return bool(hint)

    def ask(self):
        self.retry_at = None
        if self.busy:
            self.retry_at = time.monotonic() + RETRY_S
        elif self.peer.answers.exact(self.context) is None:
            self.busy = True
            threading.Thread(target=self.run, args=(self.context,), daemon=True).start()

    def run(self, context):
        try:
            self.done.put((context, self.peer.stream(request_of(context))["text"]))
        except (OSError, RuntimeError, ValueError) as e:
            self.done.put((context, e))

    def wait(self, until):
        """Until that time or until something can be shown where the cursor is; true in the second case."""
        while (now := time.monotonic()) < until:
            wake = until if self.retry_at is None else min(until, self.retry_at)
            try:
                context, text = self.done.get(timeout=max(0, wake - now))
            except queue.Empty:
                if self.retry_at is not None and time.monotonic() >= self.retry_at:
                    self.ask()
                continue
            if isinstance(text, Exception):
                raise text
            self.busy = False
            self.peer.answers.put(context, text)
            if self.peer.answers.hint(self.context):
                return True
        return False


def replay_real_time(options, session, folder, n_suffix, texts):
    """Keys at their times: for each, whether something was seen before the next, and after how long."""
    peer = Peer(options, folder, n_suffix)
    try:
        peer.warm()
        peer.ask("open", session.text, session.start)
        wait_idle(peer.pid, QUIET_S)
        plugin, records, cpu_before, start = Plugin(peer), [], peer.cpu(), time.monotonic()
        for i, (event, text) in enumerate(texts):
            at = start + event.t_ms / 1000
            time.sleep(max(0, at - time.monotonic()))
            next_at = start + texts[i + 1][0].t_ms / 1000 if i + 1 < len(texts) else at + 10
            seen = plugin.moved(context(text, event.cursor, n_suffix)) or plugin.wait(next_at)
            records.append({"kind": event.kind, "seen": seen, "waited_ms": (time.monotonic() - at) * 1000})
            while i + 1 < len(texts) and plugin.wait(next_at):
                pass  # later answers replace what is shown
        wait_idle(peer.pid, QUIET_S)
        return {"cpu_s": peer.cpu() - cpu_before, "events": records}
    finally:
        peer.close()
