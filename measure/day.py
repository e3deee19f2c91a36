"""Measures what a long recording costs to keep and to open.

    python measure day                  a made-up hour and day: how report, compare and replay open them
    python measure day --size FILE      the size of a real recording, per hour

It needs `cargo build --release --bins --examples`, and takes about three minutes. The long recordings are a bundled one again and again,
with clocks and counters that go on. Repeated samples compress better than real ones, so their size says nothing. The exit status is 1
if a day does not open within a second, or takes more than 200 MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from measure import options, paths, recordings
from measure.terminal import END_OF_FRAME, Terminal

NAME = "measure day"
HOUR_S, DAY_S = 3600, 86_400
#: A day opens within so many seconds, and takes so much memory at most, MiB.
OPENS_S, MOST_MIB = 1.0, 200.0
#: Longest wait for the first screen, seconds.
PATIENCE_S = 30.0


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak memory, MiB, of a command. Raises RuntimeError if it fails."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode(errors="replace") if process.stderr else ""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {process.returncode}: {said.strip()}")
    return time.monotonic() - began, used.ru_maxrss / 1024


def first_screen(command: list[str]) -> float:
    """Seconds until the first screen of a recording is complete."""
    with Terminal(command, dict(os.environ)) as terminal:
        until = terminal.began + PATIENCE_S
        while (piece := terminal.read(until)) is not None:
            if END_OF_FRAME in piece:
                return time.monotonic() - terminal.began
    raise RuntimeError(f"no screen within {PATIENCE_S:.0f} s")


def print_size(path: str) -> int:
    """Prints the size of a recording per hour."""
    lines = recordings.lines_of(path)
    first, last = (json.loads(lines[at])["monotonic_ns"] for at in (1, -1))
    seconds = (last - first) / 1e9
    print(f"{path}: {os.path.getsize(path) / seconds * HOUR_S / 1e6:.2f} MB an hour, over {seconds / 60:.0f} minutes")
    return 0


def measure(folder: Path, source: str, seconds: int) -> bool:
    """Prints a table row for each command on a recording of so many seconds; whether all stay within the bounds."""
    path = str(folder / f"{seconds}.tmz")
    subprocess.run([os.path.join(paths.RELEASE, "examples/long_recording"), source, path, str(seconds)], check=True)
    page = str(folder / f"{seconds}.html")
    good = True
    for name, words in (("report", ["report", path, "-o", page]), ("compare", ["compare", path, path])):
        took, mib = timed([paths.TRAINMON, *words])
        good &= took <= OPENS_S and mib <= MOST_MIB
        print(f"| {seconds // HOUR_S} h | {name} | {took:.2f} s | {mib:.0f} MiB |", flush=True)
    took = first_screen([paths.TRAINMON, "replay", path])
    print(f"| {seconds // HOUR_S} h | replay, first screen | {took:.2f} s | |", flush=True)
    print(f"| {seconds // HOUR_S} h | size of the report | {os.path.getsize(page) / 1000:.0f} KB | |", flush=True)
    return good and took <= OPENS_S


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--size", metavar="FILE", help="print the size of this recording per hour")
    args = parser.parse_args(words)
    if args.size:
        return print_size(args.size)
    source = os.path.join(paths.TESTS, "recordings/segmentation.tmz")
    print("| recording | what | time | memory |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        good = [measure(Path(folder), source, seconds) for seconds in (HOUR_S, DAY_S)]
    return 0 if all(good) else 1
