"""Feeds every reader of foreign bytes with what libFuzzer makes up.

    python measure fuzz                        each target of fuzz/ for a minute, one on each CPU; a crash fails, and its input is kept in fuzz/artifacts
    python measure fuzz http --seconds 600     one of them, for longer
    python measure fuzz --build                only compile them

Compiles with stable Rust, with the coverage that libFuzzer needs. `cargo +nightly fuzz run http` does the same, with the sanitizers.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import options
from measure.paths import BUILDS, ROOT

NAME = "measure fuzz"
FUZZ = os.path.join(ROOT, "fuzz")
#: What `cargo fuzz` passes to rustc, without the sanitizer, which needs a nightly Rust.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
]
#: Files to begin with, beside those of fuzz/seeds: target → pattern below tests.
SEEDS = {
    "collapsed": "fixtures/py-spy/*.txt",
    "recording": "fixtures/recordings/*.tmz",
    "import": "fixtures/import/[dnps]*",
    "profile": "fixtures/profiles/[a-h]*.json",
}
#: Larger inputs find little more, bytes.
LONGEST = 1 << 16
#: An input may take so many seconds, and so much memory, MiB.
SLOWEST, LARGEST = 10, 2048


def triple() -> str:
    said = subprocess.run(["rustc", "--version", "--verbose"], capture_output=True, text=True, check=True, cwd=FUZZ).stdout
    return next(line.removeprefix("host: ") for line in said.splitlines() if line.startswith("host: "))


def build() -> dict[str, str]:
    """Compiles all targets: name → program."""
    # With --target, the flags are not for build scripts.
    command = ["cargo", "build", "--locked", "--release", "--target", triple(), "--message-format", "json-render-diagnostics"]
    environment = {**os.environ, "RUSTFLAGS": " ".join(FLAGS), "CARGO_TARGET_DIR": os.path.join(BUILDS, "fuzz")}
    done = subprocess.run(command, cwd=FUZZ, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    made = (json.loads(line) for line in done.stdout.splitlines())
    return {message["target"]["name"]: message["executable"] for message in made if message.get("executable")}


def run(name: str, program: str, seconds: int) -> tuple[int, str]:
    """Runs one target; returns its exit status and the end of what it printed."""
    places = [os.path.join(FUZZ, kind, name) for kind in ("corpus", "artifacts")]
    for place in places:
        os.makedirs(place, exist_ok=True)
    corpus, artifacts = places
    for number, path in enumerate(sorted(glob.glob(os.path.join(ROOT, "tests", SEEDS.get(name, "-"))))):
        Path(corpus, f"fixture-{number}").write_bytes(Path(path).read_bytes())
    seeds = os.path.join(FUZZ, "seeds", name)
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={SLOWEST}", f"-rss_limit_mb={LARGEST}"]
    command = [program, corpus, *([seeds] if os.path.isdir(seeds) else []), f"-artifact_prefix={artifacts}/", *limits]
    done = subprocess.run([*command, "-print_final_stats=1"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
    return done.returncode, done.stderr


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("targets", nargs="*", help="the targets to run (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="how long to run each one (default: 60)")
    parser.add_argument("--build", action="store_true", help="only compile them")
    args = parser.parse_args(words)
    programs = build()
    unknown = set(args.targets) - set(programs)
    if unknown:
        return options.failed(NAME, f"no target {', '.join(unknown)}; there are {', '.join(programs)}", 2)
    if args.build:
        print(f"{len(programs)} targets compiled")
        return 0
    crashed = []
    print(f"| target | executions in {args.seconds} s | branches reached | inputs kept |\n|---|---|---|---|", flush=True)
    names = args.targets or sorted(programs)
    with ThreadPoolExecutor(os.cpu_count()) as several:
        ran = several.map(lambda name: run(name, programs[name], args.seconds), names)
    for name, (status, said) in zip(names, ran):
        count = re.search(r"stat::number_of_executed_units: (\d+)", said)
        reached = re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", said)[-1:] or [("–", "–")]
        print(f"| `{name}` | {int(count[1]) if count else 0:,} | {reached[0][0]} | {reached[0][1]} |", flush=True)
        if status:
            crashed.append(name)
            print("\n".join(said.splitlines()[-40:]), file=sys.stderr)
    return options.failed(NAME, f"crashed: {', '.join(crashed)}") if crashed else 0
