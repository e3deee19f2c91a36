"""Loops that lose time to something else than batches: a server, who reads their output, a thread, their own metrics.

Batches are there; the step itself is held up. The time lost is noted in the truth beside that of waiting for batches.
"""

from __future__ import annotations

import asyncio
import bisect
import collections
import http.client
import itertools
import json
import multiprocessing
import os
import queue
import random
import socket
import threading
import time
from typing import Any, Iterator

import numpy
import torch

from workloads import culprits
from workloads.chain_cases import Trainer, soon, take_trainer
from workloads.common import Job, one_thread
from workloads.processes import die_with_parent


def random_batches(rows: int = 64) -> Iterator[torch.Tensor]:
    """Batches that cost next to nothing."""
    while True:
        yield torch.rand(rows, 32)


# --- the interpreter lock --------------------------------------------------------------------------------------------


class LossCurve(threading.Thread):
    """Smooths the history of the loss over and over in Python, beside the loop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.history = [random.random() for _ in range(5000)]

    def run(self) -> None:
        smooth = 0.0
        while True:
            for value in self.history:
                smooth = 0.98 * smooth + 0.02 * value


def tokenize(words: list[str], vocabulary: dict[str, int], cost: float) -> list[int]:
    """Looks words up, again and again for `cost` seconds of CPU time."""
    done = soon(cost)
    numbers: list[int] = []
    while time.thread_time() < done:
        numbers = [vocabulary.get(word.lower(), 0) for word in words]
    return numbers


def train_in_pieces(job: Job, device_s: float, pieces: int, cost: float) -> None:
    """Each step is cut into pieces of Python and of the device. Lost is what neither of the two accounts for."""
    trainer = Trainer(job.take_gpu(), device_s)
    vocabulary = {f"word{number}": number for number in range(5000)}
    words = [f"Word{number * 37 % 5000}" for number in range(300)]
    for _batch in job.batches(random_batches()):
        began, used = time.monotonic(), time.thread_time()
        for _ in range(pieces):
            tokenize(words, vocabulary, cost)
            trainer.step(words)
        whole, own = time.monotonic() - began, time.thread_time() - used
        job.lost_s += max(0.0, whole - own - pieces * device_s)


def gil_contention(job: Job) -> None:
    one_thread()
    curve = LossCurve()
    curve.start()
    job.culprit(culprits.thread(curve.native_id), {"kind": "gil"})
    train_in_pieces(job, 0.002, pieces=8, cost=0.0015)


class Metrics:
    """Aggregates what the loop reports: percentiles of the last values, sorted anew each time."""

    def __init__(self) -> None:
        self.values: collections.deque[float] = collections.deque(random.random() for _ in range(2000))

    def aggregate(self) -> None:
        while True:
            ordered = sorted(self.values)
            shares = {share: ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9, 0.99)}
            self.values.append(shares[0.5] * 0.5 + bisect.bisect(ordered, shares[0.9]) / len(ordered) * 0.5)
            self.values.popleft()


class Augmentations:
    """Builds tables of colours, one row after the other, for use in later epochs."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}

    def build(self) -> None:
        for number in itertools.count():
            shift, gain = number % 31 - 15, 1.0 + number % 7 * 0.05
            self.rows[number % 64] = [max(0, min(255, int(value * gain + shift))) for value in range(256)]


def gil_contention_metrics(job: Job) -> None:
    one_thread()
    threads = [threading.Thread(target=work, daemon=True) for work in (Metrics().aggregate, Augmentations().build)]
    for one in threads:
        one.start()
    job.culprit(*(culprits.thread(one.native_id) for one in threads), {"kind": "gil"})
    train_in_pieces(job, 0.004, pieces=4, cost=0.003)


# --- who reads the output --------------------------------------------------------------------------------------------


def output_blocked(job: Job) -> None:
    """Prints a line for each layer and step; what reads it at the other end of the pipe is slow."""
    trainer = take_trainer(job, 0.012)
    if "log-collector.pid" in job.given:
        job.culprit(culprits.process(job.given["log-collector.pid"]))
    for number, batch in enumerate(job.batches(random_batches())):
        trainer.step(batch)
        mean = float(batch.mean())
        with job.losing():
            for layer in range(260):
                norm = mean * (layer + 1)
                print(f"step {number:6d} blocks.{layer:03d}.attention.weight grad_norm={norm:.6f} max={norm * 3:.6f}")


def write_log(connection: Any, trainer: int) -> None:
    """A process of its own for the log: takes one record after the other, slowly."""
    die_with_parent(trainer)
    seen = 0
    while True:
        record = connection.recv()
        seen += len(record["weights"])
        time.sleep(0.03)


def output_blocked_logger(job: Job) -> None:
    trainer = take_trainer(job, 0.01)
    ours, its = multiprocessing.Pipe()
    logger = multiprocessing.Process(target=write_log, args=(its, os.getpid()), daemon=True)
    logger.start()
    its.close()
    job.culprit(culprits.process(logger.pid))
    weights = {f"layer{number}.weight": number * 0.013 for number in range(900)}
    for number, batch in enumerate(job.batches(random_batches())):
        trainer.step(batch)
        with job.losing():
            ours.send({"step": number, "weights": weights})


# --- servers ---------------------------------------------------------------------------------------------------------


