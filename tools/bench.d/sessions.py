# SPDX-License-Identifier: MIT
"""Typing sessions made from real files: a text, and timed edits that type lines of it again in its middle.

Deterministic: the same pinned packages give the same sessions. Nothing of the files is in the repository; the wheels
are those of the oracles' corpus, fetched with checked hashes into the cache and read as zips.

    tools/bench.d/sessions.py           one line a session
    tools/bench.d/sessions.py NAME      its events
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskstore"
CORPUS = CACHE / "corpus"
PINS = HERE.parent / "oracle" / "corpus-requirements.txt"

# Package file → at most so many lines of it. Chosen by size only: no tables, no tests, lines of usual length.
FILES = {
    "django/core/management/sql.py": 5000,  # 59 lines
    "rich/file_proxy.py": 5000,  # 60
    "pygments/scanner.py": 5000,  # 104
    "networkx/utils/union_find.py": 5000,  # 106
    "attr/_compat.py": 5000,  # 99
    "django/utils/dateparse.py": 5000,  # 154
    "sqlglot/executor/table.py": 5000,  # 157
    "flask/testing.py": 5000,  # 298
    "django/db/migrations/writer.py": 5000,  # 316
    "rich/tree.py": 5000,  # 257
    "jinja2/idtracking.py": 5000,  # 318
    "networkx/utils/mapped_queue.py": 5000,  # 297
    "click/decorators.py": 5000,  # 625
    "flask/sansio/blueprints.py": 5000,  # 632
    "rich/table.py": 5000,  # 1015
    "click/termui.py": 5000,  # 1024
    "django/db/migrations/state.py": 5000,  # 1017
    "httpx/_client.py": 5000,  # 2019
    "sqlglot/generators/duckdb.py": 5000,  # 4989
    "sqlglot/generator.py": 5000,  # 6714, cut before a definition
}

JUMP_LINES = 200  # the distance that the reports name; less only where the file is shorter


@dataclass
class Event:
    kind: str  # open, type, newline, typo, backspace, delete, accept, undo, redo, paste, above, below, jump, back
    t_ms: int  # after the file was opened and cached
    edits: list  # [line, character, end line, end character, text]: replacements, in order, 0-based, in code points
    cursor: list  # [line, character] where the suggestion is asked for


@dataclass
class Session:
    name: str
    path: str  # inside its wheel
    text: str  # at opening
    start: list = field(default_factory=list)  # [line, character] of the cursor at opening
    events: list = field(default_factory=list)
    jump_lines: int = 0

    @property
    def n_lines(self):
        return self.text.count("\n")

    def id(self):
        """Of everything that a replay depends on."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


# --- texts


def lines_of(text):
    return text.split("\n")


def apply_edit(text, edit):
    """The text after one replacement."""
    line, character, end_line, end_character, new = edit
    lines = lines_of(text)
    head = "\n".join(lines[:line] + [lines[line][:character]])
    tail = "\n".join([lines[end_line][end_character:]] + lines[end_line + 1 :])
    return head + new + tail


def apply_event(text, event):
    for edit in event.edits:
        text = apply_edit(text, edit)
    return text


def replay(session):
    """(event, text after it) for each event."""
    text = session.text
    for event in session.events:
        text = apply_event(text, event)
        yield event, text


# --- choosing places


def usable(line):
    """Is this a line that a person would type: indented, of usual length, no comment, no docstring's quotes."""
    plain = line.startswith("    ") and "\t" not in line and not line.lstrip().startswith("#") and '"""' not in line
    return plain and line.strip() and len(line) <= 88


def is_code(block):
    """Prose has few of these characters."""
    return 2 * sum(any(c in line for c in "=([") for line in block) > len(block)


def find_place(lines, wanted, n_lines, n_characters, taken=()):
    """First of n_lines usable lines with enough text, nearest to line `wanted`, off the lines in `taken`."""
    for distance in range(len(lines)):
        for first in (wanted + distance, wanted - distance):
            block = lines[first : first + n_lines] if first > 2 else []
            if len(block) < n_lines or not all(map(usable, block)) or not is_code(block) or any(abs(first - t) < 12 for t in taken):
                continue
            if sum(len(line.strip()) for line in block) >= n_characters:
                return first
    raise ValueError("no place to type at")


def indent_of(line):
    return line[: len(line) - len(line.lstrip())]


# --- typing


class Typist:
    """Applies edits to a text and writes them down as timed events."""

    def __init__(self, text, seed):
        self.random = random.Random(seed)
        self.text, self.t_ms = text, 0
        self.line = self.character = 0
        self.events = []
        self.mark = -1  # a line to come back to: stays with its text

    def add(self, kind, edits, pause_ms=None):
        self.t_ms += pause_ms or self.random.randint(80, 250)
        for edit in edits:
            self.text = apply_edit(self.text, edit)
            if (edit[0], edit[1]) <= (self.mark, 0):
                self.mark += edit[4].count("\n") - (edit[2] - edit[0])
        self.events.append(Event(kind, self.t_ms, edits, [self.line, self.character]))

    def insert(self, kind, new, pause_ms=None):
        line, character = self.line, self.character
        self.line += new.count("\n")
        self.character = len(new) - new.rfind("\n") - 1 if "\n" in new else character + len(new)
        self.add(kind, [[line, character, line, character, new]], pause_ms)

    def erase(self, kind, n, pause_ms=None):
        """Removes n characters of this line before the cursor."""
        end, self.character = self.character, self.character - n
        removed = lines_of(self.text)[self.line][self.character : end]
        self.add(kind, [[self.line, self.character, self.line, end, ""]], pause_ms)
        return removed

    def move(self, kind, line, pause_ms):
        """To the end of a line, without an edit."""
        self.line, self.character = line, len(lines_of(self.text)[line])
        self.add(kind, [], pause_ms)

    def type(self, text):
        for c in text:
            self.insert("type", c)

    def newline(self, target):
        """Return at the end of the line; the editor indents as far as the line to come."""
        self.insert("newline", "\n" + indent_of(target))

    def edit_elsewhere(self, kind, line):
        """A comment line is put in at `line`, the cursor stays with its text."""
        line = min(max(line, 1), len(lines_of(self.text)) - 1)
        indent = indent_of(lines_of(self.text)[line])
        self.line += line <= self.line
        self.add(kind, [[line, 0, line, 0, f"{indent}# checked\n"]], self.random.randint(400, 900))


