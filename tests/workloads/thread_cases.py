"""Loops that another thread of their own process holds up: it has a lock that they want. Batches are there.

What these threads compute releases the interpreter lock, so that only the program's own lock is between them.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import numpy

from workloads import culprits
from workloads.chain_cases import take_trainer
from workloads.common import Job
from workloads.waiting_cases import random_batches


def train_beside(job: Job, device_s: float, work: Callable[[], None], take: Callable[[int], Any]) -> None:
    """Trains on what `take` gives for each step, while a thread does its `work`, which the step may have to wait for."""
    trainer = take_trainer(job, device_s)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    job.culprit(culprits.thread(thread.native_id))
    for number, _batch in enumerate(job.batches(random_batches())):
        trainer.step(take(number))


class ReplayStore:
    """Transitions with their priorities, written by the loop and summed up by a thread."""

    def __init__(self, length: int = 1_000_000):
        draw = numpy.random.default_rng(3)
        self.lock = threading.Lock()
        self.states = draw.random((length // 100, 64), dtype=numpy.float32)
        self.priorities = draw.random(length)

    def watch(self) -> None:
        """Keeps the quantiles of all priorities, and holds the lock while it sorts them: 60 ms, however quick the CPU is."""
        while True:
            with self.lock:
                began = time.monotonic()
                while time.monotonic() - began < 0.06:
                    ordered = numpy.sort(self.priorities)
                self.quantiles = ordered[:: len(ordered) // 10]
            time.sleep(0.002)

    def rows(self, job: Job, number: int) -> numpy.ndarray:
        with job.losing():
            self.lock.acquire()
        try:
            return self.states[numpy.arange(number, number + 64) % len(self.states)]
        finally:
            self.lock.release()


def thread_lock(job: Job) -> None:
    store = ReplayStore()
    train_beside(job, 0.01, store.watch, lambda number: store.rows(job, number))


def thread_joined(job: Job) -> None:
    """Each step's gradients are summed up by a thread that is started for it, and joined at once."""
    trainer = take_trainer(job, 0.012)
    gradients = numpy.random.default_rng(1).random(600_000)
    norms: list[float] = []

    def sum_up() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 0.03:
            norms[:] = [float(numpy.sort(gradients)[-1])]

    job.culprit(culprits.SHORT_LIVED)
    for batch in job.batches(random_batches()):
        trainer.step(batch)
        thread = threading.Thread(target=sum_up)
        with job.losing():
            thread.start()
            thread.join()


class Embeddings:
    """A table that a thread normalises anew all the time, in place, while the loop looks rows up."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.table = numpy.random.default_rng(4).random((4000, 700))

    def refresh(self) -> None:
        while True:
            with self.guard:
                began = time.monotonic()
                while time.monotonic() - began < 0.06:
                    self.table = self.table / numpy.sqrt((self.table * self.table).sum(axis=1, keepdims=True))
            time.sleep(0.001)

    def look_up(self, job: Job, rows: numpy.ndarray) -> numpy.ndarray:
        began = time.monotonic()
        with self.guard:
            job.lost_s += time.monotonic() - began
            found: numpy.ndarray = self.table[rows]
            return found


def thread_lock_table(job: Job) -> None:
    embeddings = Embeddings()
    train_beside(
        job, 0.012, embeddings.refresh, lambda number: embeddings.look_up(job, numpy.arange(number, number + 256) % 4000)
    )


def search_tree(policy: numpy.ndarray) -> numpy.ndarray:
    """Searches from the policy's last answer, in native code."""
    done = time.thread_time() + 0.045
    while time.thread_time() < done:
        order = numpy.sort(policy)
    searched: numpy.ndarray = numpy.roll(policy, 1) + order[0]
    return searched


def thread_result(job: Job) -> None:
    """Each step ends with a search in a pool's thread, whose result the next one begins with."""
    trainer = take_trainer(job, 0.012)
    policy = numpy.random.default_rng(2).random(400_000)
    with ThreadPoolExecutor(1, thread_name_prefix="search") as pool:
        job.culprit(culprits.thread(pool.submit(threading.get_native_id).result()))
        for batch in job.batches(random_batches()):
            trainer.step(batch)
            with job.losing():
                policy = pool.submit(search_tree, policy).result()
