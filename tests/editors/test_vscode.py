# SPDX-License-Identifier: MIT
"""The server in a real VS Code (code-server in Chromium) with our extension, installed from its .vsix."""
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import editor

# The last line of the project's file is an empty one below a `for`.
TYPED = "        " + editor.TYPED


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Code:
    """one code-server with a fresh profile, our extension and a project of its own"""

    def __init__(self, folder, server):
        self.parts = editor.installed("vscode")
        self.folder = folder
        self.file = editor.make_project(folder / "project")
        self.marker = folder / "with space" / "cache"
        self.model = folder / "model.gguf"
        self.model.symlink_to(editor.model_file())
        self.profile = folder / "profile"
        self.write_settings(self.profile / "User", {
            "security.workspace.trust.enabled": False,
            "workbench.startupEditor": "none",
            "workbench.secondarySideBar.defaultVisibility": "hidden",
            "extensions.autoCheckUpdates": False,
            "editor.inlineSuggest.enabled": True,
            "files.autoSave": "off",
            "editor.autoClosingBrackets": "never",
            "editor.autoClosingQuotes": "never",
        })
        # In a remote window, which is what code-server shows, these belong to the remote machine.
        self.write_settings(self.profile / "Machine", {
            "maskstore.path": str(server),
            "maskstore.model": str(self.model),
            "maskstore.maxContext": 2048,
            "maskstore.strategy": "conservative",
            "maskstore.deadlineMs": 0,
        })
        self.write_settings(self.file.parent / ".vscode", {"workbench.startupEditor": "none"})
        self.log = open(folder / "code-server.log", "wb")
        # The server's own cache and log stay in this test's folder, as do code-server's files.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("VSCODE_")} | {
            "HOME": str(folder), "XDG_CACHE_HOME": str(self.marker)}
        self.process = None

    @staticmethod
    def write_settings(folder, settings):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings))

    def command(self, *arguments):
        entry = f"{self.parts['web']}/code-server/out/node/entry.js"
        return [self.parts["node"], entry, "--config", self.folder / "config.yaml", "--user-data-dir", self.profile,
                "--extensions-dir", self.folder / "extensions", *arguments]

    def start(self):
        (self.folder / "config.yaml").write_text("auth: none\n")
        subprocess.run(self.command("--install-extension", self.parts["vsix"]), check=True, timeout=120,
                       env=self.environment, stdout=self.log, stderr=self.log)
        port = free_port()
        self.process = subprocess.Popen(
            self.command("--auth", "none", "--bind-addr", f"127.0.0.1:{port}", "--disable-telemetry",
                         "--disable-update-check", "--disable-workspace-trust"),
            env=self.environment, stdout=self.log, stderr=self.log, start_new_session=True)

        def healthy():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).status == 200
            except (urllib.error.URLError, OSError):
                return False
        editor.wait_for("code-server answers", healthy, 60)
        payload = json.dumps([["openFile", f"vscode-remote://127.0.0.1:{port}{self.file}"]])
        query = urllib.parse.urlencode({"folder": str(self.file.parent), "payload": payload})
        return f"http://127.0.0.1:{port}/?{query}"

    def drive(self, act, url):
        editor.PICTURES.mkdir(parents=True, exist_ok=True)
        task = {"act": act, "modules": self.parts["web"], "chromium": self.parts["chromium"], "url": url,
                "typed": TYPED, "file": str(self.file), "before": self.file.read_text(),
                "pictures": str(editor.PICTURES), "server": str(editor.server_binary()),
                "model": str(self.model)}
        begin = time.monotonic()
        done = subprocess.run([self.parts["node"], editor.HERE / "web" / "drive.mjs", json.dumps(task)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        print(f"seconds: {seen['seconds']}, all {time.monotonic() - begin:.1f}; pictures in {editor.PICTURES}")
        return seen

    def quit(self):
        """as Ctrl+C in its terminal"""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def end(self):
        """after a test, however it went: only the session that was started here"""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):  # never started, or nothing of it is left
            pass
        self.log.close()


@pytest.fixture
def start(tmp_path):
    started = []

    def start_one(server):
        started.append(Code(tmp_path, server))
        return started[-1], started[-1].start()
    yield start_one
    for one in started:
        one.end()


def test_ghost_text_is_shown_taken_and_the_server_ends(start):
    code, url = start(editor.server_binary())
    before = code.file.read_text()
    ghost = code.drive("complete", url)["ghost"]
    assert ghost.strip()
    after = code.file.read_text()
    assert after.startswith(before + TYPED)
    taken = after[len(before + TYPED):]
    # On the screen the lines of ghost text stand below one another without their line ends.
    assert taken.rstrip("\n").replace("\n", "") == ghost, "the file holds what the ghost text promised"
    assert editor.processes(code.folder), "code-server keeps a window's server for a while: here it still runs"
    code.quit()
    editor.wait_until_gone(code.folder)


def test_missing_server_is_told_with_its_fix_and_starts_once_mended(start):
    code, url = start("/nowhere/maskstore")
    notice = code.drive("missing", url)["notice"]
    assert '"/nowhere/maskstore"' in notice and "tools/run" in notice and "maskstore.path" in notice
    assert editor.processes(code.folder), "the server runs once maskstore.path is right"
    code.quit()
    editor.wait_until_gone(code.folder)