def type_block(typist, block, n_characters):
    """Types the lines of `block` on new lines, at most n_characters of each, with what goes wrong on the way."""
    slips = {0: "typo", 1: "delete", 2: "undo"}
    for i, line in enumerate(block):
        words = line.strip()[: n_characters[i]]
        half = max(2, len(words) // 2)
        typist.newline(line)
        typist.type(words[:half])
        slip = slips.get(i)
        if slip == "typo":
            wrong = typist.random.choice([c for c in "aeinorst" if c != words[half : half + 1]])
            typist.insert("typo", wrong)
            typist.erase("backspace", 1)
        elif slip == "delete":
            lost = [typist.erase("delete", 1) for _ in range(2)]
            typist.type("".join(reversed(lost)))
        elif slip == "undo":
            n = min(6, half)
            typist.insert("redo", typist.erase("undo", n, 600), 600)
        typist.type(words[half:])
        # The rest of the line is there at once, as if a suggestion had been taken.
        if rest := line.strip()[n_characters[i] :]:
            typist.insert("accept", rest)


def make(name, path, text, seed=20261):
    """A session of about 80 events in the middle of this text; a jump or an edit elsewhere is one of 20."""
    lines = lines_of(text)
    chooser = random.Random(f"{seed}:{path}")
    a = find_place(lines, int(len(lines) * chooser.uniform(0.3, 0.6)), 5, 110)
    step = JUMP_LINES if a + JUMP_LINES + 20 < len(lines) else -JUMP_LINES
    b = find_place(lines, min(max(a + step, 4), len(lines) - 4), 1, 12, taken=range(a - 2, a + 7))
    removed = set(range(a, a + 5)) | {b}
    typist = Typist("\n".join(line for i, line in enumerate(lines) if i not in removed), f"{seed}:{path}:keys")
    session = Session(name, path, typist.text)

    typist.line = a - 1 - (b < a)
    typist.mark = b - 1 - 5 * (a < b)  # the line that B follows
    typist.character = len(lines_of(typist.text)[typist.line])
    session.start = [typist.line, typist.character]
    block = lines[a : a + 5]
    type_block(typist, block[:3], (16, 14, 14))
    typist.edit_elsewhere("above", typist.line - chooser.randint(20, 40))
    typist.newline(block[3])
    typist.type(block[3].strip()[:6])
    typist.edit_elsewhere("below", typist.line + chooser.randint(2, 6))
    typist.type(block[3].strip()[6:12])
    typist.insert("paste", block[3].strip()[12:] + "\n" + block[4], 600)
    target, typist.mark = typist.mark, typist.line
    session.jump_lines = abs(target - typist.line)
    typist.move("jump", target, chooser.randint(900, 1500))
    typist.newline(lines[b])
    typist.type(lines[b].strip()[:6])
    typist.move("back", typist.mark, chooser.randint(900, 1500))
    typist.newline(block[4])
    typist.type(block[0].strip()[:4])
    session.events = typist.events
    return session


# --- packages


def fetch():
    """Downloads the wheels, with pip checking each hash, unless all of them lie in the cache."""
    pins = [line.split()[0].split("==") for line in PINS.read_text().splitlines() if "==" in line]
    wheels = [next(CORPUS.glob(f"{name}-{version}-*.whl"), None) for name, version in pins]
    if not all(wheels):
        CORPUS.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--require-hashes", "-r", PINS, "-d", CORPUS], check=True, stdout=sys.stderr)
        wheels = [next(CORPUS.glob(f"{name}-{version}-*.whl")) for name, version in pins]
    return wheels


def cut(text, max_lines):
    """At most max_lines lines, ending before a definition."""
    lines = lines_of(text)
    if len(lines) <= max_lines:
        return text
    end = next(i for i in range(max_lines, 0, -1) if lines[i].lstrip().startswith("def "))
    return "\n".join(lines[:end]) + "\n"


def all_paths():
    """Every source file of the wheels."""
    return [name for path in fetch() for name in zipfile.ZipFile(path).namelist() if name.endswith(".py")]


def sources(paths):
    found = {}
    for path in fetch():
        with zipfile.ZipFile(path) as wheel:
            for name in set(paths) & set(wheel.namelist()):
                found[name] = wheel.read(name).decode().replace("\r\n", "\n")
    return found


def all_sessions():
    texts = sources(FILES)
    return [make(f"s{i:02}", path, cut(texts[path], n)) for i, (path, n) in enumerate(FILES.items())]


def main():
    for s in all_sessions():
        if len(sys.argv) < 2:
            print(f"{s.name} {s.n_lines:5} lines {len(s.events):3} events, jump of {s.jump_lines:3}  {s.path}")
        elif s.name in sys.argv[1:]:
            for event, text in replay(s):
                line = lines_of(text)[event.cursor[0]]
                print(f"{event.t_ms:6} {event.kind:9} {event.cursor} {line[: event.cursor[1]]!r}")


if __name__ == "__main__":
    main()
