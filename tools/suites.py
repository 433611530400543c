#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the test suites and counts. Called by tools/test after the set-up, with the Python of the tests' environment.

Each suite is a function that returns a Result. What a suite expects to find is listed here by name: a missing file is a
failure, never a silent pass. Logs go to build-test/logs/. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build-test"
LOGS = OUT / "logs"
SHARED = pathlib.Path(os.environ.get("MASKSTORE_SHARED", ROOT.parent / "shared"))

SESSIONS = ("tests/cli", "tests/e2e")  # the built binary driven from outside
# What has more than one thread: unit tests by name, and sessions with the whole server.
THREADED = ("base-pool", "maskstore-store", "maskstore-archive", "maskstore-archive-disk", "document-syntax", "engine",
            "fill", "pace", "model-session", "model-restart", "lsp-watch")
THREADED_SESSIONS = ("tests/e2e/test_lifecycle.py",)  # decoding under TSan is the unit test engine's
FUZZ_TARGETS = ("gguf", "framing", "edits", "extent")
FUZZ_SECONDS = 30
TIDY_MIN_FILES = 50
TRIAL_FLAGS = ("--stdio", "--model", "{model}", "--cache-dir", "{cache}", "--strategy", "conservative",
               "--deadline-ms", "0", "--max-context", "2048")
# The build folders below build-test/, each with its meson options.
BUILDS = {
    "gcc": ("gcc", "--buildtype=debugoptimized", "-Dwerror=true", "-Dtests=enabled"),
    "release": ("gcc", "--buildtype=release", "-Dwerror=true", "-Dtests=disabled"),
    "clang": ("clang", "--buildtype=debugoptimized", "-Dwerror=true", "-Dtests=enabled"),
    "scalar": ("gcc", "--buildtype=debugoptimized", "-Dwerror=true", "-Dtests=enabled", "-Davx2=disabled"),
    # -O2 keeps the sanitized decoder usable; asserts stay on.
    "asan": ("gcc", "--buildtype=debugoptimized", "-Dtests=enabled", "-Db_sanitize=address,undefined"),
    "tsan": ("gcc", "--buildtype=debugoptimized", "-Dtests=enabled", "-Db_sanitize=thread"),
    "fuzz": ("clang", "--buildtype=debugoptimized", "-Dtests=enabled", "-Dfuzzing=libfuzzer",
             "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dc_args=-fsanitize=fuzzer-no-link"),
}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={ROOT / 'tests/document/tsan.supp'}",
}


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list = dataclasses.field(default_factory=list)  # one line each: what failed or was skipped, and why

    def ok(self, count=1):
        self.passed += count

    def fail(self, note):
        self.failed += 1
        self.notes.append(f"failed: {note}")

    def skip(self, note):
        self.skipped += 1
        self.notes.append(f"skipped: {note}")

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes


class SuiteError(Exception):
    """The suite could not be run; the text is the reason."""


def clean_env(**more):
    """The environment without the settings of a person's own maskstore."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MASKSTORE_", "MS_")) or k == "MASKSTORE_FULL"}
    env.update({"MASKSTORE_SHARED": str(SHARED), **SANITIZER_ENV, **more})
    return env


def run(log, command, timeout=900, env=None, cwd=ROOT):
    """Runs a command with output to a log file below LOGS; gives its exit status, -1 for a time-out."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / log, "ab") as out:
        out.write(("\n$ " + " ".join(map(str, command)) + "\n").encode())
        out.flush()
        try:
            return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  env=env or clean_env(), cwd=cwd, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            out.write(f"\ntimed out after {timeout} s\n".encode())
            return -1


def tail(log, lines=25):
    with contextlib.suppress(OSError):
        text = (LOGS / log).read_text(errors="replace").splitlines()
        print("\n".join("    | " + t for t in text[-lines:]), flush=True)