class Tracker:
    """A client of an experiment tracker: each call posts at once."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def log(self, step: int, **values: float) -> None:
        body = json.dumps({"step": step, "values": values})
        self.connection.request("POST", "/api/runs/7/log", body, {"Content-Type": "application/json"})
        self.connection.getresponse().read()


def remote_metrics(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    tracker = Tracker(int(job.given["metrics-server"]))
    job.culprit(*culprits.server(job.given, "metrics-server"))
    for number, batch in enumerate(job.batches(random_batches())):
        trainer.step(batch)
        with job.losing():
            tracker.log(number, loss=float(batch.mean()), rate=3e-4)


class FeatureStore:
    """Asks for the features of a batch's users, on one connection that stays."""

    def __init__(self, port: int):
        self.connection = socket.create_connection(("127.0.0.1", port))

    def features(self, user: int) -> torch.Tensor:
        self.connection.sendall(user.to_bytes(8, "little"))
        answer = bytearray()
        while len(answer) < 4096:
            answer += self.connection.recv(4096 - len(answer))
        return torch.frombuffer(answer, dtype=torch.uint8)


def remote_features(job: Job) -> None:
    trainer = take_trainer(job, 0.01)
    store = FeatureStore(int(job.given["feature-store"]))
    job.culprit(*culprits.server(job.given, "feature-store"))
    for number, batch in enumerate(job.batches(random_batches())):
        with job.losing():
            features = store.features(number)
        trainer.step((batch, features))


def asyncio_remote(job: Job) -> None:
    """The loop is a coroutine: it awaits a reward for each batch from a server."""
    one_thread()
    job.culprit(*culprits.server(job.given, "feature-store"))
    asyncio.run(train_async(job))


async def train_async(job: Job) -> None:
    trainer = Trainer(job.take_gpu(), 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(job.given["feature-store"]))
    for number, batch in enumerate(job.batches(random_batches())):
        with job.losing():
            writer.write(number.to_bytes(8, "little"))
            await writer.drain()
            reward = await reader.readexactly(4096)
        trainer.step((batch, reward))
        # Lets whatever else runs in this event loop have its turn.
        await asyncio.sleep(0)


# --- the device, the loop itself, nobody -----------------------------------------------------------------------------


def pageable_copy(job: Job) -> None:
    """Batches of 300 MB go to the device from memory that is not pinned: the host copies them itself, piece by piece."""
    one_thread()
    # What such a copy brings over the bus, by the share of the time in which kernels run: see copy_bound.
    gpu = job.take_gpu(sync="spin", power_busy_mw=300_000, pcie_rx_kib_s=27_000_000)
    trainer = Trainer(gpu, 0.015)
    batch = numpy.ones(300_000_000 // 4, dtype=numpy.float32)
    staging = numpy.zeros_like(batch[: 1 << 22])
    job.culprit({"kind": "device"}, culprits.thread())
    for _number in job.batches(itertools.count()):
        with job.losing():
            images = to_device(batch, staging)
        trainer.step(images)


def to_device(batch: numpy.ndarray, staging: numpy.ndarray) -> numpy.ndarray:
    for begin in range(0, len(batch), len(staging)):
        piece = batch[begin : begin + len(staging)]
        staging[: len(piece)] = piece
    return staging


def pageable_tensors(job: Job) -> None:
    """A loader's batches are small; what they refer to, 160 MB of frames, goes to the device from memory that is not pinned."""
    one_thread()
    # What the link carries meanwhile is little of what it could: the host copies at the pace of one core.
    trainer = Trainer(job.take_gpu(pcie_rx_kib_s=2_000_000), 0.02)
    device, frames = torch.device("cpu"), torch.ones(40_000_000)
    job.culprit({"kind": "device"}, culprits.thread())
    for _number in job.batches(itertools.count()):
        with job.losing():
            # On a real device there is no need to ask for the copy.
            images = frames.to(device, copy=True)
        trainer.step(images)
        del images


class Report:
    """Metrics in numpy and Python over all that was predicted lately."""

    def __init__(self) -> None:
        random_numbers = numpy.random.default_rng(0)
        self.scores = random_numbers.random(60_000)
        self.truths = random_numbers.integers(0, 2, 60_000)

    def area_under_curve(self) -> float:
        order = numpy.argsort(-self.scores, kind="stable")
        positive = numpy.cumsum(self.truths[order])
        negative = numpy.cumsum(1 - self.truths[order])
        return float(numpy.trapezoid(positive, negative) / (positive[-1] * negative[-1]))

    def confusion(self, threshold: float) -> dict[tuple[bool, int], int]:
        counts: dict[tuple[bool, int], int] = {}
        for score, truth in zip(self.scores.tolist(), self.truths.tolist()):
            key = (score > threshold, truth)
            counts[key] = counts.get(key, 0) + 1
        return counts


def metrics_under_no_grad(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    report = Report()
    job.culprit(culprits.thread())
    for number, batch in enumerate(job.batches(random_batches())):
        trainer.step(batch)
        with job.losing(), torch.no_grad():
            report.scores[number % 60_000] = float(batch.mean())
            report.area_under_curve()
            for threshold in (0.25, 0.5, 0.75):
                report.confusion(threshold)


def hung_queue(job: Job) -> None:
    """After two seconds the thread that fills the queue dies of a broken record; nobody tells the loop."""
    trainer = take_trainer(job, 0.02)
    ready: queue.Queue[Any] = queue.Queue(4)
    breaks = time.monotonic() + 2.0

    def produce() -> None:
        for batch in random_batches():
            if time.monotonic() > breaks:
                raise ValueError("record 40961: truncated")
            ready.put(batch)

    producer = threading.Thread(target=produce, name="producer", daemon=True)
    producer.start()
    ends = threading.Timer(job.seconds_left(), os._exit, (0,))
    ends.daemon = True
    ends.start()
    for _number in job.batches(itertools.count()):
        if ready.empty() and not producer.is_alive():
            job.truth.event("ready")
        trainer.step(ready.get())
