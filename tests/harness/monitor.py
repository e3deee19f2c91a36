"""The program under test: where it is, how it is called, and how it sees the simulated device."""

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
    """trainmon ended with an error, or not at all."""


@dataclass(frozen=True)
class Monitor:
    """trainmon, with the options that every call gets."""

    program: str
    nvml_lib: str | None
    #: Options passed on to each call.
    options: tuple[str, ...] = ()
    #: The command before the command, where it has to be brought to its place first.
    prefix: tuple[str, ...] = ()

    @classmethod
    def given(cls, args: argparse.Namespace, options: tuple[str, ...] = ()) -> Monitor:
        """By what `options.add_monitor` took; raises RuntimeError where that is not there."""
        library = None if args.nvml_lib == "none" else args.nvml_lib
        for path in filter(None, (args.trainmon, library)):
            if not os.path.exists(path):
                raise RuntimeError(f"{path} not found; cargo build --release --bins --examples")
        return cls(os.path.abspath(args.trainmon), os.path.abspath(library) if library else None, options)

    def another(self, program: str) -> Monitor:
        """Another build with the same library and options; raises RuntimeError where it is not there."""
        if not os.path.exists(program):
            raise RuntimeError(f"{program} not found")
        return dataclasses.replace(self, program=os.path.abspath(program))

    def command(self, *arguments: str) -> list[str]:
        library = ["--nvml-lib", self.nvml_lib] if self.nvml_lib else []
        return [*self.prefix, self.program, *arguments, *library, *self.options]

    def launch(self, label: Label, seconds: float, data: str | None) -> Launched:
        """A workload where this monitor can watch it."""
        return Launched(label, seconds, data)

    def beside(self, job: Launched) -> tuple[Monitor, int]:
        """The monitor to watch this job with, and the trainer's PID as it knows it."""
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
