"""Compares what a log, a recording and the program's own log say of the same half minute.

    cargo build --release --bins --examples
    python measure agree                          ten programs: about seven minutes
    python measure agree --only pinned,balanced --seconds 60
    python measure agree --within 2               exit with 1 if more than --misses figures are further off

Both watch at once: `trainmon --log` and `trainmon record`. Every figure is the share of the loop's time that waits for data, in
percent: the mean of the log's rows, what the recording's report sums up, and the verdict of `diagnose --replay` over its window.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Iterable
from datetime import datetime

from measure import recordings
from measure.evaluation import programs
from measure.monitor import Monitor
from measure.numbers import known, mean
from measure.text import markdown, show
from workloads.labels import Label
from workloads.launch import Launched
from workloads.processes import ending
from workloads.truth import Truth

NAME = "measure agree"
#: Programs that wait for data in ten ways, or hardly.
PROGRAMS = (
    "too-few-workers", "pinned", "decode", "in-process-loading", "slow-samples", "network-storage-by-the-loop", "stalls-2",
    "user-prefetcher", "main-thread", "balanced",
)  # fmt: skip
SECONDS = 30.0
#: Seconds for steps to settle before watching begins.
SETTLE_S = 1.0
#: Seconds that a call may take beyond the watched time.
PATIENCE_S = 30.0


@dataclasses.dataclass(frozen=True)
class LoggedRow:
    """One row of a log, in CLOCK_MONOTONIC seconds."""

    begin: float
    end: float
    #: Percent; None where the row has no share.
    wait: float | None


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Percent of the loop's time that waits for data."""

    program: str
    true: float | None
    log: float | None
    report: float | None
    #: Over the verdict's window.
    true_late: float | None
    log_late: float | None
    verdict: float | None

    def off(self) -> list[float]:
        """By how much the figures differ from the truth of their time, and the log from the recording."""
        pairs = [(self.log, self.true), (self.report, self.true), (self.verdict, self.true_late), (self.log, self.report)]
        return [abs(seen - true) for seen, true in pairs if seen is not None and true is not None]


def rows_of(path: str, wall_ahead_s: float) -> list[LoggedRow]:
    """The rows of a log. `wall_ahead_s`: by how much the wall clock is ahead of CLOCK_MONOTONIC."""
    rows = []
    before = 0.0
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            end = datetime.fromisoformat(row["timestamp"]).timestamp() - wall_ahead_s
            elapsed = float(row["elapsed_s"])
            wait = float(row["input_wait_pct"]) if row["input_wait_pct"] else None
            rows.append(LoggedRow(end - (elapsed - before), end, wait))
            before = elapsed
    return rows


def mean_wait(rows: Iterable[LoggedRow], since: float = 0.0) -> float | None:
    """The mean over the rows that begin at `since` or later, by their length."""
    inside = [(row.end - row.begin, row.wait) for row in rows if row.wait is not None and row.begin >= since - 0.1]
    seconds = sum(length for length, _wait in inside)
    return sum(length * wait for length, wait in inside) / seconds if seconds else None


def percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def watch(label: Label, monitor: Monitor, seconds: float, data: str | None) -> Agreement:
    """Runs one program. Raises MonitorFailed, WorkloadFailed, or limits.Unavailable."""
    with Launched(label, seconds + 120, data) as job:
        job.wait_until_watchable()
        time.sleep(SETTLE_S)
        log, recording = (os.path.join(job.folder, name) for name in ("run.csv", "run.tmz"))
        ahead_s = time.time() - time.monotonic()
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        about = ("--pid", str(job.pid), "--duration", f"{seconds:g}s")
        logger = monitor.start(job.device, *about, "--log", log, **silent)
        with ending(logger):
            monitor.run(job.device, "record", *about, "-o", recording, timeout=seconds + PATIENCE_S)
            logger.wait(PATIENCE_S)
        truth = job.whole_truth_until(time.monotonic())
        return compare(label.name, monitor, job.device, rows_of(log, ahead_s), recording, truth)


def compare(program: str, monitor: Monitor, device: str, rows: list[LoggedRow], recording: str, truth: Truth) -> Agreement:
    """Compares the rows of a log and a recording of one run with its truth."""
    seen = recordings.watched(monitor, device, recording, every=False)
    sides = json.loads(monitor.run(device, "compare", recording, recording, "--json", timeout=PATIENCE_S))
    verdict = seen.verdict
    late = seen.end - float(verdict["window_s"])
    return Agreement(
        program,
        percent(truth.wait_share(rows[0].begin, rows[-1].end)),
        mean_wait(rows),
        percent((sides["after"]["shares"] or {}).get("input_wait")),
        percent(truth.wait_share(late, seen.end)),
        mean_wait(rows, late),
        percent((verdict["shares"] or {}).get("input_wait")),
    )


HEAD = ("program", "its own log", "log", "report", "late: its own log", "log", "verdict")


def cells(one: Agreement) -> tuple[str, ...]:
    figures = (one.true, one.log, one.report, one.true_late, one.log_late, one.verdict)
    return (f"`{one.program}`", *(show(figure, ".1f") for figure in figures))


def table(found: list[Agreement]) -> str:
    """The table, and how far the figures are apart."""
    off = [difference for one in found for difference in one.off()]
    apart = known([one.log - one.report if one.log is not None and one.report is not None else None for one in found])
    return "\n".join(
        [
            *markdown(HEAD, map(cells, found)),
            "",
            f"Off by {show(mean(off), '.1f')} points in the mean, {show(max(off, default=None), '.1f')} at most;"
            f" log and recording are {show(mean(map(abs, apart)), '.1f')} points apart in the mean,"
            f" {show(max(map(abs, apart), default=None), '.1f')} at most.",
            "Late: over the window of the recording's verdict. Percent of the loop's time that waits for data.",
        ]
    )


def main(words: list[str] | None = None) -> int:
    parser = programs.parser(__doc__, NAME, "figures")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to watch (default: %(default)s)")
    args = parser.parse_args(words)

    def one(label: Label, monitor: Monitor) -> Agreement:
        return watch(label, monitor, args.seconds, args.data)

    return programs.over(args, NAME, PROGRAMS, one, cells, table, Agreement.off)
