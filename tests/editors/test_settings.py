# SPDX-License-Identifier: MIT
"""The clients name only settings that the server has, and all carry one version number. No editor is needed."""
import json
import re
import subprocess

import editor

VSCODE = editor.ROOT / "editors" / "vscode"
NVIM = editor.ROOT / "editors" / "nvim"
# Settings of the extension itself.
OWN = {"path", "trace.server"}


def server_says(flag):
    return subprocess.run([editor.server_binary(), flag], check=True, stdout=subprocess.PIPE, text=True, timeout=20).stdout


def server_settings():
    """flag to JSON key, from the table in --help"""
    rows = re.findall(r"^  (--[a-z-]+) +MASKSTORE_[A-Z_]+ +(\w+) ", server_says("--help"), re.MULTILINE)
    assert rows, "--help holds a table of flag, variable and key"
    return dict(rows)


def manifest():
    return json.loads((VSCODE / "package.json").read_text())


def test_vscode_settings_are_the_servers():
    known = server_settings()
    passed_on = dict(re.findall(r"^  \['(\w+)', '(--[a-z-]+)'\],$", (VSCODE / "src" / "command.ts").read_text(), re.MULTILINE))
    names = {name.removeprefix("maskstore.") for name in manifest()["contributes"]["configuration"]["properties"]}
    assert names - OWN == set(passed_on), "each setting of package.json becomes a flag, and no other does"
    for name, flag in passed_on.items():
        assert known.get(flag) == name, f"{flag} is {known.get(flag)} in the server, {name} in VS Code"


def test_vscode_strategies_are_the_servers():
    offered = manifest()["contributes"]["configuration"]["properties"]["maskstore.strategy"]["enum"]
    for name in filter(None, offered):
        done = subprocess.run([editor.server_binary(), "--strategy", name, "--version"], capture_output=True, timeout=20)
        assert done.returncode == 0, done.stderr


def test_neovim_options_are_the_servers():
    known = server_settings()
    flags = dict(re.findall(r"\{ '(\w+)', '(--[a-z-]+)' \}", (NVIM / "lua" / "maskstore" / "init.lua").read_text()))
    assert flags
    for name, flag in flags.items():
        assert flag in known, f"option {name} becomes {flag}, which the server does not have"
        assert flag == "--" + name.replace("_", "-")


def test_one_version_number():
    lock = json.loads((VSCODE / "package-lock.json").read_text())
    version = manifest()["version"]
    assert lock["version"] == version and lock["packages"][""]["version"] == version
    assert server_says("--version").split()[1] == version


def test_lock_files_name_no_registry():
    for path in (VSCODE / "package-lock.json", editor.HERE / "web" / "package-lock.json"):
        packages = json.loads(path.read_text())["packages"]
        for name, entry in packages.items():
            assert "resolved" not in entry, f"{path.name}: {name} names where it was fetched"
            assert name == "" or "integrity" in entry, f"{path.name}: {name} is not pinned by a hash"
