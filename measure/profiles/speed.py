"""How long trainmon takes for large traces, on one core, and how much memory."""

from __future__ import annotations

import os
import re
import tempfile

from measure.profiles import made_up
from measure.profiles.run import MOST_BYTES, Ran, measured

#: The sizes of the requirement: 100 MB of JSON, 10 MB of gzip, 1 GB of JSON.
SIZES = ("100", "10gz", "1000")
MB = 1_000_000
#: Seconds for 100 MB of JSON or 10 MB of gzip, and MiB for any size.
SECONDS, MOST_MIB = 1.0, 200.0
PATIENCE_S = 600.0
#: The fastest run counts; large files are run once.
RUNS, RUNS_BELOW_MB = 3, 500


def parsed(word: str) -> tuple[int, bool]:
    """Megabytes, and whether they are compressed. Raises ValueError."""
    found = re.fullmatch(r"([1-9][0-9]*)(gz)?", word)
    if not found:
        raise ValueError(f"--speed: {word!r} is no size; write 100 for 100 MB of JSON, 10gz for 10 MB of gzip")
    return int(found[1]), bool(found[2])


def limit_s(megabytes: int, compressed: bool) -> float:
    return max(0.1, megabytes / (10 if compressed else 100) * SECONDS)


def fastest(trainmon: str, path: str, runs: int) -> Ran:
    """The fastest of several runs, on the last of the CPUs that are allowed."""
    core = str(max(os.sched_getaffinity(0)))
    command = ["taskset", "-c", core, trainmon, "diagnose", path, "--json"]
    return min((measured(command, PATIENCE_S, MOST_BYTES) for _ in range(runs)), key=lambda ran: ran.wall_s)


def measure(words: list[str], trainmon: str, keep: str | None) -> int:
    """Makes each trace, runs trainmon on it, prints a row; whether any limit was missed."""
    sizes = [parsed(word) for word in words]
    missed = 0
    if keep:
        os.makedirs(keep, exist_ok=True)
    print(f"{'trace':>12} {'MB of JSON':>10} {'events':>10} {'wall s':>8} {'CPU s':>8} {'limit':>6} {'peak MiB':>9} {'MB/s':>7}")
    with tempfile.TemporaryDirectory() as temporary:
        for (megabytes, compressed), word in zip(sizes, words):
            path = os.path.join(keep or temporary, f"made-up-{word}.json{'.gz' if compressed else ''}")
            steps = made_up.steps_of(megabytes * MB, compressed)
            size = made_up.write_to(path, steps)
            ran = fastest(trainmon, path, 1 if size > RUNS_BELOW_MB * MB else RUNS)
            profile = (ran.verdict() or {}).get("profile") or {}
            limit = limit_s(megabytes, compressed)
            wrong = []
            if ran.status != 0:
                wrong.append(ran.message())
            elif profile.get("steps") != steps:
                wrong.append(f"{profile.get('steps')} steps, not {steps}")
            if ran.cpu_s > limit:
                wrong.append("too slow")
            elif ran.wall_s > limit:
                wrong.append("too slow beside the other programs on this machine")
            if ran.peak_mib > MOST_MIB:
                wrong.append("too much memory")
            missed += bool(wrong)
            cells = f"{word:>12} {size / MB:10.0f} {steps * made_up.Step().events:10} {ran.wall_s:8.2f} {ran.cpu_s:8.2f} {limit:6.1f}"
            print(f"{cells} {ran.peak_mib:9.0f} {size / MB / ran.wall_s:7.0f}  {'; '.join(wrong)}", flush=True)
            if not keep:
                os.remove(path)
    return 1 if missed else 0
