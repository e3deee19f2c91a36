"""What watching costs the watched: steps per second with and without trainmon, in pairs, in one process.

One more workload reads the clock all the time in its main thread: its longest gap is the longest time that anything,
trainmon or not, kept it from running, queueing for a CPU left out.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import statistics
import subprocess
import time

from workloads.labels import by_name
from workloads.launch import Launched

from harness.monitor import Monitor

#: Loops that need every core, or the whole of one, feel a monitor first.
WORKLOADS = ("cores-saturated", "main-thread", "too-few-workers", "compute-bound-block")
#: Workload to borrow the label of, and the entry that notes pauses.
PAUSES, PAUSES_ENTRY = "main-thread", "step_cases:notes_pauses"
#: What attaching itself costs is not what this measures; it is over by then.
SKIP_S = 0.5


def measure(monitor: Monitor, names: list[str], pairs: int, segment: float, data: str | None) -> dict[str, list[float]]:
    """Ratios watched / alone by workload, one for each pair. The order within pairs alternates."""
    ratios: dict[str, list[float]] = {}
    for name in names:
        label = by_name(name)
        with Launched(label, pairs * 2 * (segment + 3) + 120, data) as job:
            job.wait_until_watchable()
            time.sleep(2.0)
            windows = []
            for pair in range(pairs):
                order = (True, False) if pair % 2 else (False, True)
                windows.append({watched: _segment(monitor, job, watched, segment) for watched in order})
            truth = job.truth_until(time.monotonic())
            ratios[name] = []
            for window in windows:
                alone, watched = truth.steps_per_s(*window[False]), truth.steps_per_s(*window[True])
                if alone and watched:
                    ratios[name].append(watched / alone)
    return ratios


def measure_pauses(
    monitor: Monitor, pairs: int, segment: float, data: str | None
) -> dict[bool, list[float]]:
    """Longest gaps in seconds, one for each segment, alone (False) and watched (True), attaching included."""
    label = dataclasses.replace(by_name(PAUSES), entry=PAUSES_ENTRY, wait=None, busy=None)
    gaps: dict[bool, list[float]] = {False: [], True: []}
    with Launched(label, pairs * 2 * (segment + 3) + 120, data) as job:
        job.wait_until_watchable()
        time.sleep(2.0)
        windows = []
        for pair in range(pairs):
            for watched in (True, False) if pair % 2 else (False, True):
                began = time.monotonic()
                windows.append((watched, began, _segment(monitor, job, watched, segment)[1]))
        truth = job.truth_until(time.monotonic())
        for watched, begin, end in windows:
            gap = truth.longest_gap(begin, end)
            if gap is not None:
                gaps[watched].append(gap)
    return gaps


def report_pauses(gaps: dict[bool, list[float]]) -> str:
    lines = ["", f"{'longest pause':24} {'runs':>5} {'median':>10} {'most':>10}   of a thread that reads the clock"]
    for watched, found in gaps.items():
        name = "watched" if watched else "alone"
        if found:
            median, most = 1e3 * statistics.median(found), 1e3 * max(found)
            lines.append(f"{name:24} {len(found):>5} {median:7.2f} ms {most:7.2f} ms")
    return "\n".join(lines)


def _segment(monitor: Monitor, job: Launched, watched: bool, seconds: float) -> tuple[float, float]:
    process = None
    if watched:
        log = os.path.join(job.folder, f"log-{time.monotonic_ns()}.csv")
        process = monitor.start(
            job.device, "--pid", str(job.pid), "--log", log, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        time.sleep(SKIP_S)
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"trainmon --log ended early with {process.returncode}")
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return begin, end


def report(ratios: dict[str, list[float]]) -> tuple[str, float | None]:
    """A table, and the median over all pairs."""
    lines = [f"{'workload':24} {'pairs':>5} {'median':>7} {'least':>7} {'most':>7}   steps/s watched / alone"]
    every: list[float] = []
    for name, found in ratios.items():
        every += found
        if found:
            lines.append(
                f"{name:24} {len(found):>5} {statistics.median(found):7.3f} {min(found):7.3f} {max(found):7.3f}"
            )
        else:
            lines.append(f"{name:24} {0:>5}       -")
    overall = statistics.median(every) if every else None
    lines.append(f"{'all':24} {len(every):>5} {'-' if overall is None else f'{overall:7.3f}'}")
    return "\n".join(lines), overall