def build(name, targets=()):
    """Configures one of BUILDS and builds all of it, or the given targets; gives its folder."""
    compiler, *options = BUILDS[name]
    folder, log = OUT / name, f"build-{name}.log"
    if not shutil.which(compiler):
        raise SuiteError(f"{compiler} is not installed")
    key = json.dumps(BUILDS[name])
    stamp = folder / "options.json"
    if folder.exists() and (not stamp.exists() or stamp.read_text() != key):
        shutil.rmtree(folder)
    if not stamp.exists():
        if run(log, ["meson", "setup", folder, ROOT, *options], env=clean_env(CC=compiler)) != 0:
            tail(log)
            raise SuiteError(f"meson could not configure the {name} build (build-test/logs/{log})")
        stamp.write_text(key)
    if run(log, ["ninja", "-C", folder, *targets], timeout=1500) != 0:
        tail(log, 40)
        raise SuiteError(f"the {name} build failed (build-test/logs/{log})")
    return folder


def meson_tests(folder, log, suites=(), names=(), env=None, multiplier=1):
    """Runs meson tests. One cmocka program counts as many tests as it says it ran, any other as one."""
    result = Result()
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--timeout-multiplier", str(multiplier),
               "--num-processes", str(os.cpu_count() or 1), *names]
    for suite in suites:
        command += ["--suite", suite]
    with contextlib.suppress(FileNotFoundError):
        (folder / "meson-logs" / "testlog.json").unlink()
    run(log, command, timeout=2400, env=env)
    records = []
    missing = set(names)
    with contextlib.suppress(FileNotFoundError):
        with open(folder / "meson-logs" / "testlog.json") as f:
            records = [json.loads(line) for line in f if line.strip()]
    if not records:
        raise SuiteError(f"meson ran no test (build-test/logs/{log})")
    for record in records:
        count_record(result, record)
        missing.discard(record["name"].split(" / ")[-1])
    for name in missing:
        result.fail(f"there is no test {name}")
    return result


def count_record(result, record):
    output = (record.get("stdout") or "") + (record.get("stderr") or "")
    inner = {word: sum(int(n) for n in re.findall(rf"\[  {word}  \] (\d+) test", output))
             for word in ("PASSED", "FAILED", "SKIPPED")}
    name = record["name"]
    if record["result"] in ("OK", "EXPECTEDFAIL"):
        result.ok(max(1, inner["PASSED"]))
        if inner["SKIPPED"]:
            result.skipped += inner["SKIPPED"]
            result.notes.append(f"skipped: {inner['SKIPPED']} in {name}")
    elif record["result"] == "SKIP":
        reason = next((t for t in output.splitlines() if "skip" in t.lower()), "exit status 77")
        result.skip(f"{name}: {reason.strip()}")
    else:
        result.ok(inner["PASSED"])
        result.fail(f"{name}: {record['result']}, exit status {record.get('returncode')}")
        print("\n".join("    | " + t for t in output.splitlines()[-25:]), flush=True)


