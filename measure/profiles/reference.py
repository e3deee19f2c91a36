"""The account of a torch.profiler trace, computed plainly and slowly: what trainmon's account of the same file must agree with.

    python -m measure.profiles.reference TRACE…       (in the folder tests) a row of JSON for each file

All shares are of the window, which lasts from the begin of the first `ProfilerStep` to the end of the last one. Without steps, it
lasts from the first to the last event of the GPU with most kernels and of the loop's thread.

- The loop's thread has the steps, else the waits for batches, else most launches, else most operators.
- `busy`: a kernel, copy or memset runs on any stream. `compute`: a kernel that is not a collective runs. `communication`: a collective
  runs; `exposed` is the part of it during which no other kernel runs. `copy`: a copy or memset runs.
- `idle_by`: nothing runs on the GPU. Of what the threads do at that instant, the first of these counts. They are the loop's and the eight
  that launch most. `input_wait`: the loop waits for a batch. `sync`: the innermost call waits for the GPU. `launch`: it is another call
  of the runtime. `operator`: it is an operator or annotation. `python`: a Python function, or nothing that the trace shows.
- `input_wait` and `sync`: the loop waits for a batch, or is in a call that waits for the GPU, whatever the GPU does.
"""

from __future__ import annotations

import collections
import gzip
import heapq
import json
import os
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from measure.profiles.intervals import Interval, length, union, within, without

#: A thread, as process and thread of the trace.
Thread = tuple[Any, Any]

COPIES = {"gpu_memcpy", "memcpy"}
ON_THE_GPU = {"kernel", "gpu_memset", "memset", *COPIES}
RUNTIME = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"}
OPERATORS = {"cpu_op", "operator", "user_annotation", "annotation"}
PYTHON = {"python_function"}
ON_THE_HOST = RUNTIME | OPERATORS | PYTHON
COLLECTIVE = re.compile("nccl|rccl|allreduce|allgather|reducescatter|sendrecv", re.IGNORECASE)
WAITS_FOR_GPU = re.compile("Synchronize|EventQuery|StreamQuery")
WAITS_FOR_BATCH = re.compile(r"^enumerate\(DataLoader\)|DataLoader.*__next__|_(MultiProcessing|SingleProcess)DataLoaderIter")
#: The reasons of an idle GPU, the first one that holds. What is left is `python`.
REASONS = ("input_wait", "sync", "launch", "operator")
#: Threads, besides the loop's, whose calls are a reason.
LAUNCHERS = 8
DIRECTIONS = {"HtoD": "host-to-device", "DtoH": "device-to-host", "DtoD": "device-to-device", "PtoP": "peer-to-peer", "HtoH": "host-to-host"}
SHARES = ("busy", "compute", "communication", "exposed", "copy")


class NotATrace(ValueError):
    """The file has no trace events."""


@dataclass(frozen=True)
class Event:
    """A complete event. Times are nanoseconds."""

    category: str
    name: str
    thread: Thread
    begin: int
    end: int
    args: dict[str, Any]

    @property
    def interval(self) -> Interval:
        return self.begin, self.end

    @property
    def device(self) -> Hashable:
        """The GPU that it ran on; old traces name it by process alone."""
        found: Hashable = self.args.get("device", self.thread[0])
        return found

    def waits_for_batch(self) -> bool:
        return WAITS_FOR_BATCH.search(self.name) is not None

    def waits_for_gpu(self) -> bool:
        return self.category in RUNTIME and WAITS_FOR_GPU.search(self.name) is not None

    def reason(self) -> str:
        """What the GPU waits for while this is the innermost event of a thread."""
        if self.category in RUNTIME:
            return "sync" if self.waits_for_gpu() else "launch"
        return "python" if self.category in PYTHON else "operator"


