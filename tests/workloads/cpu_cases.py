"""Workloads of class cpu: the host's cores, or the loop's own Python, hold the steps back."""

from __future__ import annotations

import os
from typing import Any

import torch

from workloads import stages
from workloads.common import Endless, Job, burn, gpu_step, loader, one_thread
from workloads.gpu_cases import light_loader
from workloads.loader_cases import Computed


class ManyThreads(Endless):
    """Samples that cost matrix products, on so many compute threads."""

    def __init__(self, threads: int):
        self.threads = threads

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.TRANSFORM:
            torch.set_num_threads(self.threads)
            matrix = torch.full((384, 384), 0.5 + index % 3)
            for _ in range(6):
                matrix = torch.tanh(matrix @ matrix)
            return matrix[:4, :4].clone()


def cores_saturated(job: Job) -> None:
    one_thread()
    gpu = job.take_gpu()
    device = gpu_step(gpu, 0.004)
    cores = len(os.sched_getaffinity(0))

    def step(number: int, batch: Any) -> None:
        burn(0.02)
        device(number, batch)

    job.train(loader(Computed(0.02 * cores / 2), batch_size=4, num_workers=job.workers(cores)), step)


def main_thread(job: Job) -> None:
    gpu = job.take_gpu()
    device = gpu_step(gpu, 0.01)

    def step(number: int, batch: Any) -> None:
        device(number, batch)
        update_metrics()

    job.train(light_loader(), step)


def main_thread_fixed(job: Job) -> None:
    """Without the metrics."""
    job.train(light_loader(), gpu_step(job.take_gpu(), 0.01))


def update_metrics() -> None:
    """Bookkeeping in plain Python, 40 ms of it."""
    burn(0.04)


def launch_bound(job: Job) -> None:
    gpu = job.take_gpu(power_busy_mw=190_000, memory_busy_pct=6, sm_active_pct=8, dram_active_pct=4)
    few = torch.zeros(8)

    def step(_number: int, _batch: Any) -> None:
        for _ in range(24_000):
            # The way through torch's dispatcher to a kernel too small to matter.
            few.add_(1.0)
            gpu.launch(0.000001)
        gpu.synchronize()

    job.train(light_loader(), step)


def launch_bound_fixed(job: Job) -> None:
    """The same device work in few launches, as a captured graph replays it."""
    gpu = job.take_gpu(power_busy_mw=190_000, memory_busy_pct=6, sm_active_pct=8, dram_active_pct=4)
    job.train(light_loader(), gpu_step(gpu, 0.024))


def host_device_sync(job: Job) -> None:
    gpu = job.take_gpu(power_busy_mw=220_000, memory_busy_pct=10, sm_active_pct=15, dram_active_pct=8)

    def step(_number: int, _batch: Any) -> None:
        for _ in range(60):
            gpu.launch(0.0004)
            gpu.synchronize()
            burn(0.0003)

    job.train(light_loader(), step)


def host_device_sync_fixed(job: Job) -> None:
    """One read at the end of the step instead of one after each kernel."""
    gpu = job.take_gpu(power_busy_mw=220_000, memory_busy_pct=10, sm_active_pct=15, dram_active_pct=8)

    def step(_number: int, _batch: Any) -> None:
        for _ in range(60):
            gpu.launch(0.0004)
            burn(0.0003)
        gpu.synchronize()

    job.train(light_loader(), step)


def cgroup_throttled(job: Job) -> None:
    one_thread()
    job.train(loader(Computed(0.006), batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.012))


def noisy_neighbour(job: Job) -> None:
    one_thread()
    cores = len(os.sched_getaffinity(0))
    cost = 0.015 * cores * 0.75
    job.train(loader(Computed(cost / 4), batch_size=4, num_workers=job.workers(cores)), gpu_step(job.take_gpu(), 0.015))


def thread_oversubscription(job: Job) -> None:
    one_thread()
    workers = job.workers(len(os.sched_getaffinity(0)))
    feed = loader(ManyThreads(8), batch_size=4, num_workers=workers, multiprocessing_context="spawn")
    job.train(feed, gpu_step(job.take_gpu(), 0.006))


def thread_oversubscription_fixed(job: Job) -> None:
    """The same work on one thread for each worker."""
    one_thread()
    workers = job.workers(len(os.sched_getaffinity(0)))
    feed = loader(ManyThreads(1), batch_size=4, num_workers=workers, multiprocessing_context="spawn")
    job.train(feed, gpu_step(job.take_gpu(), 0.006))


def cpu_training(job: Job) -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 24, 3), torch.nn.ReLU(), torch.nn.Conv2d(24, 24, 3), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(24 * 28 * 28, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_number: int, batch: torch.Tensor) -> None:
        loss = torch.nn.functional.cross_entropy(model(batch), torch.zeros(len(batch), dtype=torch.long))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    job.train(loader(Computed(0.0002), batch_size=64, num_workers=1), step)
