# SPDX-License-Identifier: MIT
"""Replays of a session through the real server over stdio. What happened is read from its latency log."""

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

URI = "file:///session/module.py"
# Work in the background waits for so long without a request (src/complete/background.c): 2 s, and 20 s where an edit has cost much.
QUIET_S, LONG_QUIET_S = 2.6, 21.0
FAR_JUMP_LINES = 190  # such jumps are reported
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_idle(pid, quiet_s, limit_s=300):
    """Until the process takes next to no CPU time for quiet_s: less than 10 % of a core in each part of it. Timers that tick are
    no work. Says whether that came within the limit."""
    part_s = 0.2
    end, quiet, used = time.monotonic() + limit_s, 0, cpu_seconds(pid)
    while time.monotonic() < end:
        time.sleep(part_s)
        before, used = used, cpu_seconds(pid)
        quiet = quiet + part_s if used - before < 0.1 * part_s else 0
        if quiet >= quiet_s:
            return True
    return False


class Server:
    """One server process with a cache folder and a log of its own."""

    def __init__(self, options, folder, *more):
        self.folder = Path(folder)
        self.log = self.folder / "requests.jsonl"
        (self.folder / "cache").mkdir(exist_ok=True)
        self.log_read = self.log.stat().st_size if self.log.exists() else 0  # a server before this one may have written there
        command = [options.binary, "serve", "--stdio", "--model", options.model, "--threads", options.threads,
                   "--cache-dir", self.folder / "cache", "--log", self.log, *more]
        self.errors = open(self.folder / "stderr", "w")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.pid = self.process.pid
        self.arrived = threading.Condition()
        self.answers, self.ended, self.last_id, self.version = {}, False, 0, {}
        threading.Thread(target=self.read, daemon=True).start()
        parameters = {"processId": os.getpid(), "rootUri": None,
                      "capabilities": {"general": {"positionEncodings": ["utf-32"]}}}
        answer = self.wait(self.request("initialize", parameters))["result"]
        assert answer["capabilities"]["positionEncoding"] == "utf-32", "sessions count in code points"
        self.notify("initialized", {})

    # frames
    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def read(self):
        while (header := self.process.stdout.readline()).startswith(b"Content-Length:"):
            self.process.stdout.readline()
            message = json.loads(self.process.stdout.read(int(header.split()[1])))
            at = time.monotonic()
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": None})
            elif "id" in message:
                with self.arrived:
                    self.answers[message["id"]] = message | {"at": at}
                    self.arrived.notify_all()
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()

    def notify(self, method, parameters):
        self.send({"method": method, "params": parameters})

    def request(self, method, parameters):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": parameters})
        return self.last_id

    def wait(self, id, limit_s=600):
        with self.arrived:
            if not self.arrived.wait_for(lambda: id in self.answers or self.ended, limit_s) or id not in self.answers:
                raise RuntimeError(f"no answer to request {id}; see {self.folder / 'stderr'}")
            return self.answers[id]

    # documents
    def open(self, text, uri=URI):
        self.version[uri] = 1
        self.notify("textDocument/didOpen",
                    {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}})

    def close_document(self, uri=URI):
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def edit(self, edits, uri=URI):
        if not edits:
            return
        self.version[uri] += 1
        changes = [{"range": {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}}, "text": text}
                   for a, b, c, d, text in edits]
        self.notify("textDocument/didChange",
                    {"textDocument": {"uri": uri, "version": self.version[uri]}, "contentChanges": changes})

    def ask(self, cursor, uri=URI, automatic=True):
        return self.request("textDocument/inlineCompletion", {
            "textDocument": {"uri": uri}, "position": {"line": cursor[0], "character": cursor[1]},
            "context": {"triggerKind": 2 if automatic else 1}})

    def complete(self, cursor, uri=URI, automatic=True):
        """Asks and waits: (log line, item or None). Times are the server's own."""
        id = self.ask(cursor, uri, automatic)
        answer = self.wait(id)
        return self.line_of(id), first_item(answer)

    def insist(self, kind, cursor, most=60):
        """As `record`, with first_ms: from the first asking to the first token of the first request that made one. Whoever
        got nothing in time asks again. asked_new: tokens that all of these evaluated."""
        start, entry, new = time.monotonic(), None, 0
        for i in range(most):
            id = self.ask(cursor)
            answered, line = self.wait(id), self.line_of(id)
            entry = entry or record(kind, line, first_item(answered))
            new += line["tokens"]["new"] + (line["background_tokens"] if i else 0)
            if line["tokens"]["generated"] > 0 or line["stop"] != "deadline":
                break
        took_ms = (answered["at"] - start) * 1000
        first_ms = took_ms - line["total_us"] / 1000 + first_token_ms(line)
        return entry | {"first_ms": first_ms, "shown_ms": took_ms, "asked_times": i + 1, "asked_new": new}

    # the log
    def lines(self):
        """Lines written since the last call. A line is there before its response."""
        with open(self.log) as f:
            f.seek(self.log_read)
            found = [json.loads(line) for line in iter(f.readline, "")]
            self.log_read = f.tell()
        return found

    def line_of(self, id):
        return next(line for line in self.lines() if line["id"] == id)

    def warm(self):
        """The model loaded and its pages touched, by a document that is closed again."""
        uri = "file:///session/warm.py"
        self.open("x = 1\n", uri)
        self.complete([1, 0], uri)
        self.close_document(uri)
        self.idle()

    def idle(self, quiet_s=QUIET_S):
        """Until the background has done what it begins within quiet_s."""
        if not wait_idle(self.pid, quiet_s):
            raise RuntimeError("the server did not come to rest")

    def cpu(self):
        return cpu_seconds(self.pid)

    def close(self):
        try:
            self.wait(self.request("shutdown", None), 60)
            self.notify("exit", None)
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.errors.close()


