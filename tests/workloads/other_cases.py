"""Workloads of class balanced, idle and unknown, and one that changes its mind."""

from __future__ import annotations

import queue
import time
from typing import Any

from workloads import culprits
from workloads.common import Job, burn, gpu_step
from workloads.processes import die_with_parent


def balanced(job: Job) -> None:
    """Of 48 ms a step: 40 for the device, 3 of host work, 2 for a batch, and a small save now and then."""
    import torch

    from workloads.gpu_cases import light_loader

    gpu = job.take_gpu(power_busy_mw=560_000)
    device = gpu_step(gpu, 0.04)
    state = {"head": torch.zeros(1 << 16)}

    def step(number: int, batch: Any) -> None:
        device(number, batch)
        burn(0.004)
        if number % 50 == 49:
            torch.save(state, job.device + ".checkpoint")

    job.train(light_loader(), step)


def hung(job: Job) -> None:
    """Trains for two seconds; then the main thread sleeps in a loop while the workers wait for work."""
    from workloads.gpu_cases import light_loader

    device = gpu_step(job.take_gpu(), 0.02)
    until = time.monotonic() + 2.0

    def step(number: int, batch: Any) -> None:
        device(number, batch)
        if time.monotonic() > until:
            job.truth.event("ready")
            while not job.over():
                time.sleep(0.5)

    job.train(light_loader(), step)


def finished(job: Job) -> None:
    """Trains for two seconds, lets the loader go, then waits for a queue that stays empty."""
    from workloads.gpu_cases import light_loader

    device = gpu_step(job.take_gpu(), 0.02)
    whole = job.seconds_left()
    job.limit(2.0)
    job.train(light_loader(), device)
    job.limit(whole - 2.0)
    job.truth.event("ready")
    try:
        queue.Queue().get(timeout=job.seconds_left())
    except queue.Empty:
        pass


def init(job: Job) -> None:
    """What happens before the first batch: imports, then an index of the data set, in plain Python."""
    import torch

    torch.set_num_threads(1)
    index: dict[int, str] = {}
    while not job.over():
        burn(0.05)
        index[len(index)] = f"sample {len(index)}"
        if len(index) == 1:
            job.truth.event("ready")


def web_server(job: Job) -> None:
    import http.server
    import threading

    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"hello\n" * 200
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    with open(job.given["web-client"], "w", encoding="utf-8") as file:
        file.write(f"{server.server_address[1]}\n")
    threading.Timer(job.seconds_left(), server.shutdown).start()
    job.truth.event("ready")
    server.serve_forever()


def checksum(number: int) -> int:
    """The work of a pool that trains nothing: sorts numbers and adds them up."""
    import numpy

    return int(numpy.sort(numpy.random.default_rng(number).integers(0, 1 << 30, 200_000))[::1000].sum())


def pool_that_trains_nothing(job: Job) -> None:
    """NumPy, a pool of twice as many processes as CPUs, and nothing that learns."""
    import multiprocessing
    import os

    processes = 2 * len(os.sched_getaffinity(0))
    with multiprocessing.Pool(processes, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        total = 0
        for number, found in enumerate(pool.imap_unordered(checksum, range(1 << 30))):
            total ^= found
            if number == processes:
                job.truth.event("ready")
            if job.over():
                break


def change(job: Job) -> None:
    """Data-bound for twelve seconds of stepping, then the batches get cheap and the loop's own Python costs much."""
    from workloads.common import loader, one_thread
    from workloads.loader_cases import Changing

    one_thread()
    device = gpu_step(job.take_gpu(), 0.012)
    moment = time.monotonic() + 14.0
    changed = False

    def step(number: int, batch: Any) -> None:
        nonlocal changed
        device(number, batch)
        if time.monotonic() > moment:
            if not changed:
                changed = True
                job.truth.event("change")
                job.culprit(culprits.thread())
            burn(0.04)

    job.train(loader(Changing(0.015, 0.0005, moment), batch_size=4, num_workers=1), step)
