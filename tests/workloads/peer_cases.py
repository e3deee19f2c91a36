"""Loops that are held up by other processes: services and environments that compute, jobs that hold a lock."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import multiprocessing
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import numpy
import torch

from workloads import culprits
from workloads.chain_cases import Trainer, soon, take_trainer
from workloads.common import Job, one_thread
from workloads.processes import die_with_parent
from workloads.waiting_cases import random_batches

# --- other processes -------------------------------------------------------------------------------------------------


def serve_scores(listener: socket.socket, trainer: int) -> None:
    """A reward model: scores what it is sent, one request at a time."""
    die_with_parent(trainer)
    connection, _address = listener.accept()
    projection = numpy.random.default_rng(0).random((48, 48))
    while request := connection.recv(1024):
        state = numpy.frombuffer(request[:384], dtype=numpy.float64)
        done = soon(0.04)
        while time.thread_time() < done:
            state = numpy.tanh(projection @ state)
        connection.sendall(state.mean().tobytes())


class Scorer:
    """Asks the reward model in a thread, so that the loop gets a future."""

    def __init__(self, port: int):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="scorer")

    def _ask(self, sample: numpy.ndarray) -> float:
        self.connection.sendall(sample.tobytes())
        return float(numpy.frombuffer(self.connection.recv(8), dtype=numpy.float64)[0])

    def score(self, sample: numpy.ndarray) -> Any:
        return self.pool.submit(self._ask, sample)


def scoring_service(job: Job) -> None:
    trainer = take_trainer(job, 0.01)
    listener = socket.create_server(("127.0.0.1", 0))
    service = multiprocessing.Process(target=serve_scores, args=(listener, os.getpid()), daemon=True)
    service.start()
    job.culprit(culprits.process(service.pid))
    scorer = Scorer(listener.getsockname()[1])
    listener.close()
    for batch in job.batches(random_batches()):
        sample = numpy.resize(batch.numpy().astype(numpy.float64), 48)
        with job.losing():
            reward = scorer.score(sample).result()
        trainer.step((batch, reward))


def simulate(places: list[float], action: float, cost: float) -> list[float]:
    """Physics of a chain of masses in Python, for `cost` seconds of CPU time."""
    done = soon(cost)
    while time.thread_time() < done:
        pulled = [0.5 * (left + right) for left, right in zip(places[1:] + places[:1], places[-1:] + places[:-1])]
        places = [0.9 * place + 0.1 * pull + 0.001 * action for place, pull in zip(places, pulled)]
    return places


def environment(connection: Any, cost: float, trainer: int) -> None:
    die_with_parent(trainer)
    places = [random.random() for _ in range(60)]
    while True:
        places = simulate(places, connection.recv(), cost)
        connection.send((places, sum(places), False))


def environments(job: Job) -> None:
    """Two environments in processes of their own, stepped together; one is much slower."""
    policy = take_trainer(job, 0.01)
    pipes, started = [], []
    for cost in (0.004, 0.035):
        ours, its = multiprocessing.Pipe()
        started.append(multiprocessing.Process(target=environment, args=(its, cost, os.getpid()), daemon=True))
        started[-1].start()
        its.close()
        pipes.append(ours)
    job.culprit(culprits.process(started[1].pid))
    for batch in job.batches(random_batches(2)):
        policy.step(batch)
        for pipe, action in zip(pipes, batch.mean(dim=1).tolist()):
            pipe.send(action)
        with job.losing():
            observed = [pipe.recv() for pipe in pipes]
        del observed


def vector_environment(number: int, shared: Any, signal: Any, cost: float, trainer: int) -> None:
    """Writes what it observes into its row of the shared array; one byte each way says when."""
    die_with_parent(trainer)
    row = numpy.frombuffer(shared, dtype=numpy.float32).reshape(4, 60)[number]
    while True:
        signal.recv_bytes()
        row[:] = simulate(row.tolist(), 0.1, cost)
        signal.send_bytes(b"x")


def environments_vector(job: Job) -> None:
    policy = take_trainer(job, 0.008)
    shared = multiprocessing.RawArray("f", 4 * 60)
    observations = numpy.frombuffer(shared, dtype=numpy.float32).reshape(4, 60)
    observations[:] = numpy.random.default_rng(0).random((4, 60))
    pipes, started = [], []
    for number, cost in enumerate((0.003, 0.003, 0.03, 0.003)):
        ours, its = multiprocessing.Pipe()
        words = (number, shared, its, cost, os.getpid())
        started.append(multiprocessing.Process(target=vector_environment, args=words, daemon=True))
        started[-1].start()
        pipes.append(ours)
    job.culprit(culprits.process(started[2].pid))
    for batch in job.batches(random_batches(4)):
        policy.step((batch, torch.from_numpy(observations.copy())))
        for pipe in pipes:
            pipe.send_bytes(b"s")
        with job.losing():
            for pipe in pipes:
                pipe.recv_bytes()


SIMULATOR = '''
import json, random, sys

for line in sys.stdin:
    total = 0
    for number in range(250_000):
        total += number * number % 7
    print(json.dumps({"observed": [random.random() for _ in range(64)], "reward": total % 3}), flush=True)
'''


class SmallPolicy:
    """A model on the CPU that learns from one observation."""

    def __init__(self) -> None:
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def learn(self, observed: Any, reward: float) -> None:
        loss = self.net(torch.as_tensor(observed, dtype=torch.float32)).square().sum() * reward
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def simulator_over_stdio(job: Job) -> None:
    """A simulator in a program of its own that reads actions from its input and prints what it observes."""
    one_thread()
    policy = SmallPolicy()
    command = [sys.executable, "-c", SIMULATOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as simulator:
        assert simulator.stdin is not None and simulator.stdout is not None
        job.culprit(culprits.process(simulator.pid))
        for batch in job.batches(random_batches(1)):
            with job.losing():
                simulator.stdin.write(json.dumps(batch[0].tolist()) + "\n")
                simulator.stdin.flush()
                answer = json.loads(simulator.stdout.readline())
            policy.learn(answer["observed"], answer["reward"])


class EmbeddingServer:
    """Rows of a table with their AdaGrad state: takes gradients key by key and gives out rows, one request at a time."""

    def __init__(self, listener: socket.socket):
        self.listener = listener
        self.rows: dict[int, list[float]] = {}

    def push(self, keys: list[int], scale: float) -> None:
        done = soon(0.045)
        while time.thread_time() < done:
            for key in keys:
                row = self.rows.setdefault(key, [0.0] * 8)
                norm = sum(value * value for value in row) ** 0.5
                self.rows[key] = [value - scale / (1.0 + norm) for value in row]

    def run(self) -> None:
        connection, _address = self.listener.accept()
        while request := connection.recv(65536):
            keys, scale = json.loads(request)
            self.push(keys, scale)
            connection.sendall(json.dumps([self.rows[key][0] for key in keys]).encode())


def started_apart(listener: socket.socket) -> int:
    """A server in a session of its own, child of nobody that trains; it ends with its connection. Its PID."""
    reads, writes = os.pipe()
    if child := os.fork():
        os.waitpid(child, 0)
        return int(os.read(reads, 32))
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(writes, str(os.getpid()).encode())
    signal.alarm(180)
    try:
        EmbeddingServer(listener).run()
    finally:
        os._exit(0)


def parameter_server(job: Job) -> None:
    """The trainer has inherited the socket that the server accepts connections by, as forked ranks do."""
    one_thread()
    listener = socket.create_server(("127.0.0.1", 0))
    job.culprit(culprits.process(started_apart(listener)))
    trainer = Trainer(job.take_gpu(), 0.012)
    connection = socket.create_connection(listener.getsockname())
    keys = random.Random(1)
    for batch in job.batches(random_batches()):
        trainer.step(batch)
        with job.losing():
            connection.sendall(json.dumps([keys.sample(range(5000), 64), 0.01]).encode())
            connection.recv(65536)


async def answer_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Features of a user: whoever asks waits for 45 ms, and several are answered at once."""
    while line := await reader.readline():
        await asyncio.sleep(0.045)
        writer.write(line)
        await writer.drain()


