# SPDX-License-Identifier: MIT
"""Typing through the server: random interleavings of changes, requests, cancels, accepted suggestions, closes and reopens; and what each kind of event costs in
tokens, by the latency log. That each request is answered exactly once is checked as each client closes."""
import random
import time

import pytest
from client import LONG, SLOW, ask_params, call, change_params, end_of, note, open_params

METHODS = ["textDocument/inlineCompletion", "textDocument/completion"]
START = "import os\n\n\ndef size_of(path):\n    return os.path.getsize(path)\n\n\ndef total(paths):\n    "


class Desk:
    """Documents as an editor has them, and the messages that tell the server. Nothing is waited for."""

    def __init__(self, client, seed):
        self.client, self.random = client, random.Random(seed)
        self.texts, self.cursors, self.versions, self.asked, self.undo = {}, {}, {}, [], {}
        self.batch = []

    def say(self, message):
        self.batch.append(message)
        if self.random.random() < 0.6:  # several messages in one write, or one
            self.flush()

    def flush(self):
        self.client.send(*self.batch)
        self.batch = []

    def open(self, uri):
        self.texts[uri], self.cursors[uri], self.versions[uri], self.undo[uri] = START, len(START), 1, []
        self.say(note("textDocument/didOpen", open_params(uri, START)))

    def close(self, uri):
        del self.texts[uri]
        self.say(note("textDocument/didClose", {"textDocument": {"uri": uri}}))

    def edit(self, uri, begin, end, new):
        text = self.texts[uri]
        self.undo[uri] = [*self.undo[uri][-15:], (begin, begin + len(new), text[begin:end])]
        self.versions[uri] += 1
        change = {"range": {"start": end_of(text[:begin]), "end": end_of(text[:end])}, "text": new}
        self.texts[uri] = text[:begin] + new + text[end:]
        self.cursors[uri] = begin + len(new)
        self.say(note("textDocument/didChange", change_params(uri, self.versions[uri], change)))

    def undo_one(self, uri):
        if self.undo[uri]:
            begin, end, old = self.undo[uri].pop()
            kept = self.undo[uri]
            self.edit(uri, begin, end, old)
            self.undo[uri] = kept

    def ask(self, uri):
        id = self.client.new_id()
        self.asked.append((id, uri, self.versions[uri], self.cursors[uri]))
        params = ask_params(uri, end_of(self.texts[uri][:self.cursors[uri]]), self.random.choice([1, 2, 2, 2]))
        self.say(call(id, self.random.choice(METHODS), params))

    def cancel(self):
        id = self.random.choice(self.asked[-5:])[0]
        self.say(note("$/cancelRequest", {"id": id}))

    def accept(self):
        """Takes over a suggestion that came for the text as it still is."""
        for id, uri, version, cursor in reversed(self.asked[-8:]):
            answer = self.client.responses.get(str(id))
            if not answer or self.versions.get(uri) != version or self.cursors[uri] != cursor:
                continue
            for item in self.client.items(answer[0]) if "result" in answer[0] else []:
                if "insertText" in item and item["range"]["start"] == item["range"]["end"]:
                    return self.edit(uri, cursor, cursor, item["insertText"])

    def step(self):
        uri = self.random.choice(["file:///one.py", "file:///two.py"])
        if uri not in self.texts:
            return self.open(uri)
        text, cursor = self.texts[uri], self.cursors[uri]
        act = self.random.choices(["type", "erase", "newline", "undo", "jump", "above", "ask", "cancel", "accept", "close"],
                                  [30, 6, 4, 5, 3, 3, 35, 8, 8, 1])[0]
        if act == "type":
            self.edit(uri, cursor, cursor, self.random.choice("abcdefrst_ (.="))
        elif act == "erase" and cursor:
            self.edit(uri, cursor - 1, cursor, "")
        elif act == "newline":
            self.edit(uri, cursor, cursor, "\n    ")
        elif act == "undo":
            self.undo_one(uri)
        elif act == "jump":
            self.cursors[uri] = self.random.randrange(len(text) + 1)
        elif act == "above":
            self.edit(uri, 3, 3, self.random.choice("xy"))
        elif act == "ask":
            self.ask(uri)
        elif act == "cancel" and self.asked:
            self.cancel()
        elif act == "accept":
            self.accept()
        elif act == "close":
            self.close(uri)


@pytest.mark.parametrize("seed", range(3))
def test_any_interleaving(start, model, seed):
    client = start(model, flags=["--max-new-tokens", "12"])
    client.start()
    desk = Desk(client, seed)
    for _ in range(250):
        desk.step()
    desk.flush()
    for id, *_ in desk.asked:
        answer = client.wait(id)
        assert "result" in answer or answer["error"]["code"] == -32800
    fresh = start(model, flags=["--max-new-tokens", "12"])
    fresh.start()
    for uri, text in desk.texts.items():
        assert client.text_is(uri, text)
        fresh.open(uri, text)
        at = end_of(text[:desk.cursors[uri]])
        assert client.complete(uri, at) == fresh.complete(uri, at)