def first_item(answer):
    result = answer.get("result")
    items = result["items"] if isinstance(result, dict) else result or []
    return items[0] if items else None


def from_shown_text(line):
    """Was this answered from text computed before, without the decoder?"""
    return line["origin"] == "memo" and line["outcome"] in ("shown", "empty")


def first_token_ms(line):
    """To the first token that this request waited for. Where remembered tokens come first, that is the decoder's first own
    one, not the remembered one that the log's ttft_us stands for."""
    phases = line["phases_us"]
    own = sum(phases[name] for name in ("queue", "load", "prompt", "tokenize", "prefill"))
    return max(line["ttft_us"], 0 if line["origin"] == "memo" else min(own, line["total_us"])) / 1000


def record(kind, line, item):
    return {
        "kind": kind,
        "ttft_ms": first_token_ms(line),
        "total_ms": line["total_us"] / 1000,
        "new": line["tokens"]["new"],
        "background_before": line["background_tokens"],
        "hit": line["tokens"]["hit"],
        "prompt": line["tokens"]["prompt"],
        "generated": line["tokens"]["generated"],
        "shown_text": from_shown_text(line),
        "window": line["context"] == "window",
        "outcome": line["outcome"],
        "stop": line["stop"],
        "item": item,
        "line": line,
    }


def add_background(records, after_last):
    """all_new: what a key cost, with the background's work between it and the next request."""
    following = [e["background_before"] for e in records[1:]] + [after_last]
    for entry, background in zip(records, following, strict=True):
        entry["all_new"] = entry.pop("asked_new", entry["new"]) + background
    return records


def replay_serial(options, session, folder):
    """Each request awaited. Cold first, then until the file is cached, then the events."""
    server = Server(options, folder)
    try:
        server.warm()
        cpu_before = server.cpu()
        server.open(session.text)
        cold = server.insist("open", session.start)
        server.idle()
        fill_s = server.cpu() - cpu_before
        # The same place again: from here on the file counts as cached.
        again = record("again", *server.complete(session.start))
        server.idle()
        cpu_before, records = server.cpu(), []
        for event in session.events:
            server.edit(event.edits)
            if event.kind == "jump":
                quiet_s = LONG_QUIET_S if session.jump_lines >= FAR_JUMP_LINES else QUIET_S
                server.idle(quiet_s)  # from a cached file: what the edits before it cost isn't the jump's
                entry = server.insist(event.kind, event.cursor)
                server.idle(quiet_s)
                line, _ = server.complete(event.cursor)  # tells what the background has done meanwhile
                entry["asked_new"] += line["background_tokens"] + line["tokens"]["new"]
            else:
                entry = record(event.kind, *server.complete(event.cursor))
            records.append(entry)
        server.idle()
        cpu_s = server.cpu() - cpu_before
        after_last = server.complete(session.events[-1].cursor)[0]["background_tokens"]
    finally:
        server.close()
    filled = again["background_before"] + again["new"]
    return {"cold": cold, "fill_cpu_s": fill_s, "fill_tokens": cold["asked_new"] + filled, "cpu_s": cpu_s,
            "events": add_background(records, after_last)}


def replay_real_time(options, session, folder):
    """Keys at their times; a newer automatic request supersedes the older. What a person would have seen."""
    server = Server(options, folder)
    try:
        server.warm()
        server.open(session.text)
        server.complete(session.start)
        server.idle()
        server.lines()
        cpu_before, start, asked = server.cpu(), time.monotonic(), []
        for event in session.events:
            time.sleep(max(0, start + event.t_ms / 1000 - time.monotonic()))
            at = time.monotonic()
            server.edit(event.edits)
            asked.append((event, at, server.ask(event.cursor)))
        answers = [(event, at, server.wait(id)) for event, at, id in asked]
        server.idle()
        cpu_s = server.cpu() - cpu_before
        lines = {line["id"]: line for line in server.lines()}
        after_last = server.complete(session.events[-1].cursor)[0]["background_tokens"]
    finally:
        server.close()
    records = []
    for i, (event, at, answer) in enumerate(answers):
        entry = record(event.kind, lines[answer["id"]], first_item(answer))
        next_at = asked[i + 1][1] if i + 1 < len(asked) else None
        entry["waited_ms"] = (answer["at"] - at) * 1000
        # Seen: something to show, and it came before the next key.
        entry["seen"] = entry["outcome"] == "shown" and (next_at is None or answer["at"] < next_at)
        records.append(entry)
    return {"cpu_s": cpu_s, "events": add_background(records, after_last)}


def fresh_text(options, text, cursor):
    """The suggestion of a process that has seen nothing before, with no deadline."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        path.write_text(text)
        command = [options.binary, "complete", f"{path}:{cursor[0] + 1}:{cursor[1] + 1}", "--json", "--strategy",
                   "conservative", "--model", options.model, "--threads", options.threads, "--deadline-ms", "0",
                   "--cache-dir", Path(folder) / "cache"]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)["text"]


def same_text(item, fresh, rest_of_line):
    """Does the item say what the fresh process says? A text that swallows the rest of the line may be sent without it."""
    shown = item["insertText"] if item else ""
    if isinstance(shown, dict):
        shown = shown["value"]
    return shown == fresh or (rest_of_line != "" and shown + rest_of_line == fresh)
