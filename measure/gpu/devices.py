"""The device that the programs work on: a real one through torch, or the simulated one behind the same calls.

Work is asked for in seconds. On a real device it is calibrated: how long one kernel of each kind takes is measured with CUDA
events before training begins. How long the device worked is summed over pairs of events around each piece of work, so that it
is known without a profiler; of kernels too short for that, their time in a captured graph counts, where nothing lies
between them. Both count the time waited for the device around the waits themselves.
"""

from __future__ import annotations

import collections
import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch

from workloads.simulated_gpu import SimulatedGpu

#: CU_CTX_SCHED_BLOCKING_SYNC of cuda.h, which cudaDeviceScheduleBlockingSync stands for.
BLOCKING_SYNC = 4
MIB = 1 << 20
#: Side of the matrices of long and of short work, and kernels in a calibration.
LARGE, SMALL, CALIBRATED = 4096, 1024, 20
#: Kernels of the captured graph that the time of the shortest is taken from.
TINY_KERNELS = 1000


class Waiting:
    """`with` this, the time counts as waiting for the device. A class, so that it leaves no frame while it lasts."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_error: object) -> None:
        self.seconds += time.monotonic() - self._since


class CudaDevice:
    """The first visible device. `busy_s` and `synced_s` are what the truth of each step is written from."""

    def __init__(self, blocking: bool = False):
        if blocking:
            sleep_in_waits()
        torch.cuda.init()
        self.waiting = Waiting()
        self._busy_s = 0.0
        self._pieces: collections.deque[tuple[Any, Any]] = collections.deque()
        self._seconds_of: dict[Callable[[], Any], float] = {}
        fast = torch.float16 if torch.cuda.get_device_capability()[0] >= 7 else torch.float32
        large = torch.randn(LARGE, LARGE, device="cuda", dtype=fast)
        small = torch.randn(SMALL, SMALL, device="cuda", dtype=fast)
        out, small_out = torch.empty_like(large), torch.empty_like(small)
        self._large = lambda: torch.mm(large, large, out=out)
        self._small = lambda: torch.mm(small, small, out=small_out)
        #: What the loss stands for: reading it waits for all that was queued before.
        self.loss = torch.zeros(1, device="cuda")

    @property
    def synced_s(self) -> float:
        return self.waiting.seconds

    def busy_s(self) -> float:
        """Seconds of the work that is done."""
        while self._pieces and self._pieces[0][1].query():
            begin, end = self._pieces.popleft()
            self._busy_s += begin.elapsed_time(end) / 1e3
        return self._busy_s

    def _kernel_s(self, kernel: Callable[[], Any]) -> float:
        """Seconds that a kernel takes, measured once."""
        if kernel not in self._seconds_of:
            for _ in range(3):
                kernel()
            begin, end = event(), event()
            begin.record()
            for _ in range(CALIBRATED):
                kernel()
            end.record()
            end.synchronize()
            self._seconds_of[kernel] = max(1e-7, begin.elapsed_time(end) / 1e3 / CALIBRATED)
        return self._seconds_of[kernel]

    def _queue(self, kernel: Callable[[], Any], seconds: float) -> None:
        count = max(1, round(seconds / self._kernel_s(kernel)))
        begin, end = event(), event()
        begin.record()
        for _ in range(count):
            kernel()
        end.record()
        self._pieces.append((begin, end))

    def compute(self, seconds: float) -> None:
        """Queues matrix products, large ones unless these are too long for it."""
        self._queue(self._large if seconds >= 2 * self._kernel_s(self._large) else self._small, seconds)

    def sums(self) -> Callable[[float], None]:
        """Work that the device's memory limits."""
        read, written = torch.ones(64 * MIB, device="cuda"), torch.empty(64 * MIB, device="cuda")

        def kernel() -> None:
            torch.add(read, 1.0, out=written)

        return lambda seconds: self._queue(kernel, seconds)

    def one_block(self) -> Callable[[float], None]:
        """Work that fills one multiprocessor: torch's softmax gives each row to one block."""
        row = torch.randn(1, 4 * MIB, device="cuda")

        def kernel() -> None:
            torch.softmax(row, 1)

        return lambda seconds: self._queue(kernel, seconds)

    def tiny(self) -> Callable[[int], None]:
        """Kernels that take less than their launch."""
        few = torch.zeros(8, device="cuda")
        each_s = graph_s(lambda: few.add_(1.0))

        def launch(count: int) -> None:
            for _ in range(count):
                few.add_(1.0)
            self._busy_s += count * each_s

        return launch

    def copied_in(self, batch: torch.Tensor) -> torch.Tensor:
        """A batch on the device. From memory that is not pinned the host copies it piece by piece, and waits."""
        return batch.to("cuda")

    def share_with(self, _neighbour: int) -> None:
        """The neighbour works by itself."""


