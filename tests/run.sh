#!/usr/bin/env bash
# Installs what the tests need and runs them all: formatting, clippy, the rules of deny.toml, the types of the Python, the tests,
# the table of faults, and a quick part of the evaluation.
# Needs rustup's cargo with clippy and rustfmt, a C linker, and CPython 3.11 or later. What is missing of Debian's
# packages is installed when run as root, else named.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

need_package() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"
    else
        printf 'tests/run.sh: missing %s; install with: sudo apt-get install %s\n' "$*" "$*" >&2
        exit 1
    fi
}

if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
if ! command -v cargo >/dev/null; then
    echo 'tests/run.sh: cargo not found; install Rust from rustup.rs' >&2
    exit 1
fi
command -v cc >/dev/null || need_package build-essential
command -v pkill >/dev/null || need_package procps

step 'Python packages (torch among them: some 3 GB the first time)'
python=${PYTHON:-python3}
venv=${TRAINMON_VENV:-.venv}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "tests/run.sh: $python is older than 3.11, which torch 2.15 needs; name a newer one with PYTHON=python3.12" >&2
    exit 1
fi
if [ ! -x "$venv/bin/pip" ]; then
    "$python" -m venv "$venv" 2>/dev/null || { need_package python3-venv; "$python" -m venv --clear "$venv"; }
fi
"$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check -r tests/requirements.txt
# An older py-spy names functions without their class: its stacks are tested too.
"$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --upgrade --target "$venv/older" \
    -r tests/requirements-older.txt

step 'formatting'
cargo fmt --all -- --check

step 'clippy'
cargo clippy --quiet --all-targets -- -D warnings

step 'what it is built from: licences, duplicates, sources (cargo-deny itself is built the first time: some minutes)'
tools="$(pwd)/target/tools"
deny=$(command -v cargo-deny || echo "$tools/bin/cargo-deny")
if [ ! -x "$deny" ]; then
    cargo install --quiet --locked --debug --no-default-features --root "$tools" --target-dir "$tools/build" \
        cargo-deny@0.20.2
    rm -rf "$tools/build"
fi
"$deny" --locked check --hide-inclusion-graph licenses bans sources

step 'types of the Python under tests'
"$venv/bin/mypy"

step 'tests'
VIRTUAL_ENV="$(cd "$venv" && pwd)" cargo test --quiet

step 'tests of the harness'
cargo build --quiet --release --bins --examples
"$venv/bin/python" -m unittest discover tests

step 'size of the engine'
"$venv/bin/python" tests/dev.py size

step 'faults'
"$venv/bin/python" tests/faults.py

step 'evaluation, quick part'
"$venv/bin/python" tests/evaluate.py --quick --min-class 0.75 --no-contradictions

step 'all passed'
