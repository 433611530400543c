# SPDX-License-Identifier: MIT
"""The server in real Neovims: ghost text in 0.12-dev, the completion menu in 0.11.4. Keys go in as a person's would."""
import os
import signal
import time

import pynvim
import pytest

import editor

GHOST = "nvim.lsp.inline_completion"


class Neovim:
    """one Neovim with our client set up as editors/nvim/README.md says, in a project of its own"""

    def __init__(self, version, folder, **options):
        self.file = editor.make_project(folder / "project")
        self.marker = folder / "cache"
        binary = editor.installed("nvim")[f"nvim-{version}"]
        self.nvim = pynvim.attach("child", argv=[binary, "--embed", "--headless", "--clean", "-n"])
        self.pid = self.nvim.funcs.getpid()
        self.nvim.ui_attach(200, 50, rgb=True)  # wide enough that no message asks for Enter
        self.nvim.command(f"cd {self.file.parent}")
        self.nvim.command(f"set runtimepath+={editor.ROOT}/editors/nvim")
        settings = {"path": str(editor.server_binary()), "model": str(editor.model_file()),
                    "cache_dir": str(self.marker), "strategy": "conservative", "deadline_ms": 0,
                    "max_context": 2048} | options
        self.lua("require('maskstore').setup(...)", settings)

    def lua(self, code, *arguments):
        return self.nvim.exec_lua(code, *arguments)

    def open(self):
        self.nvim.command(f"edit {self.file}")
        editor.wait_for("the server attaches", lambda: self.lua(
            "local c = vim.lsp.get_clients({ bufnr = 0, name = 'maskstore' })[1]; return c and c.initialized"), 20)

    def lines(self):
        return list(self.nvim.current.buffer[:])

    def messages(self):
        return self.nvim.command_output("messages")

    def ghost(self):
        """the ghost text on the screen now, else an empty string"""
        marks = self.lua("""
            local ns = vim.api.nvim_get_namespaces()[...]
            return ns and vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true }) or {}""", GHOST)
        if not marks:
            return ""
        details = marks[0][3]
        rows = [details["virt_text"], *details.get("virt_lines", [])]
        return "\n".join("".join(piece[0] for piece in row) for row in rows)

    def type_until_ghost(self, keys):
        """Types at the end of the file. While the model still loads there is no answer: insert mode is then entered
        again, each time after twice as long, as that ends the request before."""
        self.nvim.input("Go" + keys)
        for seconds in (5, 10, 20, 40, 80):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                ghost = self.ghost()
                if ghost:
                    return ghost
                time.sleep(0.05)
            self.nvim.input("<Esc>a")
        return pytest.fail(f"no ghost text; Neovim says: {self.messages()}")

    def quit(self):
        try:
            self.nvim.command("qall!")
        except (EOFError, OSError):  # the other end is gone, as asked
            pass
        editor.wait_until_gone(self.marker)

    def end(self):
        """after a test, however it went; only the process started here"""
        try:
            self.nvim.close()
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass


@pytest.fixture
def start(tmp_path, monkeypatch):
    editor.installed("nvim")  # before the cache folder is another one
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder))
    editors = []

    def start_one(version, **options):
        editors.append(Neovim(version, tmp_path, **options))
        return editors[-1]
    yield start_one
    for one in editors:
        one.end()


@pytest.fixture
def nvim12(start):
    nvim = start("0.12")
    nvim.open()
    return nvim


def test_ghost_text_is_shown_taken_and_the_server_ends(nvim12):
    before = nvim12.lines()
    ghost = nvim12.type_until_ghost(editor.TYPED)
    line = nvim12.lines()[-1]
    assert line.endswith(editor.TYPED), "ghost text is not in the buffer before it is taken"
    assert ghost.strip()
    assert editor.processes(nvim12.marker), "the check for processes sees the running server"
    nvim12.nvim.input("<Tab>")
    wanted = before + (line + ghost).split("\n")
    editor.wait_for("Tab takes the ghost text", lambda: nvim12.lines() == wanted, 5)
    row, column = nvim12.nvim.current.window.cursor
    assert (row, column) == (len(wanted), len(wanted[-1].encode())), "the cursor is behind the text"
    nvim12.quit()


