#!/usr/bin/env bash
# Checks what must hold before a change is merged, the cheapest checks first.
#
#   tests/run.sh --quick   format, lints, and the tests that need no torch: under two minutes once everything is built
#   tests/run.sh           the same, then every other test, the fault table, and a short evaluation (3 GB of torch)
#
# Needs cargo from rustup.rs, a C compiler, and CPython 3.11 or later. As root it installs the Debian packages that are
# missing; otherwise it names them. PYTHON=python3.12 picks another Python. TRAINMON_VENV=DIR keeps the Python packages in
# another folder than .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

# Under nohup, or in the background of a script, some signals are ignored. Tests of signals would inherit that.
if [ -z "${signals_are_default-}" ]; then
    exec env --default-signal=HUP,INT,QUIT signals_are_default=yes tests/run.sh "$@"
fi

fail() {
    printf 'tests/run.sh: %s\n' "$*" >&2
    exit 1
}

quick=
case ${1-} in
'') ;;
--quick) quick=yes ;;
-h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/run.sh && exit ;;
*) fail "unknown option $1; try --quick or --help" ;;
esac

need_package() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"
    else
        fail "$* is missing; install it: sudo apt-get install $*"
    fi
}

output=$(mktemp)
names=() results=() times=()

# Prints a row for each part that ran, whether or not all of them passed.
summary() {
    local status=$? at
    rm -f "$output"
    [ ${#names[@]} -gt 0 ] || return
    printf '\n%-26s %-20s %7s\n' part result time
    for at in "${!names[@]}"; do
        printf '%-26s %-20s %3d:%02d\n' "${names[at]}" "${results[at]}" $((times[at] / 60)) $((times[at] % 60))
    done
    [ "$status" = 0 ] && state="all passed, ${tests} tests" || state=FAILED
    printf '%-26s %-20s %3d:%02d\n' total "$state" $((SECONDS / 60)) $((SECONDS % 60))
}
tests=0
trap summary EXIT

# Runs a command as one part of the checks: part NAME COMMAND...
part() {
    local name=$1 began=$SECONDS status=0 passed
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$output" || status=$?
    # What `cargo test`, unittest and the fault table print.
    passed=$(awk '/^test result: ok/ { n += $4 } /^Ran [0-9]+ tests? / { n += $2 } / of [0-9]+ hold,/ { n += $1 } END { print n + 0 }' "$output")
    tests=$((tests + passed))
    names+=("$name")
    times+=($((SECONDS - began)))
    if [ "$status" != 0 ]; then
        results+=("FAILED")
        exit "$status"
    fi
    if [ "$passed" = 0 ]; then results+=("ok"); else results+=("$passed passed"); fi
}

if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
command -v cargo >/dev/null || fail 'cargo is missing; install Rust from rustup.rs'
cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
command -v cc >/dev/null || need_package build-essential
command -v pkill >/dev/null || need_package procps

python=${PYTHON:-python3}
venv=${TRAINMON_VENV:-.venv}
command -v "$python" >/dev/null || need_package python3 python3-venv
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is older than 3.11; name a newer one: PYTHON=python3.12 tests/run.sh"
if [ ! -x "$venv/bin/pip" ]; then
    "$python" -m venv "$venv" 2>/dev/null || { need_package python3-venv; "$python" -m venv --clear "$venv"; }
fi
# The integration tests take py-spy from it.
VIRTUAL_ENV=$(cd "$venv" && pwd)
export VIRTUAL_ENV
pip=("$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check)

# Without torch and the other libraries their classes have no types, so fewer checks make sense.
types() {
    local loose=()
    "$venv/bin/python" -c 'from importlib.util import find_spec; exit(not (find_spec("torch") and find_spec("mcp")))' ||
        loose=(--ignore-missing-imports --allow-subclassing-any --no-warn-return-any --allow-untyped-decorators)
    "$venv/bin/mypy" "${loose[@]}"
}

licenses() {
    local tools="$PWD/target/tools" deny
    deny=$(command -v cargo-deny || echo "$tools/bin/cargo-deny")
    if [ ! -x "$deny" ]; then
        echo 'building cargo-deny, once: a few minutes'
        cargo install --quiet --locked --debug --no-default-features --root "$tools" --target-dir "$tools/build" \
            cargo-deny@0.20.2 || return
        rm -rf "$tools/build"
    fi
    "$deny" --locked check --hide-inclusion-graph licenses bans sources
}

install_torch() {
    # An older py-spy names functions without their class, so its stacks are tested too.
    "${pip[@]}" -r tests/requirements.txt &&
        "${pip[@]}" --upgrade --target "$venv/older" -r tests/requirements-older.txt
}

part 'linters and py-spy' "${pip[@]}" -r tests/requirements-quick.txt
part 'format' cargo fmt --all -- --check
part 'ruff' "$venv/bin/ruff" check tests
part 'mypy' types
part 'clippy' cargo clippy --quiet --all-targets -- -D warnings

if [ -n "$quick" ]; then
    part 'build the tests' cargo test --quiet --no-run
    part 'unit tests' cargo test --quiet --lib
    part 'example of the diagnosis' cargo test --quiet --doc --package trainmon-diagnosis
    for name in architecture docs diagnosis screen; do
        part "$name" cargo test --quiet --test "$name"
    done
    # These mostly wait. Those that watch for half a minute are left to the full run.
    part 'cli' cargo test --quiet --test cli -- --test-threads 8 --skip unkind_devices --skip cost
    exit
fi

part 'licenses, duplicates' licenses
part 'torch (3 GB once)' install_torch
# It opens the page that `trainmon report` writes. Not every distribution packages it.
command -v chromium >/dev/null || command -v google-chrome >/dev/null || (need_package chromium) ||
    echo 'tests/run.sh: no browser, so the page of `trainmon report` is not tested in one'
# It takes the metrics of `trainmon export`. Unpacked, not installed: the package would start a service.
if ! command -v prometheus >/dev/null && [ ! -x "$venv/bin/prometheus" ]; then
    unpacked=$(mktemp -d)
    if [ "$(id -u)" = 0 ]; then apt-get update -qq || true; fi
    (cd "$unpacked" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) &&
        cp "$unpacked"/usr/bin/prom* "$venv/bin/" || echo 'tests/run.sh: no Prometheus, so nothing is tested with one'
    rm -rf "$unpacked"
fi
part 'mypy, with torch' types
part 'features' "$venv/bin/python" tests/dev.py features --check
part 'Rust tests' cargo test --quiet
part 'release build' cargo build --quiet --release --bins --examples
part 'harness tests' "$venv/bin/python" -m unittest discover tests
part 'size of the engine' "$venv/bin/python" tests/dev.py size
part 'faults' "$venv/bin/python" tests/faults.py
part 'short evaluation' "$venv/bin/python" tests/evaluate.py --quick --min-class 0.75 --no-contradictions
