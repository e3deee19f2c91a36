"""How much watching slows a job down: steps per second with and without trainmon, in pairs, in one process.

One more workload reads the clock all the time in its main thread. Its longest gap is the longest time that anything, trainmon
or not, kept it from running. Time in the CPU queue does not count.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass

from measure.monitor import Monitor
from measure.numbers import median
from measure.text import show
from workloads.labels import Label, by_name
from workloads.launch import Launched
from workloads.truth import Truth

#: A monitor slows loops first that need every CPU, or all of one.
WORKLOADS = ("cores-saturated", "main-thread", "too-few-workers", "compute-bound-block")
#: The workload whose label it uses, and the entry that notes pauses.
PAUSES, PAUSES_ENTRY = "main-thread", "step_cases:notes_pauses"
#: Attaching is over by then. Its cost is not measured here.
SKIP_S = 0.5


@dataclass(frozen=True)
class Segment:
    """CLOCK_MONOTONIC seconds: the start of trainmon, if it ran, and the span that counts."""

    started: float
    begin: float
    end: float


def _pairs(
    monitor: Monitor, label: Label, pairs: int, segment: float, data: str | None
) -> tuple[list[dict[bool, Segment]], Truth]:
    """Runs a workload and measures pairs of segments, alone (False) and watched (True), in alternating order."""
    with Launched(label, pairs * 2 * (segment + 3) + 120, data) as job:
        job.wait_until_watchable()
        time.sleep(2.0)
        found = []
        for pair in range(pairs):
            order = (True, False) if pair % 2 else (False, True)
            found.append({watched: _segment(monitor, job, watched, segment) for watched in order})
        return found, job.truth_until(time.monotonic())


def measure(monitor: Monitor, names: list[str], pairs: int, segment: float, data: str | None) -> dict[str, list[float]]:
    """Ratios watched / alone by workload, one for each pair."""
    ratios: dict[str, list[float]] = {}
    for name in names:
        found, truth = _pairs(monitor, by_name(name), pairs, segment, data)
        ratios[name] = []
        for pair in found:
            alone, watched = (truth.steps_per_s(pair[which].begin, pair[which].end) for which in (False, True))
            if alone and watched:
                ratios[name].append(watched / alone)
    return ratios


def measure_pauses(monitor: Monitor, pairs: int, segment: float, data: str | None) -> dict[bool, list[float]]:
    """Longest gaps in seconds, one for each segment, alone (False) and watched (True), attaching included."""
    label = dataclasses.replace(by_name(PAUSES), entry=PAUSES_ENTRY, wait=None, busy=None)
    found, truth = _pairs(monitor, label, pairs, segment, data)
    gaps: dict[bool, list[float]] = {False: [], True: []}
    for pair in found:
        for watched, one in pair.items():
            gap = truth.longest_gap(one.started, one.end)
            if gap is not None:
                gaps[watched].append(gap)
    return gaps


def report_pauses(gaps: dict[bool, list[float]]) -> str:
    lines = ["", f"{'longest pause':24} {'runs':>5} {'median':>10} {'most':>10}   of a thread that reads the clock"]
    for watched, found in gaps.items():
        name = "watched" if watched else "alone"
        if found:
            middle, most = 1e3 * statistics.median(found), 1e3 * max(found)
            lines.append(f"{name:24} {len(found):>5} {middle:7.2f} ms {most:7.2f} ms")
    return "\n".join(lines)


def _segment(monitor: Monitor, job: Launched, watched: bool, seconds: float) -> Segment:
    started, process = time.monotonic(), None
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
    return Segment(started, begin, end)


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
    overall = median(every)
    lines.append(f"{'all':24} {len(every):>5} {show(overall, '7.3f')}")
    return "\n".join(lines), overall