def test_key_typed_into_the_ghost_text_is_not_doubled(nvim12):
    before = nvim12.lines()
    ghost = nvim12.type_until_ghost(editor.TYPED)
    line = nvim12.lines()[-1]
    # In one go: before Neovim's next request, while it still holds the older item.
    nvim12.nvim.input(ghost[0].replace("<", "<lt>") + "<Tab>")
    wanted = before + (line + ghost).split("\n")
    editor.wait_for("Tab completes what was typed", lambda: nvim12.lines() == wanted, 5)


def test_ghost_text_that_no_longer_fits_is_not_taken(nvim12):
    ghost = nvim12.type_until_ghost(editor.TYPED)
    line = nvim12.lines()[-1]
    wrong = "~" if ghost[0] != "~" else "?"
    nvim12.nvim.input(wrong + "<Tab>")
    editor.wait_for("the key comes through", lambda: nvim12.lines()[-1] != line + wrong, 5)
    assert nvim12.lines()[-1].startswith(line + wrong)
    assert nvim12.lines()[-1][len(line) + 1:].isspace(), "Tab is a Tab"


def test_tab_without_ghost_text_is_a_tab(nvim12):
    nvim12.nvim.input("ggO<Tab>x")
    editor.wait_for("the keys arrive", lambda: nvim12.lines()[0].endswith("x"), 5)
    assert nvim12.lines()[0].expandtabs(4) == "    x"


def test_server_ends_when_neovim_is_killed(nvim12):
    assert editor.processes(nvim12.marker)
    os.kill(nvim12.pid, signal.SIGKILL)
    editor.wait_until_gone(nvim12.marker)


def test_menu_of_0_11(start):
    nvim = start("0.11")
    nvim.open()
    assert nvim.lua("return vim.lsp.inline_completion == nil")
    before = nvim.lines()
    nvim.nvim.input("Go" + editor.TYPED)

    def items():
        return nvim.lua("""
            local params = vim.lsp.util.make_position_params(0, vim.lsp.get_clients({ bufnr = 0 })[1].offset_encoding)
            local replies = vim.lsp.buf_request_sync(0, 'textDocument/completion', params, 30000)
            local result = replies and (select(2, next(replies)) or {}).result
            return result and (result.items or result) or {}""")
    item = editor.wait_for("the model is loaded and an item comes", items, 120, every=0.5)[0]
    text = item["textEdit"]["newText"] if "textEdit" in item else item.get("insertText", item["label"])
    assert text.strip()

    def menu():
        if not nvim.nvim.funcs.pumvisible():
            nvim.nvim.input("<C-Space>")
            time.sleep(2)
        return nvim.nvim.funcs.pumvisible()
    editor.wait_for("the menu opens", menu, 60)
    line = nvim.lines()[-1]
    nvim.nvim.input("<C-n><C-y>")
    editor.wait_for("the item is taken", lambda: nvim.lines()[len(before)] != line, 5)
    time.sleep(0.3)
    wanted = before + (line[:item["textEdit"]["range"]["start"]["character"]] + text).split("\n") \
        if "textEdit" in item else before + (line + text).split("\n")
    assert nvim.lines() == wanted, "the whole text is there, not its first word"
    nvim.quit()


@pytest.mark.parametrize("version", ["0.12", "0.11"])
def test_health_check(start, version):
    nvim = start(version)
    nvim.open()
    nvim.nvim.command("checkhealth maskstore")
    report = "\n".join(nvim.lines())
    assert "ERROR" not in report, report
    assert f"{editor.server_binary()}: " in report
    assert "server runs for 1 buffer(s)" in report


def test_missing_binary_is_told_with_its_fix(start, tmp_path):
    nvim = start("0.12", path=str(tmp_path / "nowhere"))
    assert "cannot run" in nvim.messages() and "tools/run" in nvim.messages()
    nvim.nvim.command("checkhealth maskstore")
    assert "ERROR cannot run" in "\n".join(nvim.lines())
