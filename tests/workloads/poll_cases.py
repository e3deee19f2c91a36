"""Loops that sleep, or sleep and look again, and loops that only take what others of their process have done.

A sleep is the loop's own where nothing else works meanwhile, and a wait for whoever works where somebody does.
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import numpy
import torch

from workloads import culprits
from workloads.chain_cases import Trainer, soon, take_trainer
from workloads.common import Job, one_thread
from workloads.processes import die_with_parent
from workloads.waiting_cases import random_batches


def cools_down(job: Job) -> None:
    """Rests after each step, as tutorials for laptops advise, so that the machine stays cool."""
    trainer = take_trainer(job, 0.025)
    for batch in job.batches(random_batches()):
        trainer.step(batch)
        with job.losing():
            time.sleep(0.045)


class Permit:
    """A file that a controller puts down whenever one more step may be taken. Here a thread stands for the controller."""

    def __init__(self, path: Path, every_s: float):
        self.path, self.every_s = path, every_s
        threading.Thread(target=self.grant, daemon=True).start()

    def grant(self) -> None:
        while True:
            time.sleep(self.every_s)
            self.path.touch()

    def take(self) -> None:
        while not self.path.exists():
            time.sleep(0.015)
        self.path.unlink()


def polls_for_a_permit(job: Job) -> None:
    one_thread()
    permit = Permit(Path(job.data) / "permit", every_s=0.09)
    trainer = Trainer(job.take_gpu(), 0.02)
    for batch in job.batches(random_batches()):
        trainer.step(batch)
        with job.losing():
            permit.take()


def search(seed: int) -> float:
    """Looks for the best of many random plans, in NumPy."""
    best, done = 0.0, soon(0.05)
    draw = numpy.random.default_rng(seed)
    while time.thread_time() < done:
        best = max(best, float(draw.random((64, 64)).sum(axis=1).max()))
    return best


def looked_for(result: Future[float]) -> float:
    """The result once it is there: asks every few milliseconds, as joblib does."""
    while not result.done():
        time.sleep(0.01)
    return result.result()


def polls_a_planner(job: Job) -> None:
    """Each step needs a plan from a process of a pool, which computes only when it is asked."""
    trainer = take_trainer(job, 0.012)
    with ProcessPoolExecutor(1, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        pool.submit(search, 0).result()
        job.culprit(*map(culprits.process, culprits.workers()))
        for number, batch in enumerate(job.batches(random_batches())):
            with job.losing():
                looked_for(pool.submit(search, number))
            trainer.step(batch)


RENDERER = """
import os, sys, time
import numpy
folder, number, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
while os.getppid() == int(sys.argv[4]):
    if len(os.listdir(folder)) >= 8:
        time.sleep(0.02)
        continue
    picture, done = numpy.zeros((256, 256)), time.thread_time() + 0.12
    while time.thread_time() < done:
        picture += numpy.hypot(*numpy.meshgrid(numpy.arange(256.0), numpy.arange(256.0)))
    numpy.save(f"{folder}/part.{number}.npy", picture)
    os.rename(f"{folder}/part.{number}.npy", f"{folder}/{number}.npy")
    number += step
"""


def rendered(folder: Path) -> Iterator[numpy.ndarray]:
    """The pictures of a folder in their order, each as soon as it is there."""
    for number in itertools.count():
        path = folder / f"{number}.npy"
        while not path.exists():
            time.sleep(0.01)
        yield numpy.load(path)
        path.unlink()


def polls_a_folder(job: Job) -> None:
    """Another program renders the batches into a folder all the time; the loop looks there until the next one has come."""
    one_thread()
    folder = Path(job.data) / "rendered"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    renderer = subprocess.Popen([sys.executable, "-c", RENDERER, str(folder), "0", "1", str(os.getpid())])
    trainer = Trainer(job.take_gpu(), 0.015)
    job.culprit(culprits.process(renderer.pid))
    for picture in job.batches(rendered(folder)):
        trainer.step(picture)


class Embeddings:
    """Threads train one table each, in native code that runs side by side, and report after each round."""

    def __init__(self, threads: int):
        self.rounds: queue.Queue[int] = queue.Queue(2 * threads)
        self.reports: queue.Queue[float] = queue.Queue()
        self.threads = [threading.Thread(target=self.train, args=(seed,), daemon=True) for seed in range(threads)]
        for thread in [threading.Thread(target=self.schedule, daemon=True), *self.threads]:
            thread.start()

    def schedule(self) -> None:
        for number in itertools.count():
            self.rounds.put(number)

    def train(self, seed: int) -> None:
        table = torch.rand(400, 400, generator=torch.Generator().manual_seed(seed))
        while True:
            rate = 1e-4 / (1 + self.rounds.get())
            loss = 0.0
            for _ in range(8):
                error = table @ table.T - torch.eye(400)
                table -= rate * (error @ table)
                loss = float(error.square().mean())
            self.reports.put(loss)


def threads_that_learn(job: Job) -> None:
    """The main thread only notes what the threads that train report."""
    one_thread()
    embeddings = Embeddings(max(1, len(os.sched_getaffinity(0)) - 1))
    job.culprit(*(culprits.thread(thread.native_id) for thread in embeddings.threads))
    losses: list[float] = []
    for _ in job.batches(itertools.count()):
        with job.losing():
            losses.append(embeddings.reports.get())
        del losses[:-100]


def answers_requests(job: Job) -> None:
    """A model answers requests; a thread takes them from a connection. It is idle in between, and trains nothing."""
    one_thread()
    listener = socket.create_server(("127.0.0.1", 0))
    requests: queue.Queue[bytes] = queue.Queue()

    def receive() -> None:
        connection, _ = listener.accept()
        with connection:
            while request := connection.recv(16):
                requests.put(request)

    threading.Thread(target=receive, daemon=True).start()
    client = f"import socket, time\ns = socket.create_connection({listener.getsockname()})\n"
    client += "while True:\n    time.sleep(0.12)\n    s.sendall(bytes(16))\n"
    asks = subprocess.Popen([sys.executable, "-c", client])
    model = torch.nn.Sequential(*(torch.nn.Linear(700, 700) for _ in range(6))).eval()
    job.truth.event("ready")
    with torch.inference_mode():
        while not job.over():
            seed = requests.get()[0]
            model(torch.full((160, 700), float(seed)))
    asks.kill()
