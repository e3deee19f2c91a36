"""Makes traces of programs whose bottleneck is known, records the same processes at the same time, and compares what `trainmon import`
says with what trainmon measured itself: the share of waiting for data, and the time of a step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from harness.importing.program import KINDS
from harness.paths import ROOT, TRAINMON

#: The two may differ by so many points of the loop's time, and by this part of a step.
POINTS = 3.0
STEP_PART = 0.03


@dataclass
class Compared:
    """One process by the last verdict on trainmon's own recording, and on the import of its trace."""

    kind: str
    stack: bool
    step: bool
    own: dict[str, Any]
    imported: dict[str, Any]
    trace_mib: float

    def waits(self) -> tuple[float, float]:
        """Percent of the loop's time waiting for data."""
        own, of_trace = (100.0 * run["shares"]["input_wait"] for run in (self.own, self.imported))
        return own, of_trace

    def step_ms(self) -> tuple[float, float]:
        """Mean time of a step over the whole of each recording; 0 if none was counted."""

        def mean(run: dict[str, Any]) -> float:
            count = run["steps"]["count"]
            return 1000.0 * run["observed_s"] / count if count else 0.0

        return mean(self.own), mean(self.imported)

    def agrees(self) -> bool:
        """Whether both figures are close. A loop without workers has no steps that trainmon could count."""
        (wait, of_trace), (step, traced) = self.waits(), self.step_ms()
        return abs(wait - of_trace) <= POINTS and (step == 0.0 or abs(traced / step - 1) <= STEP_PART)

    def row(self) -> str:
        """A row of Markdown."""
        (wait, of_trace), (step, traced) = self.waits(), self.step_ms()
        own_step = f"{step:.1f}" if step else "–"
        cause = [f"`{run['class']}/{run['cause']}`" if run["cause"] else f"`{run['class']}`" for run in (self.own, self.imported)]
        options = ", ".join(["stacks"] * self.stack + ["steps"] * self.step) or "–"
        figures = f"{wait:.1f}% | {of_trace:.1f}% | {own_step} | {traced:.1f} | {self.trace_mib:.0f}"
        return f"| `{self.kind}` | {options} | {figures} | {cause[0]} | {cause[1]} |"


HEAD = """| program | trace with | waiting for data: recorded | in the trace | ms a step: recorded | in the trace | MiB | verdict | of the trace |
|---|---|---|---|---|---|---|---|---|"""


def told(trainmon: str, recording: str) -> dict[str, Any]:
    """The last verdict of a recording."""
    done = subprocess.run([trainmon, "diagnose", "--replay", recording, "--json"], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(kind: str, stack: bool, step: bool, seconds: float, trainmon: str = TRAINMON, keep: str | None = None) -> Compared:
    """Profiles and records one program, and imports its trace."""
    with tempfile.TemporaryDirectory() as temporary:
        name = os.path.join(keep or temporary, f"{kind}{'-stack' if stack else ''}{'-step' if step else ''}")
        trace, own, imported = f"{name}.json", f"{name}-own.tmz", f"{name}-trace.tmz"
        words = [sys.executable, "-m", "harness.importing.program", kind, "--seconds", str(seconds), "--trace", trace]
        words += ["--stack"] * stack + ["--step"] * step
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "tests")}
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as program:
            assert program.stdout
            line = program.stdout.readline()
            assert line.strip() == "profiling", line
            record = [trainmon, "record", "--pid", str(program.pid), "-o", own, "--force", "--duration", f"{seconds - 0.5:.1f}s"]
            subprocess.run(record, check=True, capture_output=True)
            program.communicate(timeout=300)
            assert program.returncode == 0
        subprocess.run([trainmon, "import", trace, "-o", imported, "--force"], check=True, capture_output=True)
        mib = os.path.getsize(trace) / (1 << 20)
        return Compared(kind, stack, step, told(trainmon, own), told(trainmon, imported), mib)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py import", description=__doc__)
    parser.add_argument("--trainmon", default=TRAINMON)
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--keep", help="keep traces and recordings in this folder")
    given = parser.parse_args(words)
    if given.keep:
        os.makedirs(given.keep, exist_ok=True)
    print(HEAD)
    wrong = 0
    for kind in [given.only] if given.only else KINDS:
        for stack, step in ((False, False), (False, True), (True, True)):
            compared = compare(kind, stack, step, given.seconds, given.trainmon, given.keep)
            print(compared.row(), flush=True)
            wrong += not compared.agrees()
    print(f"\n{wrong} of them differ by more than {POINTS:.0f} points or {STEP_PART:.0%} of a step")
    return 1 if wrong else 0
