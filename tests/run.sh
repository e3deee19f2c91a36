#!/usr/bin/env bash
# Checks what must hold before a change is merged, the cheapest checks first.
#
#   tests/run.sh --quick        format, lints, and the tests that need no torch: under two minutes once everything is built
#   tests/run.sh                the same, then every other test, the fault table, and a short evaluation (3 GB of torch)
#   tests/run.sh --fuzz         the same, and a minute for each fuzz target
#   tests/run.sh --advisories   only whether a component has a known vulnerability, which changes from day to day
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

quick='' advisories='' fuzz=''
case ${1-} in
'') ;;
--quick) quick=yes ;;
--fuzz) fuzz=yes ;;
--advisories) advisories=yes ;;
-h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/run.sh && exit ;;
*) fail "unknown option $1; try --quick, --fuzz, --advisories or --help" ;;
esac

need_package() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"
    else
        fail "$* is missing; install it: sudo apt-get install $*"
    fi
}

output=$(mktemp)
aside=$(mktemp -d)
declare -A aside_pids=() aside_began=()
names=() results=() times=()

# Prints a row for each part that ran, whether or not all of them passed.
summary() {
    local status=$? at
    [ ${#aside_pids[@]} = 0 ] || kill "${aside_pids[@]}" 2>/dev/null || true
    rm -rf "$output" "$aside"
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

# Starts a command beside the parts that follow: beside NAME COMMAND... What it prints is kept for `await NAME`.
beside() {
    local name=$1
    shift
    aside_began[$name]=$SECONDS
    "$@" >"$aside/$name" 2>&1 &
    aside_pids[$name]=$!
}

# Waits for what `beside` started, and makes a part of it. Its time in the table began when it was started.
await() {
    local status=0
    wait "${aside_pids[$1]}" || status=$?
    unset "aside_pids[$1]"
    part "$1" said "$aside/$1" "$status"
    times[-1]=$((SECONDS - aside_began[$1]))
}

said() {
    cat "$1"
    return "$2"
}

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

# Checks the components: cargo_deny CHECK...
cargo_deny() {
    local tools="$PWD/target/tools" deny
    deny=$(command -v cargo-deny || echo "$tools/bin/cargo-deny")
    if [ ! -x "$deny" ]; then
        echo 'building cargo-deny, once: a few minutes'
        cargo install --quiet --locked --debug --no-default-features --root "$tools" --target-dir "$tools/build" \
            cargo-deny@0.20.2 || return
        rm -rf "$tools/build"
    fi
    "$deny" --locked check --hide-inclusion-graph "$@"
}

install_the_rest() {
    # An older py-spy names functions without their class, so its stacks are tested too.
    "${pip[@]}" -r tests/requirements.txt &&
        "${pip[@]}" --upgrade --target "$venv/older" -r tests/requirements-older.txt || return
    # It opens the page that `trainmon report` writes. Not every distribution packages it.
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || (need_package chromium) ||
        echo 'tests/run.sh: no browser, so the page of `trainmon report` is not tested in one'
    # It takes the metrics of `trainmon export`. Unpacked, not installed: the package would start a service.
    if ! command -v prometheus >/dev/null && [ ! -x "$venv/bin/prometheus" ]; then
        local unpacked
        unpacked=$(mktemp -d)
        if [ "$(id -u)" = 0 ]; then apt-get update -qq || true; fi
        (cd "$unpacked" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) &&
            cp "$unpacked"/usr/bin/prom* "$venv/bin/" || echo 'tests/run.sh: no Prometheus, so nothing is tested with one'
        rm -rf "$unpacked"
    fi
}

if [ -n "$advisories" ]; then
    part 'known vulnerabilities' cargo_deny advisories
    exit
fi
part 'linters and py-spy' "${pip[@]}" -r tests/requirements-quick.txt
part 'format' cargo fmt --all -- --check
part 'ruff' "$venv/bin/ruff" check measure tests
part 'mypy' types
if [ -z "$quick" ]; then
    beside 'licenses, duplicates' cargo_deny licenses bans sources
    beside 'torch (3 GB once)' install_the_rest
fi
part 'clippy' cargo clippy --quiet --all-targets -- -D warnings
# These mostly wait. Those that watch for half a minute are left to the full run.
cli() { cargo test --quiet --test cli -- --test-threads 8 "$@"; }
long=(unkind_devices cost)

if [ -n "$quick" ]; then
    names_of_tests=(architecture docs diagnosis screen)
    part 'build the helpers' cargo build --quiet --examples
    part 'build the tests' cargo test --quiet --no-run --lib --test cli "${names_of_tests[@]/#/--test=}"
    part 'unit tests' cargo test --quiet --lib
    part 'example of the diagnosis' cargo test --quiet --doc --package trainmon-diagnosis
    for name in "${names_of_tests[@]}"; do
        part "$name" cargo test --quiet --test "$name"
    done
    part 'cli' cli "${long[@]/#/--skip=}"
    exit
fi

part 'build the tests' cargo test --quiet --no-run
# The names of the integration tests, without those that are run by themselves.
others=()
for path in tests/*.rs tests/*/main.rs crates/*/tests/*.rs; do
    name=$(basename "${path%/main.rs}" .rs)
    [ ! -f "$path" ] || [[ $name =~ ^(cli|terminal)$ ]] || others+=(--test "$name")
done

await 'licenses, duplicates'
await 'torch (3 GB once)'
part 'mypy, with torch' types
part 'features' "$venv/bin/python" measure features --check
part 'cli' cli "${long[@]/#/--skip=}"
part 'cli, watching for long' cargo test --quiet --test cli -- "${long[@]}"
part 'terminal' cargo test --quiet --test terminal -- --test-threads 4
part 'other Rust tests' cargo test --quiet --lib --bins "${others[@]}"
part 'examples in the docs' cargo test --quiet --doc
part 'release build' cargo build --quiet --release --bins --examples
# These two mostly wait, so they run at the same time.
slow=tests/unit/test_inject.py
fast=()
for path in tests/unit/test_*.py; do [ "$path" = "$slow" ] || fast+=("$path"); done
# What runs beside other parts ignores interrupts, which is what some of these tests send.
units=(env --default-signal=INT,QUIT PYTHONPATH=tests "$venv/bin/python" -m unittest)
beside 'Python tests, injected' "${units[@]}" "$slow"
part 'Python tests' "${units[@]}" "${fast[@]}"
await 'Python tests, injected'
[ -z "$fuzz" ] || part 'fuzz targets' "$venv/bin/python" measure fuzz
part 'size of the engine' "$venv/bin/python" measure size
part 'faults' "$venv/bin/python" measure faults
part 'short evaluation' "$venv/bin/python" measure evaluate --quick --min-class 0.75 --no-contradictions