def serve_features(listener: socket.socket, trainer: int) -> None:
    die_with_parent(trainer)

    async def serve() -> None:
        await (await asyncio.start_server(answer_slowly, sock=listener)).serve_forever()

    asyncio.run(serve())


def async_features(job: Job) -> None:
    """An asyncio loop that gathers the features of eight users for each step."""
    one_thread()
    listener = socket.create_server(("127.0.0.1", 0))
    service = multiprocessing.Process(target=serve_features, args=(listener, os.getpid()), daemon=True)
    service.start()
    job.culprit(culprits.process(service.pid), culprits.address(listener.getsockname()[1]))
    trainer = Trainer(job.take_gpu(), 0.015)

    async def ask(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], user: int) -> bytes:
        reader, writer = stream
        writer.write(b"%d\n" % user)
        return await reader.readline()

    async def run() -> None:
        streams = [await asyncio.open_connection(*listener.getsockname()) for _ in range(8)]
        for number, batch in enumerate(job.batches(random_batches())):
            with job.losing():
                users = await asyncio.gather(*(ask(stream, number + user) for user, stream in enumerate(streams)))
            trainer.step((batch, users))

    asyncio.run(run())


def serve_slowly(listener: socket.socket, trainer: int) -> None:
    """Answers after 80 ms in which nothing is computed: a service that has to ask elsewhere itself."""
    die_with_parent(trainer)
    connection, _address = listener.accept()
    while connection.recv(64):
        time.sleep(0.08)
        connection.sendall(os.urandom(512))