def pytest(log, paths, binary, timeout=1800, env=None, arguments=()):
    """Runs pytest on paths with the given maskstore binary; counts from its JUnit file."""
    result = Result()
    for path in paths:
        if not (ROOT / path).exists():
            raise SuiteError(f"{path} is missing")
    report = LOGS / (log + ".xml")
    with contextlib.suppress(FileNotFoundError):
        report.unlink()
    more = {"MASKSTORE_BIN": str(binary), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    status = run(log, [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "-rs",
                       *arguments, *paths], timeout=timeout, env=clean_env(**more))
    if not report.exists():
        tail(log)
        raise SuiteError(f"pytest ended with status {status} and no report (build-test/logs/{log})")
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = {child.tag: child for child in case}
        if "failure" in kinds or "error" in kinds:
            text = kinds.get("failure", kinds.get("error")).get("message") or ""
            result.fail(f"{name}: {text.splitlines()[0][:160] if text else 'error'}")
        elif "skipped" in kinds:
            result.skip(f"{name}: {kinds['skipped'].get('message')}")
        else:
            result.ok()
    if status not in (0, 1):
        result.fail(f"pytest ended with status {status}")
    if result.failed:
        tail(log, 40)
    return result


def trials(log, binary, model, timeout_s=60, multiplier=1):
    """The black-box sessions of ../shared/trials, each one test."""
    folder = SHARED / "trials"
    found = sorted(folder.glob("[0-9]*.py"))
    result = Result()
    if not found:
        result.skip("../shared/trials is missing (MASKSTORE_SHARED names the folder)")
        return result
    for path in found:
        before = (LOGS / log).stat().st_size if (LOGS / log).exists() else 0
        status = run(log, [sys.executable, path, "--timeout", timeout_s * multiplier, "--model", model, "--",
                           binary, *TRIAL_FLAGS], timeout=900 * multiplier,
                     env=clean_env(PYTHONDONTWRITEBYTECODE="1"))
        said = (LOGS / log).read_bytes()[before:].decode(errors="replace").strip().splitlines()
        line = next((t for t in reversed(said) if t.startswith(("PASS", "FAIL", "SKIP"))), said[-1] if said else "")
        if status == 0:
            result.ok()
        elif status == 77:
            result.skip(f"trial {path.stem}: {line}")
        else:
            result.fail(f"trial {path.stem}: {line or f'exit status {status}'}")
    return result


def fetch_model(name):
    answer = subprocess.run([str(ROOT / "tools" / "fetch-model"), name], stdout=subprocess.PIPE, text=True,
                            cwd=ROOT)
    if answer.returncode != 0:
        raise SuiteError(f"tools/fetch-model {name} failed")
    return answer.stdout.strip().splitlines()[-1]


# --- the suites ----------------------------------------------------------------------------------------------------


def suite_tidy():
    result = Result()
    answer = subprocess.run([sys.executable, ROOT / "tools" / "tidy.py"], text=True, stdout=subprocess.PIPE, cwd=ROOT)
    *places, last = answer.stdout.strip().splitlines() or [""]
    files = int((re.search(r"tidy: (\d+) files", last) or [0, "0"])[1])
    for place in places:
        result.fail(place)
    if answer.returncode == 0 and files >= TIDY_MIN_FILES:
        result.ok()
    elif not places:
        result.fail(f"tidy looked at {files} files: {last}")
    return result


def suite_tools():
    return pytest("tools.log", ["tests/tools"], "unused")


def suite_unit():
    result = meson_tests(build("gcc"), "unit.log")
    # The same tests on a build without AVX2 kernels: what other instruction sets run.
    result.add(meson_tests(build("scalar"), "unit-scalar.log"))
    return result


def suite_builds():
    """Both compilers, warnings as errors, and other instruction sets: object code for arm64 with the scalar kernels."""
    result = Result()
    for name in ("gcc", "release", "clang", "scalar"):
        try:
            build(name)
            result.ok()
        except SuiteError as error:
            result.fail(str(error))
    status = run("build-arm64.log", [ROOT / "tools" / "build-other-isa", "aarch64"])
    if status == 0:
        result.ok()
    elif status == 77:
        result.skip("arm64: clang or libc6-dev-arm64-cross is not installed")
    else:
        tail("build-arm64.log")
        result.fail("the sources do not compile for arm64 (build-test/logs/build-arm64.log)")
    return result


def suite_e2e():
    return pytest("e2e.log", SESSIONS, build("gcc") / "maskstore")


def suite_golden():
    """Tokens, logits and greedy text against the committed answers of transformers, tokenizers and llama.cpp."""
    return pytest("golden.log", ["tests/golden"], build("release") / "maskstore")


def suite_trials():
    return trials("trials.log", build("release") / "maskstore", fetch_model("smollm2"))


def suite_asan():
    folder = build("asan")
    result = meson_tests(folder, "asan-unit.log", multiplier=6)
    result.add(pytest("asan-e2e.log", SESSIONS, folder / "maskstore", timeout=2400,
                      env={"MASKSTORE_TEST_SLOW": "4"}))  # the tests multiply their time limits by this
    result.add(trials("asan-trials.log", folder / "maskstore", fetch_model("smollm2"), multiplier=4))
    return result


def suite_tsan():
    folder = build("tsan")
    result = meson_tests(folder, "tsan-unit.log", names=THREADED, multiplier=10)
    result.add(pytest("tsan-e2e.log", THREADED_SESSIONS, folder / "maskstore", timeout=2400,
                      env={"MASKSTORE_TEST_SLOW": "10"}))
    return result


def suite_fuzz():
    folder = build("fuzz", [f"tests/fuzz/fuzz_{target}" for target in FUZZ_TARGETS])
    result = Result()
    for target in FUZZ_TARGETS:
        program = folder / "tests" / "fuzz" / f"fuzz_{target}"
        corpus = ROOT / "tests" / "fuzz" / "corpus" / target
        if not program.exists() or not corpus.is_dir():
            result.fail(f"fuzz target {target}: {program if not program.exists() else corpus} is missing")
            continue
        grown = OUT / "fuzz-corpus" / target
        grown.mkdir(parents=True, exist_ok=True)
        log = f"fuzz-{target}.log"
        status = run(log, [program, f"-max_total_time={FUZZ_SECONDS}", "-rss_limit_mb=4096", "-timeout=20",
                           f"-artifact_prefix={LOGS}/fuzz-{target}-", grown, corpus], timeout=FUZZ_SECONDS + 300)
        if status == 0:
            result.ok()
        else:
            tail(log, 30)
            result.fail(f"fuzz target {target} (build-test/logs/{log} and the input beside it)")
    return result


def suite_editors():
    return pytest("editors.log", ["tests/editors"], build("release") / "maskstore", timeout=1800)


SUITES = {
    "tidy": suite_tidy,
    "tools": suite_tools,
    "builds": suite_builds,
    "unit": suite_unit,
    "golden": suite_golden,
    "e2e": suite_e2e,
    "trials": suite_trials,
    "asan": suite_asan,
    "tsan": suite_tsan,
    "fuzz": suite_fuzz,
    "editors": suite_editors,
}
LEFT_OUT_BY_QUICK = ("editors",)


def run_suite(name):
    began = time.monotonic()
    print(f"{name} …", flush=True)
    try:
        result = SUITES[name]()
        if result.passed + result.failed + result.skipped == 0:
            result.fail(f"{name}: nothing ran")
    except SuiteError as error:
        result = Result()
        result.fail(f"{name}: {error}")
    except Exception as error:  # a broken suite is a failed suite, and the others still run
        result = Result()
        result.fail(f"{name}: {type(error).__name__}: {error}")
    for note in result.notes:
        print(f"  {note}")
    print(f"{name}: {result.passed} ok, {result.failed} bad, {result.skipped} left out, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(prog="tools/test", description="all tests, or the named suites")
    parser.add_argument("--quick", action="store_true", help="leave the editors out")
    parser.add_argument("suite", nargs="*", metavar="suite", help=", ".join(SUITES))
    options = parser.parse_args()
    unknown = [name for name in options.suite if name not in SUITES]
    if unknown:
        parser.error(f"unknown suite {unknown[0]!r}; there are: {', '.join(SUITES)}")
    names = options.suite or [n for n in SUITES if not (options.quick and n in LEFT_OUT_BY_QUICK)]
    shutil.rmtree(LOGS, ignore_errors=True)
    total = Result()
    for name in names:
        total.add(run_suite(name))
    failures = [note for note in total.notes if note.startswith("failed:")]
    if failures and len(names) > 1:
        print("\nall failures:")
        for note in failures:
            print(f"  {note}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