def event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def graph_s(kernel: Callable[[], Any]) -> float:
    """Seconds of a kernel within a captured graph of many, where no launch lies between two of them."""
    kernel()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TINY_KERNELS):
            kernel()
    graph.replay()
    begin, end = event(), event()
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / TINY_KERNELS


def sleep_in_waits() -> None:
    """Has waits for the device sleep in this process. Before CUDA begins in it: the driver refuses it afterwards."""
    driver = ctypes.CDLL("libcuda.so.1")
    device = ctypes.c_int()
    answers = (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), 0),
        driver.cuDevicePrimaryCtxSetFlags_v2(device, BLOCKING_SYNC),
    )
    if any(answers):
        raise SystemExit(f"blocking waits cannot be set: the driver answers {answers}")


class _Loss:
    """The loss on the simulated device: reading it waits for all that was queued before."""

    def __init__(self, gpu: SimulatedGpu):
        self.item = gpu.synchronize


class SimulatedDevice:
    """The simulated device behind the calls of `CudaDevice`. `fields`: how it looks while it works."""

    def __init__(self, path: str, blocking: bool = False, **fields: int):
        self.gpu = SimulatedGpu(path, sync="block" if blocking else "spin", **fields)
        self.loss = _Loss(self.gpu)
        self.waiting = Waiting()
        self.busy_s = self.gpu.busy_s

    @property
    def synced_s(self) -> float:
        return self.gpu.synced_s

    def compute(self, seconds: float) -> None:
        for _ in range(4):
            self.gpu.launch(seconds / 4)

    def sums(self) -> Callable[[float], None]:
        self.gpu.set(power_busy_mw=460_000, memory_busy_pct=96, gpm_supported=1, sm_active_pct=28, dram_active_pct=91)
        return self.gpu.launch

    def one_block(self) -> Callable[[float], None]:
        self.gpu.set(power_busy_mw=240_000, memory_busy_pct=12, sm_active_pct=21, dram_active_pct=9)
        return self.gpu.launch

    def tiny(self) -> Callable[[int], None]:
        self.gpu.set(power_busy_mw=190_000, memory_busy_pct=6, sm_active_pct=8, dram_active_pct=4)
        few, launch_one = torch.zeros(8), self.gpu.launch

        def launch(count: int) -> None:
            for _ in range(count):
                # The way through torch's dispatcher to a kernel too small to matter.
                few.add_(1.0)
                launch_one(0.000001)

        return launch

    def copied_in(self, batch: torch.Tensor) -> torch.Tensor:
        """The host copies into a small buffer, piece by piece, as the driver's thread does from memory that is not pinned."""
        # What such a copy brings over the bus, by the share of the time in which kernels run.
        self.gpu.set(power_busy_mw=300_000, pcie_rx_kib_s=27_000_000)
        staging = torch.empty(4 * MIB)
        for piece in batch.view(-1).split(4 * MIB):
            staging[: len(piece)].copy_(piece)
        return staging

    def share_with(self, neighbour: int) -> None:
        self.gpu.share_with(neighbour, 0.5)
        self.loss.item = self.gpu.synchronize
