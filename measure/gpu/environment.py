"""The environment of the check: driver, GPUs, kernel, versions, rights. No names of machines, users or folders."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from typing import Any


def version(*command: str) -> str | None:
    """The last word of what a program says of its version; None where it says nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else None


def number_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def found(trainmon: str, py_spy: str | None, rows: list[dict[str, str | None]], simulated: bool) -> dict[str, Any]:
    """Everything, as JSON. `rows` are nvidia-smi's, one a device."""
    import torch

    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "simulated": simulated,
        "driver": rows[0].get("driver_version") if rows else None,
        "devices": [row.get("name") for row in rows],
        "cuda": torch.version.cuda,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "trainmon": version(trainmon, "--version"),
        "py-spy": version(py_spy, "--version") if py_spy else None,
        "root": os.geteuid() == 0,
        "ptrace_scope": number_in("/proc/sys/kernel/yama/ptrace_scope"),
    }
