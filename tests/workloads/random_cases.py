"""The programs of random_plans.py: a loop that is fed, steps and waits as its plan says."""

from __future__ import annotations

import collections
import fcntl
import io
import itertools
import math
import mmap
import multiprocessing
import os
import queue
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Callable, Iterator

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from workloads import culprits, random_plans
from workloads.common import Job, one_thread, pending
from workloads.dataset_files import shards
from workloads.processes import die_with_parent
from workloads.random_plans import BY_PROCESSES, BY_THE_LOOP, BY_THREADS, BY_TORCH, Plan
from workloads.storage_cases import ask
from workloads.waiting_cases import Tracker

#: Pieces of a file that are read past the page cache.
PIECE = 1 << 18


# --- making samples --------------------------------------------------------------------------------------------------


def tokens(seconds: float) -> numpy.ndarray:
    """Counts words in Python."""
    counts: collections.Counter[str] = collections.Counter()
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        counts.update(word.strip(".") for word in "the cat sat on the mat. the dog saw it.".split())
    return numpy.array(sorted(counts.values())[:8], dtype=numpy.float32)


def filtered(seconds: float) -> numpy.ndarray:
    """Filters a signal in numpy."""
    signal = numpy.random.default_rng(1).random(16_384, dtype=numpy.float32)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        signal = numpy.convolve(signal, (0.25, 0.5, 0.25), "same").astype(numpy.float32)
    return signal[:8].copy()


class Unpacker:
    """Unpacks a compressed record: outside the interpreter lock."""

    def __init__(self) -> None:
        self.record = zlib.compress(numpy.random.default_rng(2).integers(0, 60, 120_000).astype(numpy.float32).tobytes(), 1)

    def __call__(self, seconds: float) -> numpy.ndarray:
        until = time.thread_time() + seconds
        values = numpy.zeros(8, dtype=numpy.float32)
        while time.thread_time() < until:
            values = numpy.frombuffer(zlib.decompress(self.record), dtype=numpy.float32)[:8].copy()
        return values


class Decoder:
    """Decodes a picture with Pillow."""

    def __init__(self) -> None:
        from PIL import Image

        pixels = numpy.random.default_rng(3).integers(0, 255, (96, 128, 3), dtype=numpy.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=92)
        self.file, self.open = file.getvalue(), Image.open

    def __call__(self, seconds: float) -> numpy.ndarray:
        until = time.thread_time() + seconds
        pixels = numpy.zeros((1, 8), dtype=numpy.float32)
        while time.thread_time() < until:
            pixels = numpy.asarray(self.open(io.BytesIO(self.file)).convert("RGB"), dtype=numpy.float32)[0, :8, 0:1].T
        return pixels.reshape(-1)[:8].copy()


class Remote:
    """Asks a server for each sample."""

    def __init__(self, port: int):
        self.connection = socket.create_connection(("127.0.0.1", port))

    def __call__(self, _seconds: float) -> numpy.ndarray:
        return numpy.frombuffer(ask(self.connection, 0)[:8], dtype=numpy.uint8).astype(numpy.float32)


class Disk:
    """Reads pieces of files past the page cache for so long."""

    def __init__(self, files: list[str]):
        self.descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in files]
        self.pieces = os.path.getsize(files[0]) // PIECE
        # An anonymous mapping is aligned to a page, as O_DIRECT wants it.
        self.piece = mmap.mmap(-1, PIECE)

    def __call__(self, seconds: float) -> numpy.ndarray:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            os.preadv(random.choice(self.descriptors), [self.piece], random.randrange(self.pieces) * PIECE)
        return numpy.frombuffer(self.piece[:8], dtype=numpy.uint8).astype(numpy.float32)


def plan_now(of: Plan, changed: str) -> Plan:
    """The plan, or what it has turned into: in every process at once, for the file `changed` is there from then on."""
    return of.then if of.then and os.path.exists(changed) else of


class Source:
    """Makes samples and batches as a plan says; goes to other processes, and to threads."""

    def __init__(self, of: Plan, port: int, files: list[str], changed: str):
        self.of, self.port, self.files, self.changed = of, port, files, changed
        self.own: dict[tuple[int, int], Callable[[float], numpy.ndarray]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "own": None}

    def _make(self) -> Callable[[float], numpy.ndarray]:
        # A connection or file for each process and thread.
        whose = (os.getpid(), threading.get_ident())
        if self.own is None:
            self.own = {}
        if whose not in self.own:
            made: dict[str, Callable[[], Any]] = {
                "python": lambda: tokens,
                "numpy": lambda: filtered,
                "unpack": Unpacker,
                "decode": Decoder,
                "remote": lambda: Remote(self.port),
                "disk": lambda: Disk(self.files),
            }
            self.own[whose] = made[self.of.work]()
        return self.own[whose]

    def sample(self) -> numpy.ndarray:
        return self._make()(plan_now(self.of, self.changed).sample_s)

    def batch(self, _number: int = 0) -> numpy.ndarray:
        return numpy.stack([self.sample() for _ in range(self.of.batch_size)])


