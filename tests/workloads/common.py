"""What every workload shares: the truth it writes, the training loop, and work that costs a known time.

The truth is one JSON object a line. First a header, then one line a step with CLOCK_MONOTONIC seconds
`a` (began to ask for a batch), `b` (has the batch), `c` (step done), `busy` (device seconds so far) and
`sync` (seconds spent waiting for the device so far), and where the loop loses time to something else than batches,
`lost` (seconds of that so far); events, `{"event": …, "t": …}`; the true end of the chain of waits from a moment on,
`{"culprit": [{"kind": …, …}, …], "t": …}`, see culprits.py; and `{"loop_tid": …}` where the loop does not run on
the main thread. What the stages of loading take goes to files beside it: see stages.py.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Protocol

from workloads import culprits, stages
from workloads.labels import Label
from workloads.simulated_gpu import SimulatedGpu

#: More samples than any run takes.
ENDLESS = 10_000_000
#: The truth is written in one piece about this often, so that writing it does not disturb the loop.
FLUSH_S = 1.0
#: The first steps are written at once: whoever waits for the loop to start need not wait longer.
FLUSH_FIRST_STEPS = 6


class Device(Protocol):
    """A device that counts how long it worked."""

    @property
    def synced_s(self) -> float:
        """Seconds spent waiting for it so far."""
        ...

    def busy_s(self) -> float:
        """Seconds that it has worked for this process so far."""
        ...


class TruthWriter:
    """The file that a workload writes its own truth to. Without a path nothing is written."""

    def __init__(self, path: str | None, label: Label):
        self.path = path
        self._file = open(path, "w", encoding="utf-8") if path else None
        self._lines: list[str] = []
        self._flushed = 0.0
        self.steps = 0
        self._culprits: list[culprits.End] = []
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

    def culprit(self, *ends: culprits.End) -> None:
        """Notes what stands at the true end of the chain from this moment on; each of `ends` is right."""
        if list(ends) != self._culprits:
            self._culprits = list(ends)
            self._put({"culprit": self._culprits, "t": time.monotonic()})
            self.flush()

    @property
    def names_culprit(self) -> bool:
        """Whether an end of the chain has been noted."""
        return bool(self._culprits)

    def loop_thread(self) -> None:
        """The calling thread runs the loop: noted where it is not the main one."""
        if threading.get_native_id() != os.getpid():
            self._put({"loop_tid": threading.get_native_id()})

    def step(
        self, asked: float, got: float, done: float, gpu: Device | None, gap: float | None = None,
        lost: float = 0.0,
    ) -> None:  # fmt: skip
        """Notes a step. `gap` is the longest time in it that the loop did not run, where it can tell; `lost`: so far."""
        self.steps += 1
        line: dict[str, Any] = {"a": round(asked, 6), "b": round(got, 6), "c": round(done, 6)}
        if gpu is not None:
            line["busy"] = round(gpu.busy_s(), 6)
            line["sync"] = round(gpu.synced_s, 6)
        if gap is not None:
            line["gap"] = round(gap, 6)
        if lost:
            line["lost"] = round(lost, 6)
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
    gpu: Device | None = None
    #: The longest time in the current step that the loop did not run: for steps that can tell.
    gap: float | None = None
    #: Seconds that the loop has lost so far to what the label names, other than waiting for batches.
    lost_s: float = 0.0
    #: Whether the workload itself says what the true end of the chain is.
    names_culprit: bool = False
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

    def take_gpu(self, sync: str | None = None, **fields: int) -> SimulatedGpu:
        """Claims the simulated device."""
        self.gpu = SimulatedGpu(self.device, sync=sync, **fields)
        return self.gpu

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    def culprit(self, *ends: culprits.End) -> None:
        """The true end of the chain of waits, from this moment on; each of `ends` is right."""
        self.names_culprit = True
        self.truth.culprit(*ends)

    def note_culprit(self, again: bool = True) -> None:
        """Notes the ends that the label's words imply, unless the workload has named its own.

        `again`: where some were noted before as well, since workers may have been started anew.
        """
        if self.truth.names_culprit and not again:
            return
        if not self.names_culprit and self.label.settled:
            self.truth.culprit(*culprits.usual(self.label.klass, self.label.cause, self.data, self.given))

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        """What is done inside is the loss that the label names."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.lost_s += time.monotonic() - began

    def batches(self, feed: Iterable[Any]) -> Iterator[Any]:
        """For loops of another shape than `train`'s: what `feed` gives, its waits and the steps between timed.

        Begins `feed` anew when it is over, until the time is up.
        """
        self.truth.loop_thread()
        asked = time.monotonic()
        while not self.over():
            ready = iter(feed)
            self.note_culprit()
            while not self.over():
                try:
                    batch = next(ready)
                except StopIteration:
                    break
                got = time.monotonic()
                self.note_culprit(again=False)
                yield batch
                self.truth.step(asked, got, time.monotonic(), self.gpu, lost=self.lost_s)
                asked = time.monotonic()
        self.truth.flush()

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
            self.note_culprit()
            while not self.over():
                try:
                    batch = next(batches)
                except StopIteration:
                    break
                got = time.monotonic()
                # Who starts workers in a thread has them only now.
                self.note_culprit(again=False)
                # In this process only where it made the batch itself.
                stages.batch_made()
                step(number, batch)
                self.truth.step(asked, got, time.monotonic(), self.gpu, self.gap)
                number += 1
                asked = time.monotonic()
        self.truth.flush()


class Endless:
    """A map-style data set too long for any run to reach its end."""

    def __len__(self) -> int:
        return ENDLESS


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


def options(about: str) -> argparse.ArgumentParser:
    """What a launcher gives the program that runs one workload in its own process."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("name")
    parser.add_argument("--entry", help="FILE:FUNCTION to run instead of the workload's own: the workload, changed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to train (default: %(default)s)")
    parser.add_argument("--truth", help="file for the truth, JSON lines")
    parser.add_argument("--device", help="file of the simulated device (default: one in the system's temporary folder)")
    parser.add_argument("--data", help="folder for generated data files")
    parser.add_argument(
        "--given", action="append", default=[], metavar="KEY=VALUE", help="what the launcher started; workers=N: how many"
    )
    return parser


def given(args: argparse.Namespace) -> dict[str, str]:
    """Of these options, what was given by name."""
    return dict(item.split("=", 1) for item in args.given)


def run(label: Label, args: argparse.Namespace, program: Callable[[Job], None]) -> int:
    """Runs a workload with these options and keeps its truth; the exit status."""
    if args.truth:
        os.environ[stages.VARIABLE] = os.path.abspath(args.truth) + ".stages"
    truth = TruthWriter(args.truth, label)
    job = Job(label=label, seconds=args.seconds, data=args.data, device=args.device, truth=truth, given=given(args))
    try:
        program(job)
    except KeyboardInterrupt:
        return 130
    finally:
        truth.flush()
    return 0


def pending(submit: Callable[[], Any], ahead: int) -> Iterator[Any]:
    """Results of what is submitted to a pool, in order; so many are under way beside the one that is waited for."""
    futures = collections.deque(submit() for _ in range(ahead))
    while True:
        futures.append(submit())
        yield futures.popleft().result()
