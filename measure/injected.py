"""Profiles of jobs that were not started for it (`trainmon profile --inject`), under a Python of 3.14 or later with torch.

    cargo build --release --bins --examples
    python measure injected --python /usr/bin/python3.14 agree   profiles of running programs, beside what these log
    python measure injected --python /usr/bin/python3.14 left    is anything left in a job after profiles of every kind
    python measure injected --python /usr/bin/python3.14 kill    kill -9 at any moment of it, 50 times

The interpreter must see the files that trainmon sees: in a chroot, run all of this inside.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure.evaluation import programs
from measure.evaluation.taken import Asked, ask, cells, span, told
from measure.inject_driver import InjectJob, wait_until
from measure.monitor import Monitor
from workloads.labels import Label
from workloads.launch import Launched

NAME = "measure injected"
#: Programs that need torch alone.
PROGRAMS = (
    "too-few-workers", "pinned", "decode", "transform", "in-process-loading", "collate", "hand-over", "slow-samples", "stalls-2",
    "main-thread", "launch-bound", "cpu-training", "balanced", "iterable-text",
)  # fmt: skip
#: Options of each kind of profile.
KINDS = (("--for", "500ms"), ("--steps", "5"), ("--for", "300ms", "--stacks"))


class Injectable(Launched):
    """A workload under another interpreter."""

    python = sys.executable

    def job_command(self, command: list[str]) -> list[str]:
        return [self.python, *command]


def agree(args: argparse.Namespace) -> int:
    """How far profiles are from what programs log."""

    def one(label: Label, monitor: Monitor) -> Asked:
        workload = Injectable(label, 180.0, args.data)
        workload.python = args.python
        return ask(workload, monitor, args.window, "--inject")

    return programs.over(args, NAME, PROGRAMS, one, cells, told, Asked.off)


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [f"{name}: {before[name]} -> {after[name]}" for name in before if before[name] != after[name]]


def native_threads(job: InjectJob) -> int:
    return len(os.listdir(f"/proc/{job.pid}/task"))


def left(trainmon: str, python: str, times: int) -> bool:
    """Profiles of every kind, and what of them stays in the job."""
    good = True
    # The last one forks workers all the time, which it logs as waiting, and torch does not.
    for options_of_job in ((), ("--thread",), ("--epoch", "40")):
        with InjectJob(*options_of_job, python=python) as job, tempfile.TemporaryDirectory() as folder:
            job.train()
            before, threads = job.ask("state"), native_threads(job)
            took: list[float] = []
            off: list[float] = []
            for nth in range(times):
                trace = os.path.join(folder, f"{nth}.json")
                begun = time.monotonic()
                ahead_s = time.time() - begun
                words = [trainmon, "profile", "--pid", str(job.pid), "--inject", "--json", "-o", trace, *KINDS[nth % len(KINDS)]]
                profile = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["profile"]
                took.append(time.monotonic() - begun)
                # The window of a short trace with functions is longer than that of its batches.
                if not profile["with_stack"]:
                    off.append(waits_off(job, trace, ahead_s, profile["loop"]["input_wait"]))
            wait_until(lambda: not job.has_thread())
            found = differences(before, job.ask("state"))
            files = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"trainmon-{job.pid}-")]
            # Torch warns of operators that it saw the begin of alone, where another thread runs the loop.
            said = "; ".join(line for line in job.said().splitlines() if "collection.cpp" not in line)
            good = good and not found and not files and not said
            print(
                f"job {' '.join(options_of_job) or 'with its loop in the main thread'}: {times} profiles, {statistics.median(took):.1f} s each "
                f"(median; longest {max(took):.1f}); waits for data off by {statistics.mean(off):.1f} points (most {max(off):.1f}); "
                f"left in Python: {'; '.join(found) or 'nothing'}; files: {files or 'none'}; said: {said or 'nothing'}; "
                f"native threads: {native_threads(job) - threads:+d}",
                flush=True,
            )
    return good


def waits_off(job: InjectJob, trace: str, ahead_s: float, share: float) -> float:
    """Points between the share of a profile that waits for data and the one that the job logs of the same window."""
    begin, end = span(trace, ahead_s)
    waited = sum(max(0.0, min(got, end) - max(start, begin)) for start, got, _stop in job.ask("steps"))
    return abs(100.0 * (float(waited) / (end - begin) - share))


def kill(trainmon: str, python: str, times: int) -> bool:
    """Kills trainmon at any moment: the job trains on, ends its profiler, and no file stays after the next call."""
    clean = gone = 0
    states: dict[str, int] = {}
    with InjectJob(python=python) as job:
        job.train()
        before = job.ask("state")

        def files() -> list[Path]:
            return list(Path(tempfile.gettempdir()).glob(f"trainmon-{job.pid}-*"))

        def call(*words: str) -> subprocess.Popen[bytes]:
            quiet = subprocess.DEVNULL
            return subprocess.Popen([trainmon, "profile", "--pid", str(job.pid), "--inject", *words], stdout=quiet, stderr=quiet)

        for _ in range(times):
            running = call("--for", "500ms")
            time.sleep(random.uniform(0.0, 0.9))
            had = [path.name for folder in files() for path in folder.iterdir()]
            state = "trace written" if "trace.json" in had else "trace begun" if "part" in had else "asked" if had else "no files"
            states[state] = states.get(state, 0) + 1
            running.send_signal(signal.SIGKILL)
            running.wait()
            steps = len(job.ask("steps"))
            wait_until(lambda: not job.has_thread(), 20.0)
            job.train(5)
            clean += job.ask("state") == before and len(job.ask("steps")) > steps and not job.said()
            gone += not files()
        last = call("--for", "100ms").wait()
        left_over = files()
    print(
        f"killed {times} times ({', '.join(f'{state} {count}' for state, count in sorted(states.items()))}): {clean} times the job trains on with "
        f"nothing left in it, {gone} times no file is left at once; after the next call: {len(left_over)} folders, exit status {last}"
    )
    return clean == times and not left_over and last == 0


def main(words: list[str] | None = None) -> int:
    parser = programs.parser(__doc__, NAME, "shares")
    parser.add_argument("what", choices=["agree", "left", "kill"])
    parser.add_argument("--python", default=sys.executable, help="an interpreter of 3.14 or later, with torch")
    parser.add_argument("--profiles", type=int, default=12, help="for left: how many of each job (default: %(default)s)")
    parser.add_argument("--times", type=int, default=50, help="for kill (default: %(default)s)")
    parser.add_argument("--window", default="2s", help="for agree: how long to record (default: %(default)s)")
    args = parser.parse_args(words)
    if args.what == "agree":
        return agree(args)
    what = left(args.trainmon, args.python, args.profiles) if args.what == "left" else kill(args.trainmon, args.python, args.times)
    return 0 if what else 1


if __name__ == "__main__":
    sys.exit(main())
