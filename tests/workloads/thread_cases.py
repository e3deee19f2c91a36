"""Loops that another thread of their own process holds up: it has a lock that they want. Batches are there.

What these threads compute releases the interpreter lock, so that only the program's own lock is between them.
"""

from __future__ import annotations

import threading
import time

import numpy

import culprits
from chain_cases import Trainer
from common import Job, one_thread
from waiting_cases import random_batches


class ReplayStore:
    """Transitions with their priorities, written by the loop and summed up by a thread."""

    def __init__(self, length: int = 1_000_000):
        draw = numpy.random.default_rng(3)
        self.lock = threading.Lock()
        self.states = draw.random((length // 100, 64), dtype=numpy.float32)
        self.priorities = draw.random(length)

    def watch(self) -> None:
        """Keeps the quantiles of all priorities, and holds the lock while it sorts them."""
        while True:
            with self.lock:
                ordered = numpy.sort(self.priorities)
                self.quantiles = ordered[:: len(ordered) // 10]
            time.sleep(0.002)


def thread_lock(job: Job) -> None:
    one_thread()
    trainer, store = Trainer(job.take_gpu(), 0.01), ReplayStore()
    watcher = threading.Thread(target=store.watch, daemon=True)
    watcher.start()
    job.culprit(culprits.thread(watcher.native_id))
    for number, _batch in enumerate(job.batches(random_batches())):
        with job.losing():
            store.lock.acquire()
        try:
            rows = store.states[numpy.arange(number, number + 64) % len(store.states)]
        finally:
            store.lock.release()
        trainer.step(rows)


class Embeddings:
    """A table that a thread normalises anew all the time, in place, while the loop looks rows up."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.table = numpy.random.default_rng(4).random((4000, 700))

    def refresh(self) -> None:
        while True:
            with self.guard:
                for _ in range(8):
                    self.table = self.table / numpy.sqrt((self.table * self.table).sum(axis=1, keepdims=True))
            time.sleep(0.001)

    def look_up(self, job: Job, rows: numpy.ndarray) -> numpy.ndarray:
        began = time.monotonic()
        with self.guard:
            job.lost_s += time.monotonic() - began
            return self.table[rows]


def thread_lock_table(job: Job) -> None:
    one_thread()
    trainer, embeddings = Trainer(job.take_gpu(), 0.012), Embeddings()
    refresher = threading.Thread(target=embeddings.refresh, daemon=True)
    refresher.start()
    job.culprit(culprits.thread(refresher.native_id))
    for number, _batch in enumerate(job.batches(random_batches())):
        trainer.step(embeddings.look_up(job, numpy.arange(number, number + 256) % 4000))
