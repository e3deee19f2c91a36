"""Runs trainmon on a file and measures it."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workloads.processes import die_with_parent

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
    #: Peak RSS; at least that of the Python that started it, because the kernel counts the time before exec as well.
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

    def limited() -> None:
        die_with_parent(parent)
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, preexec_fn=limited)
        ended = os.pidfd_open(process.pid)
        try:
            in_time = bool(select.select([ended], [], [], patience_s)[0])
        finally:
            # No effect if it has ended. Its status is not read yet, so the PID is still its own.
            signal.pidfd_send_signal(ended, signal.SIGKILL)
            os.close(ended)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        told = []
        for file in (output, errors):
            file.seek(0)
            told.append(file.read().decode(errors="replace"))
    return Ran(process.returncode, told[0], told[1], wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, in_time)


def diagnose(trainmon: str, path: str, patience_s: float) -> Ran:
    """Judges one file."""
    return measured([trainmon, "diagnose", path, "--json"], patience_s)
