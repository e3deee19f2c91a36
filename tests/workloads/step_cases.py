"""Workloads about steps: stalls at every N-th, very short and very long ones, and a loop that notes pauses."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from workloads.common import Job, gpu_step, loader, one_thread
from workloads.gpu_cases import light_loader
from workloads.loader_cases import Computed
from workloads.storage_cases import FromServer


def stalls(job: Job, workers: int, step_s: float) -> None:
    """Workers that mostly wait for a server: a batch takes far longer than `workers` steps, so all stall together."""
    one_thread()
    dataset = FromServer(int(job.given["slow-server"]))
    feed = loader(dataset, batch_size=8, num_workers=job.workers(workers))
    job.train(feed, gpu_step(job.take_gpu(), step_s))


def stalls_2(job: Job) -> None:
    stalls(job, 2, 0.03)


def stalls_3(job: Job) -> None:
    stalls(job, 3, 0.03)


def stalls_4(job: Job) -> None:
    stalls(job, 4, 0.02)


def stalls_2_busy(job: Job) -> None:
    """The same law with two workers that compute 120 ms for each batch. One batch ahead each keeps them in step."""
    one_thread()
    feed = loader(Computed(0.03), batch_size=4, num_workers=job.workers(2), prefetch_factor=1)
    job.train(feed, gpu_step(job.take_gpu(), 0.02))


def steps_of_5_ms(job: Job) -> None:
    """Each step reads the loss of two steps ago: a batch takes a fifth of a step, and the device never runs dry."""
    one_thread()
    gpu = job.take_gpu()

    def step(_number: int, _batch: Any) -> None:
        for _ in range(4):
            gpu.launch(0.00125)
        gpu.wait_until_ahead(0.01)

    job.train(loader(Computed(0.0002), batch_size=2, num_workers=1), step)


def steps_of_3_s(job: Job) -> None:
    device = gpu_step(job.take_gpu(), 3.0, kernels=60)

    def step(number: int, batch: Any) -> None:
        device(number, batch)
        if number == 0:
            job.truth.event("ready")

    job.train(light_loader(), step)


def optimizer_on_the_host(job: Job) -> None:
    """Large kernels, then the optimizer on the host, as where it is offloaded: long native calls, during which nothing is launched."""
    import torch

    one_thread()
    weights = torch.nn.Parameter(torch.zeros(10_000_000))
    weights.grad = torch.ones_like(weights)
    optimizer = torch.optim.AdamW([weights], lr=1e-4)
    gpu = job.take_gpu()

    def step(_number: int, _batch: Any) -> None:
        for _ in range(5):
            gpu.launch(0.01)
        gpu.synchronize()
        optimizer.step()

    job.train(light_loader(), step)


def notes_pauses(job: Job) -> None:
    """Steps of 20 ms that read the clock all the time: the longest gap between two reads is the longest pause.

    Time in which the main thread only queued for a CPU, which any busy machine makes, is no pause.
    """
    job.take_gpu()
    delays = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def queued_s() -> float:
        return int(os.pread(delays, 128, 0).split()[1]) / 1e9

    def step(_number: int, _batch: Any) -> None:
        queued = queued_s()
        last = time.perf_counter()
        until, longest = last + 0.02, 0.0
        while last < until:
            now = time.perf_counter()
            if now - last > max(longest, 0.0005):
                before, queued = queued, queued_s()
                longest = max(longest, now - last - (queued - before))
                # Reading that took a moment of its own.
                now = time.perf_counter()
            last = now
        job.gap = longest

    job.train(light_loader(), step)