def quiet_loop(job: Job) -> None:
    """Hardly computes at all: what it learns from comes out of a service, twelve times a second at most."""
    one_thread()
    policy = SmallPolicy()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = multiprocessing.Process(target=serve_slowly, args=(listener, os.getpid()), daemon=True)
    service.start()
    connection = socket.create_connection(("127.0.0.1", port))
    listener.close()
    job.culprit(culprits.address(port), culprits.process(service.pid))
    for number, _batch in enumerate(job.batches(random_batches(1))):
        with job.losing():
            connection.sendall(number.to_bytes(8, "little"))
            answer = bytearray()
            while len(answer) < 512:
                answer += connection.recv(512 - len(answer))
        policy.learn(numpy.frombuffer(answer, dtype=numpy.uint8)[:64] / 255.0, 0.5)


# --- locks -----------------------------------------------------------------------------------------------------------


def keep_journal(job: Job, values: Iterator[float]) -> None:
    """Each step's value goes into a journal that another job writes as well."""
    path = job.given["journal-holder"]
    job.culprit(culprits.lock(path), culprits.process(job.given["journal-holder.pid"]))
    with open(path, "a", encoding="utf-8") as journal:
        for number, value in enumerate(values):
            with job.losing():
                fcntl.flock(journal, fcntl.LOCK_EX)
            journal.write(json.dumps({"step": number, "loss": value}) + "\n")
            journal.flush()
            fcntl.flock(journal, fcntl.LOCK_UN)


def file_lock(job: Job) -> None:
    trainer = take_trainer(job, 0.012)

    def losses() -> Iterator[float]:
        for batch in job.batches(random_batches()):
            trainer.step(batch)
            yield float(batch.mean())

    keep_journal(job, losses())


def sorted_sum(seed: int) -> float:
    """A moment's work in NumPy, in a process of the pool."""
    return float(numpy.sort(numpy.random.default_rng(seed).random(200_000)).sum())


def file_lock_spin(job: Job) -> None:
    """The same while a pool makes ahead, without end, what the loop takes one of at each step."""
    one_thread()
    pool = multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0)) + 1)
    made = pool.imap(sorted_sum, range(10_000_000))
    gpu = job.take_gpu(sync="spin")

    def losses() -> Iterator[float]:
        for total in job.batches(made):
            gpu.launch(0.012)
            gpu.synchronize()
            yield total

    keep_journal(job, losses())


def file_lock_tried(job: Job) -> None:
    """SQLite does not wait for a lock: it sleeps and tries again, up to the time-out."""
    trainer = take_trainer(job, 0.012)
    path = job.given["importer"]
    job.culprit(culprits.lock(path), culprits.process(job.given["importer.pid"]))
    database = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    for number, batch in enumerate(job.batches(random_batches())):
        trainer.step(batch)
        with job.losing():
            database.execute("insert into losses values (?, ?)", (number, float(batch.mean())))


class SharedIndex:
    """Reads entries of an index that another job may be writing: under a lock for readers."""

    def __init__(self, path: str):
        self.file = open(path, "rb")

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in itertools.count():
            fcntl.lockf(self.file, fcntl.LOCK_SH)
            entries = os.pread(self.file.fileno(), 512, number * 512 % 1024)
            fcntl.lockf(self.file, fcntl.LOCK_UN)
            yield torch.frombuffer(bytearray(entries), dtype=torch.uint8)


def lock_shared_cache(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    path = job.given["index-builder"]
    job.culprit(culprits.lock(path), culprits.process(job.given["index-builder.pid"]))
    for batch in job.batches(SharedIndex(path)):
        trainer.step(batch)
