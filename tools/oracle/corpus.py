#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real Python sources from pinned PyPI wheels (corpus-requirements.txt), fetched once into the cache and read as zips.

    tools/oracle/corpus.py              fetch what is missing, print files and bytes
    tools/oracle/corpus.py --out DIR    write the sources there too
"""

import subprocess
import sys
import zipfile
from functools import lru_cache
from pathlib import Path

from reference import CACHE

FOLDER = CACHE / "corpus"
REQUIREMENTS = Path(__file__).with_name("corpus-requirements.txt")


def pins():
    lines = REQUIREMENTS.read_text().splitlines()
    return [line.split()[0].split("==") for line in lines if "==" in line]


def wheel_of(name, version):
    return next(FOLDER.glob(f"{name}-{version}-*.whl"), None)


def fetch():
    """Downloads the wheels, with pip checking each hash, unless all of them lie in the cache."""
    if all(wheel_of(*pin) for pin in pins()):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "-r", REQUIREMENTS, "-d", FOLDER], check=True)


@lru_cache(maxsize=None)
def sources():
    """Path inside the wheels to bytes, in the order of the pins, then by path."""
    fetch()
    found = {}
    for name, version in pins():
        with zipfile.ZipFile(wheel_of(name, version)) as wheel:
            for path in sorted(wheel.namelist()):
                if path.endswith(".py"):
                    found[path] = wheel.read(path)
    return found


def main():
    files = sources()
    if "--out" in sys.argv:
        out = Path(sys.argv[sys.argv.index("--out") + 1])
        for path, data in files.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_bytes(data)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main()
