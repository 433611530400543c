# SPDX-License-Identifier: MIT
"""The house-rule check finds each kind of breach, and leaves clean code alone."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "// SPDX-License-Identifier: MIT\n"
LONG_BODY = "\tint x = 0;\n" + "\tx++;\n" * 100


def tidy(root, files, *flags):
    """Runs tidy on a tree of the given files, each named in a meson.build unless the test says otherwise."""
    sources = " ".join(f"'{pathlib.PurePath(name).name}'" for name in files if name.endswith(".c"))
    files = {"meson.build": f"# SPDX-License-Identifier: MIT\nfiles({sources})\n", **files}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    answer = subprocess.run([sys.executable, ROOT / "tools" / "tidy.py", "--root", root, *flags], text=True,
                            capture_output=True)
    assert answer.stderr == ""
    *places, _ = answer.stdout.splitlines()
    assert answer.returncode == (1 if places else 0)
    return places


BREACHES = {
    "upward include": ("src/base/a.c", SPDX + '#include "model/model.h"\n', "2: src/base may not include src/model"),
    "store sees the model": ("src/maskstore/a.c", SPDX + '#include "model/model.h"\n', "2: src/maskstore may not"),
    "sideways include": ("src/prompt/a.c", SPDX + '#include "model/model.h"\n', "2: src/prompt may not include src/model"),
    "settings in a room": ("src/model/a.c", SPDX + '#include "config.h"\n', "2: src/model may not include src/config.h"),
    "lost header": ("src/base/a.c", SPDX + '#include "nothing.h"\n', '2: "nothing.h" is not found'),
    "jansson in a room": ("src/complete/a.c", SPDX + "#include <jansson.h>\n", "2: jansson is seen only by"),
    "tree-sitter outside": ("src/prompt/a.c", SPDX + "#include <tree_sitter/api.h>\n", "2: tree-sitter is seen only"),
    "libuv outside": ("src/complete/a.c", SPDX + "#include <uv.h>\n", "2: libuv is seen only by"),
    "zlib outside": ("src/maskstore/store.c", SPDX + "#include <zlib.h>\n", "2: zlib is seen only by"),
    "x86 in common code": ("src/kernels/kernels_c.c", SPDX + "#include <immintrin.h>\n", "2: x86 headers"),
    "no SPDX": ("src/base/a.c", "int x(void);\n", "1: no SPDX"),
    "long file": ("src/base/a.c", SPDX + "int x(void);\n" * 800, "801: file of 801 lines"),
    "long function": ("src/base/a.c", SPDX + "\nvoid f(void)\n{\n" + LONG_BODY + "}\n", "3: function of 104 lines"),
    "long function, brace at the end": ("src/base/a.c", SPDX + "\nvoid f(void) {\n" + LONG_BODY + "}\n", "3: function of 103"),
    "sprintf": ("src/base/a.c", SPDX + "void f(char *p) {\n\tsprintf(p, \"x\");\n}\n", "3: sprintf: unbounded"),
    "atoi": ("src/base/a.c", SPDX + "int f(char *p) {\n\treturn atoi(p);\n}\n", "3: atoi: cannot report"),
    "exit in a room": ("src/model/a.c", SPDX + "void f(void) {\n\texit(1);\n}\n", "3: exit: only main.c"),
    "printing in a room": ("src/model/a.c", SPDX + "void f(void) {\n\tprintf(\"x\");\n}\n", "3: printf: standard output"),
    "mutable state": ("src/model/a.c", SPDX + "static int n_calls = 0;\n", "2: state that outlives"),
    "open end": ("src/model/a.c", SPDX + "// TO" + "DO later\n", "2: open end"),
    "flag": ("src/meson.build", "# SPDX-License-Identifier: MIT\nargs = ['-ffast" + "-math']\n", "2: flag whose results"),
    "registry host": ("docs/a.md", "see https://py" + "pi.org/x\n", "1: names a package registry"),
    "machine path": ("docs/a.md", "in /ro" + "ot/x\n", "1: names a path of one machine"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_breach_is_found(tmp_path, breach):
    name, text, expected = BREACHES[breach]
    headers = {"src/model/model.h": SPDX, "src/config.h": SPDX}
    assert [p for p in tidy(tmp_path, {**headers, name: text}, "--no-compile") if p.startswith(f"{name}:{expected}")]


def test_source_that_nothing_builds_is_found(tmp_path):
    found = tidy(tmp_path, {"src/base/a.c": SPDX, "meson.build": "# SPDX-License-Identifier: MIT\n"}, "--no-compile")
    assert found == ["src/base/a.c:1: no meson.build names this file, so it is neither built nor run"]


def test_header_that_needs_another_first_is_found(tmp_path):
    found = tidy(tmp_path, {"src/base/a.h": SPDX + "size_t f(void);\n"})
    assert len(found) == 1 and found[0].startswith("src/base/a.h:1: not self-contained")


def test_clean_code_passes(tmp_path):
    clean = {
        "src/base/a.h": SPDX + "#include <stddef.h>\nsize_t f(void);\n",
        "src/base/a.c": SPDX + '// sprintf(p) in a comment\n#include "base/a.h"\nstatic const int table[] = {1};\n'
                        'static const char *const name = "exit(1)";\n',
        "src/model/b.c": SPDX + '#include "base/a.h"\n\n// long: one switch over all types reads best in one place\nvoid f(void)\n{\n'
                         + LONG_BODY + "}\n",
        "src/kernels/kernels_avx2.c": SPDX + "#include <immintrin.h>\n",
        "lsp/server.c": SPDX + "#include <jansson.h>\n#include <uv.h>\n",
    }
    assert tidy(tmp_path, clean) == []