def nanoseconds(microseconds: Any) -> int | None:
    """Exact where the file is: integers beyond 2^53 stay what they are."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, float, Decimal, str)):
        return None
    try:
        return round(Decimal(microseconds) * 1000)
    except (ArithmeticError, ValueError):
        return None


def read(path: str) -> list[Event]:
    """The complete events of the host and of GPUs. Raises NotATrace."""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal)
    except (ValueError, EOFError, OSError, RecursionError) as error:
        raise NotATrace(f"no JSON: {error}") from None
    listed = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(listed, list):
        raise NotATrace("no traceEvents")
    return list(complete(listed))


def complete(listed: Iterable[Any]) -> Iterator[Event]:
    for one in listed:
        if not isinstance(one, dict) or one.get("ph") != "X":
            continue
        begin, lasts = nanoseconds(one.get("ts")), nanoseconds(one.get("dur") or 0)
        category = str(one.get("cat") or "").lower()
        if begin is None or lasts is None:
            continue
        args = one.get("args")
        yield Event(category, str(one.get("name")), (one.get("pid"), one.get("tid")), begin, begin + lasts, args if isinstance(args, dict) else {})


def innermost(events: Iterable[Event]) -> Iterator[tuple[Interval, str]]:
    """What one thread does at each instant: of the events that run, the one that began last, and of these the shortest."""
    ordered = sorted((one for one in events if one.begin < one.end), key=lambda one: (one.begin, -one.end))
    running: list[int] = []
    begun = 0
    times = sorted({time for one in ordered for time in one.interval})
    for at, until in pairwise(times):
        while begun < len(ordered) and ordered[begun].begin <= at:
            heapq.heappush(running, -begun)
            begun += 1
        while running and ordered[-running[0]].end <= at:
            heapq.heappop(running)
        if running:
            yield (at, until), ordered[-running[0]].reason()


def most_common(threads: Iterable[Thread], number: int) -> list[Thread]:
    return [thread for thread, _ in collections.Counter(threads).most_common(number)]


class Account:
    """One file: its window, its loop and its GPUs."""

    def __init__(self, events: list[Event]) -> None:
        self.host = [one for one in events if one.category in ON_THE_HOST]
        self.steps = [one for one in events if one.name.startswith("ProfilerStep") and one.category not in ON_THE_GPU and "gpu" not in one.category]
        self.on_gpus: dict[Hashable, list[Event]] = collections.defaultdict(list)
        for one in events:
            if one.category in ON_THE_GPU:
                self.on_gpus[one.device].append(one)
        self.launchers = most_common((one.thread for one in self.host if one.category in RUNTIME and "aunch" in one.name), LAUNCHERS)
        self.loop = self._loop()
        #: The threads whose calls count.
        self.threads = {self.loop, *self.launchers}
        self.of_loop = [one for one in self.host if one.thread == self.loop]
        #: The GPU with most kernels.
        self.gpu = max(self.on_gpus, key=lambda gpu: sum(one.category == "kernel" for one in self.on_gpus[gpu]), default=None)
        self.window = self._window()

    def _loop(self) -> Thread | None:
        marked = self.steps or [one for one in self.host if one.waits_for_batch()]
        others = most_common((one.thread for one in self.host if one.category not in RUNTIME), 1)
        return next(iter([*(one.thread for one in marked[:1]), *self.launchers, *others]), None)

    def _window(self) -> Interval:
        shown = self.steps or [*self.of_loop, *self.on_gpus.get(self.gpu, [])]
        if not shown:
            raise NotATrace("no events of a host or a GPU")
        return min(one.begin for one in shown), max(one.end for one in shown)

    def covered(self, events: Iterable[Event]) -> list[Interval]:
        return union(within((one.interval for one in events), self.window))

    def share(self, intervals: Iterable[Interval]) -> float:
        total = self.window[1] - self.window[0]
        return round(length(intervals) / total, 4) if total else 0.0

    def doing(self) -> dict[str, list[Interval]]:
        """When any thread that counts does what. A wait for a batch hides what happens within it, in the loop and elsewhere."""
        found: dict[str, list[Interval]] = {reason: [] for reason in REASONS}
        for thread in self.threads:
            of_thread = [one for one in self.host if one.thread == thread]
            waits = union(one.interval for one in of_thread if one.waits_for_batch())
            if thread == self.loop:
                found["input_wait"] += waits
            by_reason = collections.defaultdict(list)
            for interval, reason in innermost(of_thread):
                by_reason[reason].append(interval)
            for reason in REASONS[1:]:
                found[reason] += without(union(by_reason[reason]), waits)
        return {reason: union(within(intervals, self.window)) for reason, intervals in found.items()}

    def of_gpu(self, gpu: Hashable) -> dict[str, Any]:
        """One GPU's row."""
        events = self.on_gpus[gpu]
        kernels = [one for one in events if one.category == "kernel"]
        communication = self.covered(one for one in kernels if COLLECTIVE.search(one.name))
        compute = self.covered(one for one in kernels if not COLLECTIVE.search(one.name))
        left = without([self.window], self.covered(events))
        idle_by = {}
        for reason, intervals in self.doing().items():
            rest = without(left, intervals)
            idle_by[reason] = self.share(without(left, rest))
            left = rest
        idle_by["python"] = self.share(left)
        inside = [one for one in kernels if one.end > self.window[0] and one.begin < self.window[1]]
        lengths = sorted(one.end - one.begin for one in inside)
        return {
            "busy": self.share(self.covered(events)),
            "compute": self.share(compute),
            "communication": self.share(communication),
            "exposed": self.share(without(communication, compute)),
            "copy": self.share(self.covered(one for one in events if one.category != "kernel")),
            "idle_by": idle_by,
            "kernels": len(inside),
            "median_kernel_us": round(lengths[len(lengths) // 2] / 1e3, 2) if lengths else None,
        }

    def inside(self, events: Iterable[Event]) -> list[Event]:
        """Those that run, at least partly, in the window."""
        return [one for one in events if one.begin < self.window[1] and one.end > self.window[0]]

    def milliseconds(self, events: Iterable[Event]) -> float:
        """How long they run within the window, together."""
        return round(length(within((one.interval for one in events), self.window)) / 1e6, 4)

    def copies(self) -> list[dict[str, Any]]:
        """The GPU's copies by direction, and by whether the host's memory is pageable; None where the trace does not say so."""
        groups = collections.defaultdict(list)
        for one in self.inside(one for one in self.on_gpus.get(self.gpu, []) if one.category in COPIES):
            direction = next((name for short, name in DIRECTIONS.items() if short in one.name), None)
            groups[direction, pageable(one.name)].append(one)
        return [
            {
                "direction": direction,
                "pageable": is_pageable,
                "count": len(group),
                "bytes": sum(int(one.args.get("bytes") or 0) for one in group),
                "ms": self.milliseconds(group),
            }
            for (direction, is_pageable), group in groups.items()
        ]

    def syncs(self) -> list[dict[str, Any]]:
        """The calls that wait for the GPU, by name. A query asks, and does not wait."""
        groups = collections.defaultdict(list)
        for one in self.inside(one for one in self.host if one.waits_for_gpu() and one.thread in self.threads):
            if "Query" not in one.name:
                groups[one.name].append(one)
        return [{"call": call, "count": len(group), "wait_ms": self.milliseconds(group)} for call, group in groups.items()]

    def row(self) -> dict[str, Any]:
        """What `trainmon diagnose` must agree with."""
        if self.gpu is None:
            return {"device": None}
        return {
            "window_ms": round((self.window[1] - self.window[0]) / 1e6, 3),
            "steps": len(self.steps),
            "device": self.gpu,
            **self.of_gpu(self.gpu),
            "input_wait": self.share(self.covered(one for one in self.of_loop if one.waits_for_batch())),
            "sync": self.share(self.covered(one for one in self.of_loop if one.waits_for_gpu())),
            "copies": self.copies(),
            "syncs": self.syncs(),
        }


def pageable(name: str) -> bool | None:
    if "Pageable" in name:
        return True
    return False if "Pinned" in name else None


def account(path: str) -> dict[str, Any]:
    """The row of one file. Raises NotATrace."""
    return {"file": os.path.basename(path), **Account(read(path)).row()}


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(json.dumps(account(given), default=str), flush=True)
