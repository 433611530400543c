#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The house rules as a test.

Prints one `path:line: reason` for each place that breaks one and ends with status 1 if there is any. Usage:

    tools/tidy.py [--root DIR] [--no-compile]

The rules and their reasons are in ARCHITECTURE.md; the tables below are the rules themselves. C is read with a few
regular expressions on lines whose comments and strings are blanked, which suffices for code in the house style.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Rooms, and what each may include besides itself. Arrows point down only.
ROOMS = {
    "src/base": (),
    "src/kernels": ("src/base",),
    "src/maskstore": ("src/kernels", "src/base"),
    "src/model": ("src/maskstore", "src/kernels", "src/base"),
    "src/document": ("src/base",),
    "src/prompt": ("src/document", "src/base"),
    "src/complete": ("src/prompt", "src/model", "src/document", "src/base", "src/maskstore"),
    "lsp": ("src/complete", "src/document", "src/base"),
}
# Files of no room (src/main.c, src/config.c, src/cli/) wire everything together and may include every room.
# Headers of theirs that a room may include all the same: the settings, which the protocol changes too.
PROGRAM_HEADERS = {"src/config.h": ("lsp",), "src/engine_settings.h": ("lsp",), "src/defaults.h": tuple(ROOMS)}

# Which files may see which library: header pattern, pattern of the files that may include it, why.
LIBRARIES = (
    (r"jansson\.h", r"lsp/|src/config\.c$|src/cli/", "jansson is seen only by lsp/ and the settings"),
    (r"tree_sitter/|tree-sitter", r"src/document/", "tree-sitter is seen only by src/document/"),
    (r"uv\.h", r"lsp/", "libuv is seen only by lsp/"),
    (r"zlib\.h|libdeflate\.h", r"src/maskstore/extent\.c$", "zlib is seen only by src/maskstore/extent.c (as is libdeflate)"),
    (r"\w*mmintrin\.h|immintrin\.h|x86intrin\.h|cpuid\.h", r".*(avx|vnni|x86)\w*\.[ch]$|src/base/cpu\.c$",
     "x86 headers are seen only by the files for that instruction set"),
)

FILE_LINES = 800
FUNCTION_LINES = 100

# Calls that are banned: pattern, files where it is allowed, reason. Matched outside comments and strings.
BANNED_CALLS = (
    (r"\b(sprintf|vsprintf|strcpy|strcat|gets)\s*\(", r"tests/", "unbounded write: use the sized call"),
    (r"\b(atoi|atol|atoll|atof)\s*\(", None, "cannot report errors: use strtol and its kind"),
    (r"\b(rand|srand|strtok|localtime|gmtime)\s*\(", None, "hidden global state"),
    (r"\b(exit|_Exit|abort|quick_exit)\s*\(", r"src/main\.c$|tests/", "only main.c ends the program"),
    (r"\b_exit\s*\(", r"src/main\.c$|lsp/server\.c$|tests/", "only main.c and the server's watchdog end the program"),
    (r"\b(printf|vprintf|puts|putchar)\s*\(|\bstdout\b", r"src/(main\.c$|cli/)|tests/|tools/",
     "standard output belongs to the LSP frames: only the command line prints"),
)

# State that lives beyond a call is banned, but for these files (each says why in its opening comment).
MUTABLE_STATICS = r"src/base/(log|span)\.c$|src/main\.c$|tests/"

FLAGS = r"-march=native|-mtune=native|-ffast-math|-Ofast|-funsafe-math-optimizations"

# Host names of package registries and paths of one machine, in pieces so that this file does not name them itself.
HOSTS = "|".join(re.escape(a + b) for a, b in (
    ("py", "pi.org"), ("python", "hosted.org"), ("npm", "js.org"), ("npm", "js.com"), ("deb.deb", "ian.org"),
    ("security.deb", "ian.org"), ("registry.", "yarnpkg"), ("crates", ".io")))
PATHS = r"(?<![\w.$}\-])/(?:" + "|".join(a + b for a, b in (("wo", "rk"), ("ro", "ot"), ("home/\\", "w+"))) + r")/"

SOURCES = {".c", ".h", ".cu", ".py", ".sh", ".lua", ".ts", ".mjs", ".js", ".build"}
DATA = ("tests/data/", "tests/golden/", "tests/fuzz/", "tests/editors/project/")  # inputs of tests
SKIPPED_FOLDERS = {".git", "node_modules", "__pycache__", ".pytest_cache"}


