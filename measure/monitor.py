"""The program under test: where it is, how to call it, and how it sees the simulated GPU."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from workloads.labels import Label
from workloads.launch import Launched
from workloads.processes import die_with_parent, ending


class MonitorFailed(Exception):
    """trainmon failed or did not end."""


@dataclass(frozen=True)
class Monitor:
    """trainmon, with the options of every call."""

    program: str
    nvml_lib: str | None
    #: Options for every call.
    options: tuple[str, ...] = ()
    #: A command prefix that starts it in the right place.
    prefix: tuple[str, ...] = ()

    @classmethod
    def given(cls, args: argparse.Namespace, options: tuple[str, ...] = ()) -> Monitor:
        """From the options of `options.add_monitor`. Raises RuntimeError if a file is missing."""
        library = None if args.nvml_lib == "none" else args.nvml_lib
        for path in filter(None, (args.trainmon, library)):
            if not os.path.exists(path):
                raise RuntimeError(f"{path} not found; build it: cargo build --release --bins --examples")
        return cls(os.path.abspath(args.trainmon), os.path.abspath(library) if library else None, options)

    def another(self, program: str) -> Monitor:
        """Another build with the same library and options. Raises RuntimeError if it is missing."""
        if not os.path.exists(program):
            raise RuntimeError(f"{program} not found")
        return dataclasses.replace(self, program=os.path.abspath(program))

    def command(self, *arguments: str) -> list[str]:
        library = ["--nvml-lib", self.nvml_lib] if self.nvml_lib else []
        return [*self.prefix, self.program, *arguments, *library, *self.options]

    def launch(self, label: Label, seconds: float, data: str | None) -> Launched:
        """Starts a workload where this monitor can watch it."""
        return Launched(label, seconds, data)

    def beside(self, job: Launched) -> tuple[Monitor, int]:
        """The monitor that can watch this job, and the PID of its training process as that monitor sees it."""
        return self, job.pid

    def environment(self, device: str) -> dict[str, str]:
        return {**os.environ, "TRAINMON_SIMULATED_DEVICE": device, "LC_ALL": "C.UTF-8"}

    def start(self, device: str, *arguments: str, **popen: Any) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment(device),
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: die_with_parent(parent),
            **popen,
        )

    def run(self, device: str, *arguments: str, timeout: float) -> bytes:
        """Standard output of one call; raises MonitorFailed when it fails or hangs."""
        process = self.start(device, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with ending(process):
            try:
                output, errors = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise MonitorFailed(f"no answer within {timeout:.0f} s") from None
        if process.returncode != 0:
            message = errors.decode(errors="replace").strip().splitlines()
            raise MonitorFailed(f"exit {process.returncode}: {message[-1] if message else 'no message'}")
        return output