# --- what an event costs

class Typist:
    """One document, serially: an edit, a request, its line in the log."""

    def __init__(self, client, log_lines, uri, text, cursor):
        self.client, self.log_lines, self.uri, self.text, self.cursor, self.version = client, log_lines, uri, text, cursor, 1
        client.open(uri, text)

    def edit(self, begin, end, new, cursor=None):
        self.version += 1
        self.client.change(self.uri, self.version, {"range": {"start": end_of(self.text[:begin]), "end": end_of(self.text[:end])}, "text": new})
        self.text = self.text[:begin] + new + self.text[end:]
        self.cursor = begin + len(new) if cursor is None else cursor

    def type(self, new):
        self.edit(self.cursor, self.cursor, new)

    def ask(self):
        answer = self.client.wait(self.client.ask(self.uri, end_of(self.text[:self.cursor])))
        line = self.log_lines()[-1]
        tokens = line["tokens"]
        assert tokens["hit"] + tokens["new"] == tokens["prompt"]
        assert line["evaluated"] >= tokens["new"] and (line["origin"] != "memo" or line["evaluated"] == 0)
        return line, [i["insertText"] for i in self.client.items(answer)]


TEXT = LONG[:2400]
SUFFIX = 8 * 14  # lines below the cursor in the prompt, tokens each, generously
SINCE = 16 * 14   # lines between anchor and cursor


@pytest.fixture
def typist(start, model, log_lines):
    client = start(model, flags=["--max-new-tokens", "12"])
    client.start()
    cursor = TEXT.index("def step_20(") + len("def step_20(value):\n    total = value")
    t = Typist(client, log_lines, "file:///t.py", TEXT, cursor)
    first, _ = t.ask()
    assert first["tokens"]["prompt"] > 400
    return t


def test_typing_costs_itself(typist):
    for key in " * 2\n":
        typist.type(key)
        line, _ = typist.ask()
        assert line["tokens"]["new"] <= 2, key
    typist.type("    ")  # as the editor indents
    assert typist.ask()[0]["tokens"]["new"] <= 2


def test_deleting_undo_and_redo_cost_nothing(typist):
    states = [(typist.text, typist.cursor)]
    for key in " * valu":
        typist.type(key)
        typist.ask()
        states.append((typist.text, typist.cursor))
    for back in range(2, len(states) + 1):  # backspace, or undo: the same texts
        typist.edit(typist.cursor - 1, typist.cursor, "")
        assert (typist.text, typist.cursor) == states[-back]
        line, _ = typist.ask()
        assert line["tokens"]["new"] == 0 and line["origin"] == "memo"
    for key in " * valu":  # redo
        typist.type(key)
        line, _ = typist.ask()
        assert line["tokens"]["new"] == 0 and line["origin"] == "memo"


def test_deleting_what_was_there_costs_the_line(typist):
    for _ in range(3):
        typist.edit(typist.cursor - 1, typist.cursor, "")
        line, _ = typist.ask()
        assert line["tokens"]["new"] <= 4


def test_a_paste_costs_itself(typist):
    typist.type(" * 3\n    other = value // 7\n    total -=")
    line, _ = typist.ask()
    assert line["tokens"]["new"] <= 25


def test_an_edit_below_costs_the_suffix(typist):
    at, cursor = typist.text.index("    return total * 22"), typist.cursor
    typist.edit(at, at, "    x = 1\n", cursor)
    line, _ = typist.ask()
    assert line["tokens"]["new"] <= SUFFIX + SINCE
    assert line["tokens"]["hit"] > 100
    at = typist.text.index("def step_35")
    typist.edit(at, at, "y = 2\n", cursor)  # below what the prompt holds
    line, _ = typist.ask()
    assert line["tokens"]["new"] == 0


def test_an_edit_above_costs_from_there(typist):
    at, cursor = typist.text.index("def step_15"), typist.cursor
    typist.edit(at, at, "z", cursor + 1)
    line, _ = typist.ask()
    between = typist.text[at:cursor + 1]
    assert line["tokens"]["new"] <= len(between) / 2 + SUFFIX + SINCE
    assert line["tokens"]["hit"] >= len(typist.text[:at]) / 4 - 20


def test_a_jump_costs_suffix_and_lines_since_the_anchor(typist):
    home = typist.cursor
    for target in ("def step_5(value):\n    total", "def step_12(value):\n    total"):
        typist.cursor = typist.text.index(target) + len(target)
        line, _ = typist.ask()
        assert line["tokens"]["new"] <= SUFFIX + SINCE
    typist.cursor = home
    line, _ = typist.ask()
    assert line["tokens"]["new"] == 0 and line["origin"] == "memo"