class Tidy:
    def __init__(self, root):
        self.root = root
        self.found = []
        self.checked = 0
        self.files = sorted(self.list_files())

    def list_files(self):
        """Paths, relative to the root, of every file that is or would be committed."""
        if (self.root / ".git").exists() and shutil.which("git"):
            answer = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=self.root,
                                    capture_output=True, text=True)
            if answer.returncode == 0:
                return [n for n in answer.stdout.split("\0") if n and (self.root / n).is_file()]
        names = []
        for folder, folders, files in os.walk(self.root):
            rel = os.path.relpath(folder, self.root)
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("build")
                          and os.path.normpath(os.path.join(rel, f)) != os.path.join("grammars", "python")]
            names += [os.path.normpath(os.path.join(rel, f)) for f in files]
        return names

    def report(self, path, line, reason):
        self.found.append(f"{path}:{line}: {reason}")

    def read(self, path):
        """The file's lines, or None for a binary file."""
        data = (self.root / path).read_bytes()
        if b"\0" in data[:8192]:
            return None
        return data.decode("utf-8", "replace").splitlines()

    def run(self, compile_headers):
        meson = {os.path.dirname(p): "\n".join(self.read(p) or []) for p in self.files
                 if os.path.basename(p) == "meson.build"}
        for path in self.files:
            lines = self.read(path)
            if lines is None:
                continue
            self.checked += 1
            self.check_any(path, lines)
            suffix = pathlib.PurePath(path).suffix
            if suffix in SOURCES or (lines and lines[0].startswith("#!")):
                self.check_spdx(path, lines)
            if suffix in (".c", ".h", ".cu"):
                self.check_c(path, lines)
            if suffix == ".c" and path.startswith(("src/", "lsp/", "tests/")):
                self.check_is_built(path, meson)
        if compile_headers:
            self.check_headers_alone()

    # --- every text file -------------------------------------------------------------------------------------------

    def check_any(self, path, lines):
        own = path == "tools/tidy.py"
        data = path.startswith(DATA) and not path.endswith((".py", ".c"))
        for number, text in enumerate(lines, 1):
            if not data and re.search(HOSTS, text):
                self.report(path, number, "names a package registry's host")
            if not data and not own and re.search(PATHS, text):
                self.report(path, number, "names a path of one machine")
            if not own and re.search(FLAGS, text) and not path.endswith(".md") and "peer" not in path:
                self.report(path, number, "flag whose results differ between machines")

    def check_spdx(self, path, lines):
        if path.startswith(DATA) and not path.endswith((".c", ".build")):
            return  # test inputs are what they are
        first = [t for t in lines[:3] if not t.startswith("#!")]
        if lines and not any("SPDX-License-Identifier: MIT" in t for t in first[:2]):
            self.report(path, 1, "no SPDX line at the top")

    # --- C ---------------------------------------------------------------------------------------------------------

    def check_c(self, path, lines):
        code = blank_comments_and_strings(lines)
        if len(lines) > FILE_LINES and "generated" not in " ".join(lines[:5]):
            self.report(path, FILE_LINES + 1, f"file of {len(lines)} lines (limit {FILE_LINES})")
        for number, text in enumerate(lines, 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', text)
            if match:
                self.check_include(path, number, match.group(1) == '"', match.group(2))
        for number, text in enumerate(code, 1):
            self.check_calls(path, number, text)
        self.check_functions(path, lines, code)
        for number, text in enumerate(lines, 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text):
                self.report(path, number, "open end: finish it, or file an issue")

    def check_include(self, path, number, local, header):
        for pattern, allowed, reason in LIBRARIES:
            if re.match(pattern, header) and not path.startswith("tests/") and not re.match(allowed, path):
                self.report(path, number, reason)
        room = room_of(path)
        if not local or room is None:
            return
        target = self.resolve(path, header)
        if target is None:
            self.report(path, number, f'"{header}" is not found from src/, the top folder or the file\'s own')
            return
        other = room_of(target)
        if other is None and target.startswith("src/") and room not in PROGRAM_HEADERS.get(target, ()):
            self.report(path, number, f"{room} may not include {target}: it belongs to the program, above the rooms")
        if other is not None and other != room and other not in ROOMS[room]:
            self.report(path, number, f"{room} may not include {other} (rooms include downwards only)")

    def resolve(self, path, header):
        for base in (os.path.dirname(path), "src", "."):
            candidate = os.path.normpath(os.path.join(base, header))
            if (self.root / candidate).is_file():
                return candidate
        return None

    def check_calls(self, path, number, text):
        for pattern, allowed, reason in BANNED_CALLS:
            match = re.search(pattern, text)
            if match and not (allowed and re.match(allowed, path)):
                self.report(path, number, f"{match.group(0).strip(' (')}: {reason}")
        if (re.match(r"(static|_Thread_local)\s", text) and not re.search(r"\bconst\b|\binline\b|\(", text)
                and re.search(r"[=;]", text) and not re.match(MUTABLE_STATICS, path)):
            self.report(path, number, "state that outlives a call: pass a context")

    def check_functions(self, path, lines, code):
        start = None  # first line of the construct whose body is open
        head = 0  # first line of the declaration being read
        for index, text in enumerate(code):
            if start is None:
                if not text.strip():
                    head = index + 1
                elif text.startswith(("#", "}")) or text.rstrip().endswith(";"):
                    head = index + 1
                if text.rstrip().endswith("{") and (text.startswith("{") or not text.startswith((" ", "\t"))):
                    start = head
            elif text.startswith("}"):
                signature = " ".join(code[start:index + 1])[:400]
                length = index - start + 1
                if "(" in signature.split("{")[0] and "=" not in signature.split("{")[0] and length > FUNCTION_LINES:
                    if not has_reason_above(lines, start):
                        self.report(path, start + 1, f"function of {length} lines (limit {FUNCTION_LINES}) "
                                    "without a comment `// long: reason` above it")
                start, head = None, index + 1

    def check_is_built(self, path, meson):
        """The nearest meson.build names the file, its stem, or (in a list of tests) its stem without test_."""
        folder = os.path.dirname(path)
        while folder and folder not in meson:
            folder = os.path.dirname(folder)
        stem = pathlib.PurePath(path).stem
        names = "|".join(re.escape(n) for n in {stem, stem.removeprefix("test_")})
        if not re.search(rf"['/]({names})(\.c)?'", meson.get(folder, "")):
            self.report(path, 1, "no meson.build names this file, so it is neither built nor run")

    def check_headers_alone(self):
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            self.report("tools/tidy.py", 1, f"{compiler} is missing: headers could not be compiled alone")
            return
        flags = ["-std=c17", "-D_POSIX_C_SOURCE=200809L", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                 "-fsyntax-only", "-Isrc", "-I.", "-x", "c", "-"]
        for path in self.files:
            if not path.endswith(".h") or not path.startswith(("src/", "lsp/", "tests/")):
                continue
            own = ["-mavx2", "-mfma", "-mf16c"] if re.search(r"avx|vnni", path) else []
            own += ["-mavx512f", "-mavx512bw", "-mavx512vl"] if "avx512" in path else []
            answer = subprocess.run([compiler, *own, *flags], cwd=self.root, text=True, capture_output=True,
                                    input=f'#include "{path}"\nint tidy_unused;\n')
            if answer.returncode != 0:
                first = next((t for t in answer.stderr.splitlines() if "error" in t), "does not compile")
                self.report(path, 1, f"not self-contained: {first}")


def room_of(path):
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def has_reason_above(lines, start):
    index = start - 1
    while index >= 0 and lines[index].lstrip().startswith(("//", "*", "/*")):
        if re.search(r"\blong: \S", lines[index]):
            return True
        index -= 1
    return False


def blank_comments_and_strings(lines):
    """The same lines with the contents of comments and literals replaced by spaces."""
    text = "\n".join(lines)

    def blank(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]
        return re.sub(r"[^\n]", " ", found)

    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(pattern, blank, text, flags=re.S).split("\n")


def main():
    parser = argparse.ArgumentParser(description="the house rules as a test")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--no-compile", action="store_true", help="do not compile each header alone")
    options = parser.parse_args()
    tidy = Tidy(options.root.resolve())
    tidy.run(not options.no_compile)
    for line in tidy.found:
        print(line)
    print(f"tidy: {tidy.checked} files, {len(tidy.found)} places to mend")
    return 1 if tidy.found or not tidy.checked else 0


if __name__ == "__main__":
    sys.exit(main())
