"""Workloads of class gpu: batches and host are fast enough, the simulated device is what steps wait for."""

from __future__ import annotations

from typing import Any

from workloads.common import Job, gpu_step, loader, one_thread
from workloads.loader_cases import Computed


def light_loader() -> Any:
    """A loader that is never late."""
    one_thread()
    return loader(Computed(0.0005), batch_size=4, num_workers=1)


def compute_bound_block(job: Job) -> None:
    gpu = job.take_gpu()

    def step(number: int, _batch: Any) -> None:
        for _ in range(10):
            gpu.launch(0.005)
        if number % 10 == 9:
            gpu.synchronize()

    job.train(light_loader(), step)


def compute_bound_spin(job: Job) -> None:
    job.train(light_loader(), gpu_step(job.take_gpu(sync="spin"), 0.06))


def runs_ahead(job: Job) -> None:
    """A batch takes 35 ms and a step 50: in twenty steps the host gets 300 ms ahead, waiting for data all the while."""
    one_thread()
    gpu = job.take_gpu()
    for _ in range(8):
        gpu.launch(0.05)

    def step(number: int, _batch: Any) -> None:
        for _ in range(10):
            gpu.launch(0.005)
        # Read the loss of three steps ago: the queue never runs dry.
        if number % 20 == 19:
            gpu.wait_until_ahead(0.15)

    job.train(loader(Computed(0.035 / 4), batch_size=4, num_workers=1), step)


def eight_light_workers(job: Job) -> None:
    one_thread()
    job.train(loader(Computed(0.0005), batch_size=4, num_workers=8), gpu_step(job.take_gpu(), 0.06))


def under_filled(job: Job) -> None:
    gpu = job.take_gpu(power_busy_mw=240_000, memory_busy_pct=12, sm_active_pct=21, dram_active_pct=9)
    job.train(light_loader(), gpu_step(gpu, 0.05, kernels=200))


def memory_bandwidth(job: Job) -> None:
    gpu = job.take_gpu(
        power_busy_mw=460_000, memory_busy_pct=96, gpm_supported=1, sm_active_pct=28, dram_active_pct=91
    )
    job.train(light_loader(), gpu_step(gpu, 0.05))


def throttled(job: Job) -> None:
    gpu = job.take_gpu(
        power_busy_mw=400_000, temperature_c=93, sm_clock_mhz=930, clock_event_reasons=0x40 | 0x8
    )
    job.train(light_loader(), gpu_step(gpu, 0.06))


def shared_gpu(job: Job) -> None:
    gpu = job.take_gpu()
    gpu.share_with(int(job.given["sleeper"]), 0.5)
    job.train(light_loader(), gpu_step(gpu, 0.04, kernels=4))