class MapStyle(Dataset[Any]):
    def __init__(self, source: Source):
        self.source = source

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, _index: int) -> torch.Tensor:
        return torch.from_numpy(self.source.sample())


class Streamed(IterableDataset[Any]):
    def __init__(self, source: Source):
        self.source = source

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.from_numpy(self.source.sample())


# --- handing batches over --------------------------------------------------------------------------------------------

_SOURCE: Source | None = None


def _begin(source: Source, trainer: int, start: str) -> None:
    global _SOURCE
    _SOURCE = source
    if start != "forkserver":
        die_with_parent(trainer)


def _one(number: int) -> numpy.ndarray:
    assert _SOURCE is not None
    return _SOURCE.batch(number)


def _fill(ready: Any, source: Source) -> None:
    while True:
        ready.put(source.batch())


def _taken(ready: Any) -> Iterator[numpy.ndarray]:
    while True:
        yield ready.get()


def _few_ahead(pool: Any, ahead: int) -> Iterator[numpy.ndarray]:
    room = threading.Semaphore(ahead)

    def numbers() -> Iterator[int]:
        while room.acquire():
            yield 0

    for batch in pool.imap(_one, numbers()):
        room.release()
        yield batch


def _printed(source: Source) -> Iterator[numpy.ndarray]:
    """What another program prints, one batch after the other."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from workloads import random_cases; random_cases.print_batches(*sys.argv[2:])"
    command = [sys.executable, "-c", code, os.path.dirname(os.path.dirname(os.path.abspath(__file__))), source.of.name, str(source.port), source.changed]
    program = subprocess.Popen([*command, *source.files], stdout=subprocess.PIPE)
    assert program.stdout is not None
    while head := program.stdout.read(8):
        yield numpy.frombuffer(program.stdout.read(struct.unpack("<q", head)[0]), dtype=numpy.float32)


def print_batches(name: str, port: str, changed: str, *files: str) -> None:
    """The other program."""
    source = Source(random_plans.of_name(name), int(port), list(files), changed)
    while True:
        batch = source.batch().tobytes()
        sys.stdout.buffer.write(struct.pack("<q", len(batch)) + batch)
        sys.stdout.buffer.flush()


def supply(of: Plan, source: Source) -> Any:
    """Something to iterate over that gives batches."""
    context: Any = multiprocessing.get_context(of.start)
    if of.supply in BY_TORCH or of.supply == "torch-inline":
        dataset = Streamed(source) if of.supply == "torch-iterable" else MapStyle(source)
        options: dict[str, Any] = {"num_workers": of.feeders, "multiprocessing_context": context, "persistent_workers": True}
        return DataLoader(dataset, batch_size=of.batch_size, **options if of.feeders else {})
    if of.supply == "generator":
        return (source.batch() for _ in itertools.count())
    if of.supply == "thread-pool":
        threads = ThreadPoolExecutor(of.feeders)
        return pending(lambda: threads.submit(source.batch), of.feeders + 1)
    if of.supply in BY_THREADS:
        ready: Any = queue.Queue(2)
        for _ in range(of.feeders):
            threading.Thread(target=_fill, args=(ready, source), daemon=True).start()
        return _taken(ready)
    words = (source, os.getpid(), of.start)
    if of.supply == "process-pool":
        executor = ProcessPoolExecutor(of.feeders, mp_context=context, initializer=_begin, initargs=words)
        return pending(lambda: executor.submit(_one, 0), of.feeders + 1)
    if of.supply == "pool-imap":
        pool = context.Pool(of.feeders, _begin, words)
        # What was made before a change would hide it for a long time.
        return _few_ahead(pool, 2 * of.feeders) if of.then else pool.imap(_one, range(200_000))
    if of.supply == "processes":
        ready = context.Queue(2)
        for _ in range(of.feeders):
            context.Process(target=_fill, args=(ready, source), daemon=True).start()
        return _taken(ready)
    return _printed(source)


# --- the step --------------------------------------------------------------------------------------------------------


def simulate(connection: Any, seconds: float, trainer: int) -> None:
    """An environment: computes for each action that it is sent."""
    die_with_parent(trainer)
    while True:
        connection.recv()
        connection.send(float(tokens(seconds).sum()))


class Elsewhere:
    """What the step waits for besides the device."""

    def __init__(self, job: Job, of: Plan):
        self.ask: Callable[[int], Any] = lambda _number: None
        #: Who stands at its other end.
        self.ends: list[culprits.End] = []
        if of.elsewhere == "environment":
            ends: Any = multiprocessing.Pipe()
            ours, its = ends
            one = multiprocessing.Process(target=simulate, args=(its, of.elsewhere_s, os.getpid()), daemon=True)
            one.start()
            its.close()
            self.ends = [culprits.process(one.pid)]
            self.ask = lambda number: (ours.send(number), ours.recv())
        elif of.elsewhere == "metrics":
            self.ends = culprits.server(job.given, "metrics-server")
            self.ask = Tracker(int(job.given["metrics-server"])).log
        elif of.elsewhere == "journal":
            path = job.given["journal-holder"]
            self.ends = [culprits.lock(path), culprits.process(job.given["journal-holder.pid"])]
            journal = open(path, "a", encoding="utf-8")

            def note(number: int) -> None:
                fcntl.flock(journal, fcntl.LOCK_EX)
                journal.write(f"{number}\n")
                journal.flush()
                fcntl.flock(journal, fcntl.LOCK_UN)

            self.ask = note


def beside(of: Plan) -> list[Any]:
    """Others that are there and are not waited for."""
    there: list[Any] = []
    if "idle-pool" in of.beside:
        pool = multiprocessing.Pool(3)
        pool.map(abs, range(3))
        there.append(pool)
    if "kept-loader" in of.beside:
        numbers: Any = list(range(64))
        held_back: DataLoader[Any] = DataLoader(numbers, batch_size=8, num_workers=2, persistent_workers=True)
        for _batch in held_back:
            pass
        there.append(held_back)
    if "ticker" in of.beside:

        def tick() -> None:
            while True:
                time.sleep(0.1)

        threading.Thread(target=tick, daemon=True).start()
    if "log-queue" in of.beside:
        lines: queue.Queue[Any] = queue.Queue()

        def write() -> None:
            with open(os.devnull, "w", encoding="utf-8") as log:
                while True:
                    log.write(lines.get())

        threading.Thread(target=write, daemon=True).start()
        there.append(lines)
    return there


def loop(job: Job, of: Plan) -> None:
    """Trains until the time is up."""
    if "workers" in job.given:
        of = replace(of, feeders=job.workers(of.feeders))
    there = beside(of)
    gpu = job.take_gpu(sync=of.sync) if of.device_s else None
    elsewhere = {one.elsewhere: Elsewhere(job, one) for one in {of, of.then or of}}
    if of.elsewhere and not of.then:
        job.culprit(*elsewhere[of.elsewhere].ends)
    files = shards(job.data) if of.work == "disk" else []
    others = set(culprits.workers())
    changed = os.path.join(os.path.dirname(job.device), "changed")
    feed = supply(of, Source(of, int(job.given.get("slow-server", 0)), files, changed))
    # Which end is the true one is only known for sure where the label's words say it, or the step does.
    by_processes = of.supply in BY_TORCH + BY_PROCESSES[:3] and of.work not in random_plans.WAITS
    usual = of.longest != "supply" or of.work in random_plans.WAITS
    job.names_culprit |= not usual or of.supply in BY_THE_LOOP or of.then is not None
    matrix = torch.rand(160, 160)
    log = next((one for one in there if isinstance(one, queue.Queue)), None)
    turns_at = math.inf
    now = of
    for number, _batch in enumerate(job.batches(feed)):
        # Pools start their processes when the first work comes.
        if number == 2 and of.longest == "supply" and by_processes and not of.then:
            job.culprit(*(culprits.process(pid) for pid in culprits.workers() if pid not in others))
        if number == 2 and of.then:
            turns_at = time.monotonic() + of.after_s
        began, synced = time.monotonic(), gpu.synced_s if gpu else 0.0
        if began >= turns_at:
            turns_at = math.inf
            with open(changed, "w", encoding="utf-8"):
                job.truth.event("change")
            now = plan_now(of, changed)
        if now.host_s:
            tokens(now.host_s)
        if gpu:
            for _ in range(now.kernels):
                gpu.launch(now.device_s / now.kernels)
            if number % now.sync_every == 0:
                gpu.synchronize()
        until = time.thread_time() + now.compute_s
        while time.thread_time() < until:
            matrix = torch.nn.functional.normalize(matrix @ matrix)
        if now.longest == "host":
            job.lost_s += time.monotonic() - began - ((gpu.synced_s if gpu else 0.0) - synced)
        if now.elsewhere:
            with job.losing():
                elsewhere[now.elsewhere].ask(number)
        if log is not None:
            log.put(f"{number}\n")


def run(job: Job) -> None:
    one_thread()
    of = random_plans.of_name(job.label.name)
    if of.loop == "main":
        loop(job, of)
        return
    thread = threading.Thread(target=loop, args=(job, of))
    thread.start()
    thread.join()
