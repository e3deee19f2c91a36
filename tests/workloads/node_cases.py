"""A node's eight ranks, of which one has a fault: another one in each run. They exchange gradients with gloo at each step.

As under NCCL, a rank that waits for the others keeps its device busy at low power. What is planted is in one rank alone: a slow
loader, host code that the others do not run, a device that is held down. A slow network holds all of them up alike; a
rank that has died leaves the others in an exchange that never ends.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from workloads import rank_cases, simulated_gpu
from workloads.common import Job, burn
from workloads.loader_cases import Computed
from workloads.rank_cases import LATE, slow
from workloads.simulated_gpu import SimulatedGpu

RANKS = 8
#: Hot: the software slows the device down (nvml.h, nvmlClocksEventReasonSwThermalSlowdown).
HOT = {"clock_event_reasons": 0x20, "sm_clock_mhz": 700, "temperature_c": 91}

#: Eight ranks that looked each millisecond would need half of a core.
LOOK = 0.005
exchange = functools.partial(rank_cases.on_device, look=LOOK)


def late() -> int:
    """A rank that is late in this run."""
    return os.getpid() % RANKS


def loader_rank(job: Job) -> None:
    rank_cases.train(job, Computed(0.02 if slow() else 0.0005), 0.02, exchange, None)


def host_rank(job: Job) -> None:
    rank_cases.train(job, Computed(0.0005), 0.02, exchange, (lambda: burn(0.06)) if slow() else None)


def hot_rank(job: Job) -> None:
    def step_on(gpu: SimulatedGpu, gradients: Any) -> None:
        exchange(gpu, gradients)
        if slow():
            gpu.set(**HOT)

    rank_cases.train(job, Computed(0.0005), 0.09 if slow() else 0.03, step_on, None)


def network_rank(job: Job) -> None:
    """The exchange takes as long as a slow wire does, in all ranks alike."""
    slow_wire = functools.partial(rank_cases.over_a_wire, seconds=0.08, look=LOOK)
    rank_cases.train(job, Computed(0.0005), 0.015, slow_wire, None)


def mortal_rank(job: Job) -> None:
    """After three seconds of training one rank is killed; the kernels of the others wait for it, as NCCL's do without a time limit."""
    dies = time.monotonic() + 3.0

    def exchange_or_wait(gpu: SimulatedGpu, gradients: Any) -> None:
        if slow() and time.monotonic() > dies:
            job.truth.event("ready")
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            exchange(gpu, gradients)
        except RuntimeError:
            # Its connections are gone.
            while not job.over():
                gpu.launch(0.02)
                gpu.synchronize()

    rank_cases.train(job, Computed(0.0005), 0.03, exchange_or_wait, None)


def late_loader(job: Job) -> None:
    rank_cases.torchrun(job, loader_rank, RANKS, late())


def late_host(job: Job) -> None:
    rank_cases.spawn(job, host_rank, RANKS, late())


def late_hot(job: Job) -> None:
    rank_cases.torchrun(job, hot_rank, RANKS, late())


def slow_network(job: Job) -> None:
    rank_cases.spawn(job, network_rank, RANKS, late())


def rank_dies(job: Job) -> None:
    """This process starts the ranks as a script does, and waits for all of them."""
    simulated_gpu.create(job.device, devices=RANKS)
    job.truth.flush()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(job.device)) as meeting:
        of_all = {LATE: str(late()), "WORLD_SIZE": str(RANKS), "TRAINMON_MEETING": f"file://{meeting}/ranks"}
        command = [sys.executable, os.path.abspath(rank_cases.__file__), *rank_cases.words(job, mortal_rank)]
        ranks = [
            subprocess.Popen(command, env={**os.environ, **of_all, "RANK": str(rank)}) for rank in range(RANKS)
        ]
        for rank in ranks:
            rank.wait()