def at_the_end(typist):
    """Where the model has something to suggest."""
    typist.cursor = len(typist.text)
    typist.type("\n\ndef add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return ")
    _, shown = typist.ask()
    assert shown and len(shown[0]) > 3
    return shown


def test_accepting_costs_next_to_nothing(typist):
    shown = at_the_end(typist)
    typist.type(shown[0])
    line, _ = typist.ask()
    assert line["tokens"]["new"] <= 3


def test_what_is_typed_as_suggested_is_free(typist):
    left = at_the_end(typist)[0]
    while len(left) > 1:
        typist.type(left[0])
        line, now = typist.ask()
        left = left[1:]
        assert line["origin"] == "memo" and line["evaluated"] == 0
        assert now == [left]


def test_switching_files_costs_nothing(typist, log_lines):
    other = Typist(typist.client, log_lines, "file:///other.py", "# other\n" + TEXT, typist.cursor + len("# other\n"))
    assert other.ask()[0]["tokens"]["new"] > 300
    for _ in range(2):
        for t in (typist, other):
            t.type(" ")
            line, _ = t.ask()
            assert line["tokens"]["new"] <= 2


# --- before the first key

WHOLE = LONG + "def last(value):\n    total = value + "


def ask_until(client, log_lines, condition, seconds=120):
    """Asks for the same place, each time with another key before it, until its line in the log is as wanted."""
    end, version, last = time.monotonic() + seconds * SLOW, 1, end_of(WHOLE)
    while True:
        at = {**last, "character": last["character"] + version - 1}
        client.wait(client.ask("file:///w.py", at))
        line = log_lines()[-1]
        if condition(line):
            return line
        assert time.monotonic() < end, line
        time.sleep(1)
        version += 1
        client.change("file:///w.py", version, {"range": {"start": at, "end": at}, "text": "v"})


def test_a_window_answers_while_the_file_is_filled(start, model, log_lines):
    client = start(model, flags=["--deadline-ms", "60000", "--max-new-tokens", "8"])
    client.start()
    client.open("file:///w.py", WHOLE)
    client.wait(client.ask("file:///w.py", end_of(WHOLE)))  # it was there when the model was loaded: no speed is known yet
    first = log_lines()[-1]
    assert first["context"] == "window" and first["tokens"]["prompt"] <= 512
    whole = ask_until(client, log_lines, lambda line: line["context"] == "whole")
    # By then the rest came in the background, or (on a fast machine) the measured speed says that it may be waited for.
    assert whole["tokens"]["prompt"] == whole["tokens"]["hit"] + whole["tokens"]["new"] > 1000


def test_without_a_deadline_there_is_no_window(start, model, log_lines):
    client = start(model, flags=["--max-new-tokens", "8"])
    client.start()
    client.open("file:///w.py", WHOLE)
    client.wait(client.ask("file:///w.py", end_of(WHOLE)))
    assert log_lines()[-1]["context"] == "whole" and log_lines()[-1]["tokens"]["prompt"] > 1000


def test_an_opened_file_is_filled_before_it_is_asked_for(start, model, log_lines):
    client = start(model, flags=["--max-new-tokens", "8"])
    client.start()
    client.open("file:///other.py", "x = 1\n")
    client.wait(client.ask("file:///other.py", {"line": 1, "character": 0}))
    client.open("file:///w.py", WHOLE)
    done, end = 0, time.monotonic() + 120 * SLOW
    while done < 1000:  # a small request now and then tells what was done meanwhile
        assert time.monotonic() < end
        time.sleep(1)
        client.wait(client.ask("file:///other.py", {"line": 0, "character": 1}))
        done += log_lines()[-1]["background_tokens"]
    client.wait(client.ask("file:///w.py", end_of(WHOLE)))
    line = log_lines()[-1]
    assert line["tokens"]["hit"] > 900 and line["tokens"]["new"] <= SUFFIX + SINCE


def test_a_closed_file_is_not_worked_on(start, model, log_lines):
    client = start(model, flags=["--max-new-tokens", "8"])
    client.start()
    client.open("file:///other.py", "x = 1\n")
    client.wait(client.ask("file:///other.py", {"line": 1, "character": 0}))
    client.open("file:///w.py", WHOLE)
    client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///w.py"}})
    client.ping()
    client.wait(client.ask("file:///other.py", {"line": 0, "character": 1}))
    time.sleep(4 * SLOW)
    client.wait(client.ask("file:///other.py", {"line": 0, "character": 2}))
    assert log_lines()[-1]["background_tokens"] < 200
