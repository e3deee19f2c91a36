"""What every workload shares: the truth it writes, the training loop, and work that costs a known time.

The truth is one JSON object a line. First a header, then one line a step with CLOCK_MONOTONIC seconds
`a` (began to ask for a batch), `b` (has the batch), `c` (step done), `busy` (device seconds so far) and
`sync` (seconds spent waiting for the device so far); and events, `{"event": …, "t": …}`. What the stages of
loading take goes to files beside it: see stages.py.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable

import stages
from labels import Label
from simulated_gpu import SimulatedGpu

#: The truth is written in one piece about this often, so that writing it does not disturb the loop.
FLUSH_S = 1.0
#: The first steps are written at once: whoever waits for the loop to start need not wait longer.
FLUSH_FIRST_STEPS = 6


class TruthWriter:
    """The file that a workload writes its own truth to. Without a path nothing is written."""

    def __init__(self, path: str | None, label: Label):
        self.path = path
        self._file = open(path, "w", encoding="utf-8") if path else None
        self._lines: list[str] = []
        self._flushed = 0.0
        self.steps = 0
        self._put(
            {
                "workload": label.name,
                "class": label.klass,
                "cause": label.cause,
                "acceptable": [list(pair) for pair in label.acceptable()],
                "pid": os.getpid(),
            }
        )
        self.flush()

    def _put(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._lines.append(json.dumps(line, separators=(",", ":")))

    def event(self, event: str, **more: Any) -> None:
        """Notes something that happens once, at this moment."""
        self._put({"event": event, "t": time.monotonic(), **more})
        self.flush()

    def step(self, asked: float, got: float, done: float, gpu: SimulatedGpu | None, gap: float | None = None) -> None:
        """Notes a step. `gap` is the longest time in it that the loop did not run, where it can tell."""
        self.steps += 1
        line: dict[str, Any] = {"a": round(asked, 6), "b": round(got, 6), "c": round(done, 6)}
        if gpu is not None:
            line["busy"] = round(gpu.busy_s(), 6)
            line["sync"] = round(gpu.synced_s, 6)
        if gap is not None:
            line["gap"] = round(gap, 6)
        self._put(line)
        if done - self._flushed >= FLUSH_S or self.steps <= FLUSH_FIRST_STEPS:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered."""
        if self._file is not None and self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()
        self._flushed = time.monotonic()


@dataclass
class Job:
    """One run of a workload."""

    label: Label
    seconds: float
    data: str
    device: str
    truth: TruthWriter
    #: What the launcher started for this run: addresses, process ids.
    given: dict[str, str]
    gpu: SimulatedGpu | None = None
    #: The longest time in the current step that the loop did not run: for steps that can tell.
    gap: float | None = None
    _until: float = 0.0

    def __post_init__(self) -> None:
        self.limit(self.seconds)

    def limit(self, seconds: float) -> None:
        """The time is up this many seconds from now."""
        self._until = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """Seconds until the time is up."""
        return max(0.0, self._until - time.monotonic())

    def workers(self, usual: int) -> int:
        """How many workers the loader gets: the workload's own number, unless this run tries another one."""
        return int(self.given.get("workers", usual))

    def take_gpu(self, sync: str = "block", **fields: int) -> SimulatedGpu:
        """Claims the simulated device."""
        self.gpu = SimulatedGpu(self.device, sync=sync, **fields)
        return self.gpu

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    def train(self, loader: Any, step: Callable[[int, Any], None]) -> None:
        """Epochs over `loader` until the time is up. Ending an epoch and starting the next counts as waiting."""
        self.truth.event(
            "loader",
            workers=getattr(loader, "num_workers", 0),
            start_method=getattr(getattr(loader, "multiprocessing_context", None), "_name", None)
            or ("fork" if getattr(loader, "num_workers", 0) else None),
        )
        number = 0
        asked = time.monotonic()
        while not self.over():
            batches = iter(loader)
            while not self.over():
                try:
                    batch = next(batches)
                except StopIteration:
                    break
                got = time.monotonic()
                # In this process only where it made the batch itself.
                stages.batch_made()
                step(number, batch)
                self.truth.step(asked, got, time.monotonic(), self.gpu, self.gap)
                number += 1
                asked = time.monotonic()
        self.truth.flush()


def burn(seconds: float) -> None:
    """Plain Python work that costs this much CPU time of the calling thread, however long that takes."""
    until = time.thread_time() + seconds
    total = 0
    while time.thread_time() < until:
        for number in range(400):
            total += number * number


def one_thread() -> None:
    """Keeps torch from starting compute threads in the trainer."""
    import torch

    torch.set_num_threads(1)


def loader(dataset: Any, **options: Any) -> Any:
    """A torch DataLoader with workers that stay alive, unless told otherwise."""
    from torch.utils.data import DataLoader

    if options.get("num_workers", 0) > 0:
        options.setdefault("persistent_workers", True)
        options.setdefault("worker_init_fn", stages.time_worker)
    return DataLoader(dataset, **options)


def gpu_step(gpu: SimulatedGpu, seconds: float, kernels: int = 10) -> Callable[[int, Any], None]:
    """A step of a few launches that ends by reading the loss, which waits for the device."""

    def step(_number: int, _batch: Any) -> None:
        for _ in range(kernels):
            gpu.launch(seconds / kernels)
        gpu.synchronize()

    return step
