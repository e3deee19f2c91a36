"""The training programs of the check: a real DataLoader, work on the GPU, and the truth about both.

Each is a function of a job, named by its label in labelled.py. `train.py` runs one in its own process.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import torch

from measure.gpu.devices import MIB, CudaDevice, SimulatedDevice
from workloads import stages
from workloads.common import Endless, Job, burn, loader, one_thread

PR_SET_PTRACER, ANYBODY = 0x59616D61, -1
Device = CudaDevice | SimulatedDevice
LARGE_BATCH_BYTES = 256 * MIB


def allow_stacks() -> None:
    """Lets trainmon's py-spy look into this process under Yama's ptrace_scope 1, without root (prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANYBODY & (1 << 64) - 1), 0, 0, 0)


def start_worker(number: int) -> None:
    allow_stacks()
    stages.time_worker(number)


class Samples(Endless):
    """Samples that cost CPU time."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.TRANSFORM:
            burn(self.seconds)
            return torch.full((3, 32, 32), float(index % 7))


def batches(milliseconds: float, workers: int = 1) -> Any:
    """A loader of batches of four that cost so much together."""
    one_thread()
    options: dict[str, Any] = {"worker_init_fn": start_worker} if workers else {}
    return loader(Samples(milliseconds / 4e3), batch_size=4, num_workers=workers, **options)


def light() -> Any:
    """A loader that is never late."""
    return batches(2)


def take(job: Job, blocking: bool = False) -> Device:
    """The device: the simulated one where the check is tried out."""
    device: Device
    device = SimulatedDevice(job.device, blocking) if job.given["device"] == "simulated" else CudaDevice(blocking)
    job.gpu = device
    return device


def compute_bound(job: Job) -> None:
    device = take(job)

    def step(number: int, _batch: torch.Tensor) -> None:
        device.compute(0.05)
        if number % 10 == 9:
            with device.waiting:
                device.loss.item()

    job.train(light(), step)


def reads_each_step(job: Job, device: Device) -> None:
    def step(_number: int, _batch: torch.Tensor) -> None:
        device.compute(0.06)
        with device.waiting:
            device.loss.item()

    job.train(light(), step)


def compute_bound_item(job: Job) -> None:
    reads_each_step(job, take(job))


def compute_bound_blocking(job: Job) -> None:
    reads_each_step(job, take(job, blocking=True))


def short_step(device: Device, seconds: float) -> Callable[[int, torch.Tensor], None]:
    def step(_number: int, _batch: torch.Tensor) -> None:
        device.compute(seconds)
        with device.waiting:
            device.loss.item()

    return step


def loader_bound(job: Job) -> None:
    job.train(batches(60), short_step(take(job), 0.015))


def in_process_loading(job: Job) -> None:
    job.train(batches(45, workers=0), short_step(take(job), 0.015))


def update_metrics() -> None:
    """Bookkeeping in plain Python."""
    burn(0.04)


def python_bound(job: Job) -> None:
    device = take(job)
    for _batch in job.batches(light()):
        device.compute(0.01)
        with device.waiting:
            device.loss.item()
        with job.losing():
            update_metrics()


def item_each_kernel(job: Job) -> None:
    device = take(job)

    def step(_number: int, _batch: torch.Tensor) -> None:
        for _ in range(20):
            device.compute(0.001)
            with device.waiting:
                device.loss.item()
            burn(0.0008)

    job.train(light(), step)


def launch_bound(job: Job) -> None:
    device = take(job)
    launch = device.tiny()

    def step(_number: int, _batch: torch.Tensor) -> None:
        launch(8_000)
        with device.waiting:
            device.loss.item()

    job.train(light(), step)


def pageable_copies(job: Job) -> None:
    device = take(job)
    one_thread()
    batch = torch.ones(LARGE_BATCH_BYTES // 4)
    for _number in job.batches(itertools.count()):
        with job.losing():
            device.copied_in(batch)
        device.compute(0.01)
        with device.waiting:
            device.loss.item()


def memory_bandwidth(job: Job) -> None:
    work_for(job, lambda device: device.sums())


def under_filled(job: Job) -> None:
    work_for(job, lambda device: device.one_block())


def work_for(job: Job, kind: Callable[[Device], Callable[[float], None]]) -> None:
    """Steps of 50 ms of one kind of work, the loss read after each."""
    device = take(job)
    work = kind(device)

    def step(_number: int, _batch: torch.Tensor) -> None:
        for _ in range(10):
            work(0.005)
        with device.waiting:
            device.loss.item()

    job.train(light(), step)


def shared_device(job: Job) -> None:
    device = take(job)
    device.share_with(int(job.given["neighbour"]))

    def step(_number: int, _batch: torch.Tensor) -> None:
        for _ in range(4):
            device.compute(0.01)
        with device.waiting:
            device.loss.item()

    job.train(light(), step)
