"""Compares nvidia-smi's readings with a recording of trainmon, and trainmon's verdict with a labeled program."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measure import contradictions, recordings
from measure.evaluation import keeping, scoring
from measure.evaluation.verdicts import PATIENCE_S, SETTLE_S
from measure.monitor import Monitor, MonitorFailed
from workloads.labels import Label
from workloads.launch import Launched, WorkloadFailed
from workloads.processes import die_with_parent, ending

from .readings import Look, Sampled
from .smi import Smi

HERE = os.path.dirname(os.path.abspath(__file__))
#: trainmon's first sample comes before the rates that need two.
SKIPPED_S = 1.0
#: Between the answers of nvidia-smi and its next call, seconds.
PAUSE_S = 0.3
#: What a program may need around the watched time.
SPARE_S = 60.0
#: The idle share may be off by so much: the goal is five points over many runs, one of ten seconds varies by as much again.
IDLE_WITHIN = 0.10
#: From this part of the CPUs on what others use is worth a word beside a wrong verdict.
CROWDED = 0.25


class Program(Launched):
    """A labeled program of the check, on the real or the simulated GPU."""

    program = os.path.join(HERE, "train.py")

    def __init__(self, label: Label, seconds: float, simulated: bool):
        super().__init__(label, seconds, given={"device": "simulated" if simulated else "cuda"})

    def companion(self, role: str) -> list[str]:
        return [self.program, role, "--given", f"device={self.given['device']}"]


@contextlib.contextmanager
def settled(label: Label, seconds: float, simulated: bool) -> Iterator[Program]:
    """A program that has taken its first steps."""
    job = Program(label, seconds + SPARE_S, simulated)
    with job:
        job.wait_until_watchable()
        time.sleep(SETTLE_S)
        yield job


def sleeper() -> subprocess.Popen[bytes]:
    """A process that does nothing, to attach to while the GPUs idle."""
    parent = os.getpid()
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=lambda: die_with_parent(parent)
    )


def looks_beside(
    monitor: Monitor, smi: Smi, device: str, pid: int, phase: str, seconds: float
) -> tuple[list[Look], list[Sampled]]:
    """Lets trainmon record `pid`, and asks nvidia-smi meanwhile. Raises MonitorFailed or SmiFailed."""
    looks = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "readings.tmz")
        record = ("record", "--pid", str(pid), "--duration", f"{seconds:g}s", "--interval", "500ms", "--no-stacks", "-o", path)
        process = monitor.start(device, *record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with ending(process):
            began = time.monotonic()
            while process.poll() is None:
                if time.monotonic() - began > seconds + PATIENCE_S:
                    raise MonitorFailed(f"no end of record after {seconds + PATIENCE_S:.0f} s")
                asked = time.time()
                rows = smi.query()
                middle = (asked + time.time()) / 2
                if time.monotonic() - began > SKIPPED_S:
                    looks.append(Look(phase, middle, rows, smi.apps()))
                time.sleep(PAUSE_S)
            errors = process.stderr.read() if process.stderr else b""
        if process.returncode != 0:
            raise MonitorFailed(f"record: exit {process.returncode}: {errors.decode(errors='replace').strip()[-160:]}")
        return looks, sampled(recordings.lines_of(path)[1:], phase)


def sampled(lines: list[bytes], phase: str) -> list[Sampled]:
    """The GPUs of each sample of a recording. A reading from an earlier tick counts once."""
    found: dict[int, Sampled] = {}
    for line in lines:
        sample = json.loads(line)
        gpus = sample.get("gpus")
        if gpus and gpus["monotonic_ns"] not in found:
            ago_s = (sample["monotonic_ns"] - gpus["monotonic_ns"]) / 1e9
            devices = [{**one, "driver": gpus.get("driver")} for one in gpus["devices"]]
            found[gpus["monotonic_ns"]] = Sampled(phase, sample["unix_ms"] / 1e3 - ago_s, devices)
    return list(found.values())


@dataclass
class Watched:
    """One labeled program: the truth, trainmon's verdict, and whether that is right."""

    program: str
    truth: str
    said: str = "–"
    confidence: float | None = None
    class_right: bool = False
    cause_right: bool = False
    #: Shares of the window: waiting for batches, and the device without work; None where not known or not comparable.
    wait_true: float | None = None
    wait_seen: float | None = None
    idle_true: float | None = None
    idle_seen: float | None = None
    #: The program's own truth lies within the label's bounds.
    label_held: bool = True
    #: Cores that processes outside the job used meanwhile, trainmon among them: many make a noisy neighbour the truth.
    cores_of_others: float | None = None
    sure_and_wrong: bool = False
    #: The first contradiction between the verdict's own numbers.
    contradiction: str = ""
    summary: str = ""
    not_seen: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def idle_error(self) -> float | None:
        return None if self.idle_true is None or self.idle_seen is None else abs(self.idle_seen - self.idle_true)

    @property
    def crowded(self) -> bool:
        """Whether other processes took so many CPUs that the label may no longer be true."""
        return (self.cores_of_others or 0.0) > CROWDED * len(os.sched_getaffinity(0))

    @property
    def passed(self) -> bool:
        close = self.idle_error is None or self.idle_error <= IDLE_WITHIN
        right = self.class_right and self.cause_right and not self.contradiction
        return self.error is None and right and self.label_held and close

    @property
    def why_not(self) -> str:
        """Why it did not pass, in words."""
        if self.error or self.passed:
            return self.error or ""
        far = self.idle_error is not None and self.idle_error > IDLE_WITHIN
        words = (
            (not self.label_held, "the program's own truth is not the label's"),
            (not self.class_right, "wrong class" + (", and sure" if self.sure_and_wrong else "")),
            (self.class_right and not self.cause_right, "another cause"),
            (bool(self.contradiction), f"contradicts itself: {self.contradiction}"),
            (self.crowded, f"other processes used {self.cores_of_others or 0.0:.1f} CPUs meanwhile: repeat it on a quiet machine"),
            (far, f"idle share off by {100 * (self.idle_error or 0.0):.0f} points"),
        )
        return "; ".join(text for holds, text in words if holds)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed, "why_not": self.why_not}


