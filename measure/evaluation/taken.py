"""Takes a profile of running programs, and compares it with what each program logs of the same time.

    cargo build --release --bins --examples
    python measure taken                          twenty programs: about six minutes
    python measure taken --only pinned,balanced --window 1s
    python measure taken --within 2               exit with 1 if more than --misses figures are further off

Each program is started as `trainmon run` would start it, and asked with `trainmon profile`. Compared are the share of the loop's time
that waits for data, in percent, and the mean length of a step. The time is that of the profile's window: from the first wait for a
batch to the last one, or that of the whole trace.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time

from measure.evaluation import programs
from measure.monitor import Monitor
from measure.numbers import mean
from measure.text import markdown, show
from workloads.labels import Label
from workloads.launch import Launched

NAME = "measure taken"
#: Programs of many kinds whose loop runs in the main thread of one process with torch.
PROGRAMS = (
    "too-few-workers", "pinned", "decode", "transform", "in-process-loading", "collate", "hand-over", "slow-samples", "small-files",
    "network-storage", "stalls-2", "main-thread", "launch-bound", "cpu-training", "host-device-sync", "balanced", "iterable-text",
    "lightning-too-few-workers", "hf-trainer-too-few-workers", "accelerate-metrics",
)  # fmt: skip
#: What lets a program be asked, as `trainmon run` sets it.
ENVIRONMENT = {"KINETO_USE_DAEMON": "1", "KINETO_LOG_LEVEL": "99"}
#: Seconds for steps to settle before it is asked, and that a profile may take beyond its window.
SETTLE_S, PATIENCE_S = 2.0, 130.0


@dataclasses.dataclass(frozen=True)
class Asked:
    """One program: percent of the time that waits for data, and milliseconds of a step, as it logs them and by its profile."""

    program: str
    seconds: float
    true_wait: float | None
    wait: float | None
    true_ms: float | None
    ms: float | None
    verdict: str

    def off(self) -> list[float]:
        """Points between the waits, if both are known."""
        return [] if self.true_wait is None or self.wait is None else [abs(self.true_wait - self.wait)]

    def steps_off(self) -> float | None:
        """Percent between the lengths of steps."""
        return None if not self.true_ms or self.ms is None else 100.0 * abs(self.ms / self.true_ms - 1.0)


def span(path: str, wall_ahead_s: float) -> tuple[float, float]:
    """The window of a trace, seconds of CLOCK_MONOTONIC."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    base_s = trace.get("baseTimeNanoseconds", 0) / 1e9 - wall_ahead_s
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation")]
    marked = [(event["ts"], event["ts"] + event["dur"]) for event in events if event["name"].startswith("ProfilerStep")]
    if marked:
        return base_s + min(begin for begin, _end in marked) / 1e6, base_s + max(end for _begin, end in marked) / 1e6
    batches = sorted(event["ts"] for event in events if event["name"].startswith("enumerate(DataLoader)"))
    if len(batches) >= 2:
        return base_s + batches[0] / 1e6, base_s + batches[-1] / 1e6
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in events]
    return base_s + min(begin for begin, _end in spans) / 1e6, base_s + max(end for _begin, end in spans) / 1e6


class Askable(Launched):
    """A workload that can be asked for a profile."""

    def job_environment(self) -> dict[str, str]:
        return {**super().job_environment(), **ENVIRONMENT}


def ask(workload: Launched, monitor: Monitor, window: str, *words: str) -> Asked:
    """Runs one program, and takes a profile with these options. Raises MonitorFailed, WorkloadFailed, or limits.Unavailable."""
    with workload as job:
        job.wait_until_watchable()
        time.sleep(SETTLE_S)
        trace = os.path.join(job.folder, "trace.json")
        ahead_s = time.time() - time.monotonic()
        about = ("profile", "--pid", str(job.pid), "--for", window, "-o", trace, "--json", *words)
        verdict = json.loads(monitor.run(job.device, *about, timeout=PATIENCE_S))
        begin, end = span(trace, ahead_s)
        truth = job.whole_truth_until(time.monotonic())
        profile, rate, waits = verdict["profile"], truth.steps_per_s(begin, end), truth.wait_share(begin, end)
        named = "/".join(word for word in (verdict["class"], verdict["cause"]) if word)
        return Asked(
            job.label.name,
            end - begin,
            None if waits is None else 100.0 * waits,
            100.0 * profile["loop"]["input_wait"] if profile["loop"] else None,
            1000.0 / rate if rate else None,
            profile["step_ms"],
            f"{named} {verdict['confidence']:.2f}",
        )


HEAD = ("program", "seconds", "its own log: data %", "profile", "its own log: ms a step", "profile", "verdict")


def cells(one: Asked) -> tuple[str, ...]:
    figures = (one.seconds, one.true_wait, one.wait, one.true_ms, one.ms)
    return (f"`{one.program}`", *(show(figure, ".1f") for figure in figures), one.verdict)


def told(found: list[Asked]) -> str:
    """The table, and how far the figures are apart."""
    off = [points for one in found for points in one.off()]
    steps = [part for one in found if (part := one.steps_off()) is not None]
    return "\n".join(
        [
            *markdown(HEAD, map(cells, found)),
            "",
            f"Waits: off by {show(mean(off), '.1f')} points in the mean, {show(max(off, default=None), '.1f')} at most;"
            f" steps: by {show(mean(steps), '.1f')}% in the mean, {show(max(steps, default=None), '.1f')}% at most.",
        ]
    )


def main(words: list[str] | None = None) -> int:
    parser = programs.parser(__doc__, NAME, "shares")
    parser.add_argument("--window", default="2s", help="how long to record (default: %(default)s)")
    args = parser.parse_args(words)

    def one(label: Label, monitor: Monitor) -> Asked:
        return ask(Askable(label, 180.0, args.data), monitor, args.window)

    return programs.over(args, NAME, PROGRAMS, one, cells, told, Asked.off)
