"""Runs trainmon on a file and measures it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from measure.paths import MEASURE
from workloads.processes import die_with_parent

#: What starts programs, see there.
LAUNCHER = os.path.join(MEASURE, "profiles/launch.py")
#: No run may use more address space, so that a bad file cannot fill the machine.
MOST_BYTES = 16 << 30


@dataclass(frozen=True)
class Ran:
    """A program that ended, or was killed after its time."""

    #: The exit status; a signal is negative.
    status: int
    output: str
    errors: str
    wall_s: float
    cpu_s: float
    #: Peak RSS; at least the 10 MiB of `launch.py`.
    peak_mib: float
    in_time: bool

    def verdict(self) -> dict[str, Any] | None:
        """The object that `diagnose --json` printed; None if it failed."""
        if self.status != 0:
            return None
        found: dict[str, Any] = json.loads(self.output)
        return found

    def message(self) -> str:
        """The last line of its errors."""
        lines = self.errors.strip().splitlines()
        if not self.in_time:
            return f"no answer within {self.wall_s:.0f} s"
        return lines[-1] if lines else f"exit {self.status} without a message"


def measured(command: Sequence[str], patience_s: float, most_bytes: int = MOST_BYTES) -> Ran:
    """Runs a program to its end."""
    parent = os.getpid()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as report:
        words = [sys.executable, "-I", "-S", LAUNCHER, str(report.fileno()), str(patience_s), str(most_bytes), *command]
        subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, pass_fds=[report.fileno()], check=True,
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
        told = []
        for file in (output, errors, report):
            file.seek(0)
            told.append(file.read().decode(errors="replace"))
    status, wall_s, cpu_s, peak_mib, in_time = json.loads(told[2])
    return Ran(status, told[0], told[1], wall_s, cpu_s, peak_mib, bool(in_time))


def diagnose(trainmon: str, path: str, patience_s: float) -> Ran:
    """Judges one file."""
    return measured([trainmon, "diagnose", path, "--json"], patience_s)