def watch(label: Label, monitor: Monitor, seconds: float, simulated: bool, out: str) -> Watched:
    """Runs a program while `trainmon record` watches it, keeps recording and truth in `out`, and judges."""
    row = Watched(label.name, f"{label.klass}/{label.cause}")
    try:
        with settled(label, seconds, simulated) as job:
            path, device = os.path.join(job.folder, "run.tmz"), job.device if simulated else ""
            arguments = ("record", "--pid", str(job.pid), "--duration", f"{seconds:g}s", "--anonymise", "-o", path)
            stretch = job.stretch()
            monitor.run(device, *arguments, timeout=seconds + PATIENCE_S)
            stretch.end()
            row.cores_of_others = round(stretch.others, 2)
            truth = job.whole_truth_until(stretch.ended)
            seen = recordings.watched(monitor, device, path, every=False)
            result = scoring.Result(label.name, 1, label.klass, label.cause)
            scoring.judge(result, seen.verdict, label.acceptable())
            scoring.judge_details(result, seen.verdict, label, truth, seen.begin, seen.end)
            fill(row, result, seen.verdict, compare_idle=not label.companions)
            row.contradiction = next(iter(contradictions.find(monitor.program, seen.verdict) or []), "")
            keep(label, path, seen.verdict, row, seconds, out)
    except (MonitorFailed, WorkloadFailed) as error:
        row.error = " ".join(str(error).split())[-200:]
    return row


def fill(row: Watched, result: scoring.Result, verdict: dict[str, Any], compare_idle: bool) -> None:
    """The row of a result. `compare_idle`: whether the program alone decides when the device idles."""
    row.said = f"{result.seen_class}/{result.seen_cause or '–'}"
    row.confidence, row.summary = result.confidence, result.summary
    row.class_right, row.cause_right = result.class_right, result.cause == "right"
    row.sure_and_wrong, row.label_held = result.confident_and_wrong, result.label_held
    row.wait_true, row.wait_seen, row.idle_seen = result.wait_true, result.wait_seen, result.gpu_idle_seen
    if compare_idle and result.busy_true is not None:
        row.idle_true = min(1.0, max(0.0, 1.0 - result.busy_true))
    row.not_seen = [f"{one.get('what')}: {one.get('why')}" for one in verdict.get("not_seen") or []]


def keep(label: Label, path: str, verdict: dict[str, Any], row: Watched, seconds: float, out: str) -> None:
    """The recording and what is true about it, in the form of tests/recordings, whatever the verdict was.

    A wrongly judged one requires no confidence. It becomes a test once the verdict is fixed.
    """
    truth = keeping.described(label, keeping.wait_bounds(row.wait_true), verdict, seconds)
    truth["source"] = f"program {label.name} of measure gpu, {seconds:g} s: {label.about}"
    if row.crowded:
        truth["source"] += f"; other processes used {row.cores_of_others or 0.0:.1f} CPUs meanwhile"
    if not row.passed:
        truth["min_confidence"] = 0.0
    keeping.write(os.path.join(out, "recordings"), label.name, Path(path).read_bytes(), truth)
