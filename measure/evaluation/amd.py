"""The same jobs with the simulated GPU as an AMD card: read from a `/sys` that the example `amd_tree` keeps, or unreadable.

ROCm holds the compute driver's file and the render nodes open, so the jobs do, too. Where this machine has no such files, empty ones
stand for them, in a `/dev` that belongs to the machine.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass

from measure.monitor import Monitor
from workloads.labels import Label
from workloads.launch import Launched, WorkloadFailed

#: What ROCm opens of each GPU; as the environment variable of `simulated_gpu.py` has it.
FILES = "/dev/kfd,/dev/dri/renderD{render}"
#: Render nodes that stand-ins are made for: as many as a job has ranks.
MOST_GPUS = 8
READY_S = 5.0


class AmdJob(Launched):
    """A job on AMD cards. Without a program that shows them, they cannot be read."""

    def __init__(self, tree: str | None, label: Label, seconds: float = 120.0, data: str | None = None):
        super().__init__(label, seconds, data)
        self.tree = tree

    @property
    def root(self) -> str:
        return os.path.join(self.folder, "amd")

    def job_environment(self) -> dict[str, str]:
        return {**super().job_environment(), "TRAINMON_SIMULATED_NODES": FILES}

    def _start(self) -> None:
        make_files()
        super()._start()
        if self.tree:
            with open(os.devnull, "wb") as nothing:
                self._companions.append(self._spawn([self.tree, self.device, self.root], [], nothing))

    def wait_until_watchable(self, steps: int = 5, timeout: float = 90.0) -> None:
        super().wait_until_watchable(steps, timeout)
        until = time.monotonic() + READY_S
        while self.tree and not os.path.exists(os.path.join(self.root, "ready")):
            if time.monotonic() > until:
                raise WorkloadFailed("the AMD card was not shown")
            time.sleep(0.02)


@dataclass(frozen=True)
class AmdMonitor(Monitor):
    """trainmon, and jobs whose GPUs are AMD's; without NVML."""

    tree: str | None = None

    def launch(self, label: Label, seconds: float, data: str | None) -> AmdJob:
        return AmdJob(self.tree, label, seconds, data)

    def beside(self, job: Launched) -> tuple[Monitor, int]:
        assert isinstance(job, AmdJob)
        where = ("--sys-root", os.path.join(job.root, "sys")) if self.tree else ()
        return dataclasses.replace(self, options=(*self.options, *where)), job.pid


def monitor(given: Monitor, kind: str) -> AmdMonitor:
    """The monitor for cards of this kind, `read` or `unread`. Raises RuntimeError if what shows them is not built."""
    tree = os.path.join(os.path.dirname(given.program), "examples", "amd_tree")
    if kind == "read" and not os.path.exists(tree):
        raise RuntimeError(f"{tree} not found; build it: cargo build --release --bins --examples")
    return AmdMonitor(given.program, None, given.options, tree=tree if kind == "read" else None)


def make_files() -> None:
    """Raises RuntimeError where files that stand for a driver's cannot be made."""
    try:
        os.makedirs("/dev/dri", exist_ok=True)
        for render in range(128, 128 + MOST_GPUS):
            for path in FILES.format(render=render).split(","):
                if not os.path.exists(path):
                    with open(path, "wb"):
                        pass
    except OSError as error:
        raise RuntimeError(f"cannot make {error.filename}: {error.strerror}; run as root, in a container of its own") from None
