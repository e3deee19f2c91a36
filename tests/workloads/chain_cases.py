"""Loops that are fed in other ways than by torch's loader on the main thread, or by it beside processes that look like it.

Each is a program as people write them: pools, executors, threads and queues of their own, with real work in them.
"""

from __future__ import annotations

import collections
import io
import itertools
import multiprocessing
import os
import queue
import socket
import sqlite3
import threading
import time
import zlib
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.managers import BaseManager
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from workloads import culprits, stages
from workloads.common import Job, loader, one_thread
from workloads.processes import die_with_parent
from workloads.simulated_gpu import SimulatedGpu


class Trainer:
    """A model on the device: forward, backward, and the loss read at the end of the step."""

    def __init__(self, gpu: SimulatedGpu, seconds: float):
        self.gpu, self.seconds = gpu, seconds

    def step(self, _batch: Any) -> None:
        self.gpu.launch(self.seconds / 3)
        self.gpu.launch(self.seconds / 2)
        self.gpu.launch(self.seconds / 6)
        self.gpu.synchronize()


def take_trainer(job: Job, seconds: float) -> Trainer:
    """Claims the device, and keeps torch to one thread beside it."""
    one_thread()
    return Trainer(job.take_gpu(), seconds)


def soon(seconds: float) -> float:
    """When so much CPU time of the calling thread will be used."""
    return time.thread_time() + seconds


# --- pools and threads in place of a loader --------------------------------------------------------------------------


def load_clip(number: int) -> numpy.ndarray:
    """Makes the frames of one clip and jitters each in Python."""
    frames = numpy.random.default_rng(number).random((16, 32, 32), dtype=numpy.float32)
    done = soon(0.055)
    turn = 0
    while time.thread_time() < done:
        frame = frames[turn % 16]
        low, high = float(frame.min()), float(frame.max())
        frames[turn % 16] = numpy.clip((frame - low) / (high - low + 1e-6) * 1.1, 0.0, 1.0)
        turn += 1
    return frames


def pool_imap(job: Job) -> None:
    trainer = take_trainer(job, 0.015)
    with multiprocessing.Pool(1, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        job.culprit(*map(culprits.process, culprits.workers()))
        for clip in job.batches(pool.imap(load_clip, range(100_000))):
            trainer.step(torch.from_numpy(clip))


def parse_document(number: int) -> list[int]:
    """Cuts a document into tokens and counts them."""
    text = " ".join(f"token{(number + place) % 911}" for place in range(400))
    counts: collections.Counter[str] = collections.Counter()
    done = soon(0.05)
    while time.thread_time() < done:
        counts.update(word.lower().strip(".,;") for word in text.split())
    return [count for _word, count in counts.most_common(256)]


class WindowedExecutor:
    """Keeps a few documents under way in other processes, and hands them out in order."""

    def __init__(self, executor: ProcessPoolExecutor, window: int):
        self.executor, self.numbers = executor, itertools.count()
        self.pending: collections.deque[Future[Any]] = collections.deque()
        for _ in range(window):
            self.submit()

    def submit(self) -> None:
        self.pending.append(self.executor.submit(parse_document, next(self.numbers)))

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            self.submit()
            yield self.pending.popleft().result()


def process_pool_executor(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    with ProcessPoolExecutor(1, initializer=die_with_parent, initargs=(os.getpid(),)) as executor:
        feed = WindowedExecutor(executor, window=2)
        job.culprit(*map(culprits.process, culprits.workers()))
        for counts in job.batches(feed):
            trainer.step(counts)


class PrefetchThread(threading.Thread):
    """Unpacks shards into arrays ahead of the loop; zlib and numpy let other threads run meanwhile."""

    def __init__(self, shards: list[bytes]):
        super().__init__(daemon=True)
        self.shards = shards
        self.ready: queue.Queue[Any] = queue.Queue(2)

    def run(self) -> None:
        for shard in itertools.cycle(self.shards):
            values = numpy.frombuffer(zlib.decompress(shard), dtype=numpy.float32)
            self.ready.put(numpy.sqrt(numpy.abs(values - values.mean())).reshape(64, -1).mean(axis=1))

    def __iter__(self) -> Iterator[numpy.ndarray]:
        while True:
            yield self.ready.get()


def packed(values: int, seed: int) -> bytes:
    """So many numbers, compressed as recorded signals are."""
    signal = numpy.random.default_rng(seed).integers(0, 60, values).astype(numpy.float32)
    return zlib.compress(signal.tobytes(), 1)


def prefetch_thread(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    prefetch = PrefetchThread([packed(2_400_000, seed) for seed in range(4)])
    prefetch.start()
    job.culprit(culprits.thread(prefetch.native_id))
    for batch in job.batches(prefetch):
        trainer.step(torch.from_numpy(batch))


def unpacked(shard: bytes) -> numpy.ndarray:
    values = numpy.frombuffer(zlib.decompress(shard), dtype=numpy.float32)
    means: numpy.ndarray = (values - values.mean()).reshape(16, -1).mean(axis=1)
    return means


def pool_each_time(shards: list[bytes]) -> Iterator[numpy.ndarray]:
    while True:
        with ThreadPoolExecutor(2) as pool:
            yield numpy.stack(list(pool.map(unpacked, shards)))


def pool_per_batch(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    job.culprit(culprits.SHORT_LIVED)
    for batch in job.batches(pool_each_time([packed(800_000, seed) for seed in range(6)])):
        trainer.step(torch.from_numpy(batch))


class ShardReader:
    """Reads a row of an index and the file that it names, unpacks the arrays in it, and normalises them."""

    def __init__(self, folder: str, files: int):
        self.database = os.path.join(folder, "samples.sqlite")
        self.connections = threading.local()
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, path TEXT, label INTEGER)")
            for number in range(files):
                path = os.path.join(folder, f"sample{number}.npz")
                values = numpy.random.default_rng(number).integers(0, 40, 2_600_000).astype(numpy.float32)
                numpy.savez_compressed(path, values=values)
                connection.execute("INSERT INTO samples VALUES (?, ?, ?)", (number, path, number % 10))
        self.files = files

    def read(self, number: int) -> tuple[torch.Tensor, int]:
        if not hasattr(self.connections, "own"):
            self.connections.own = sqlite3.connect(self.database)
        row = self.connections.own.execute("SELECT path, label FROM samples WHERE id = ?", (number % self.files,))
        path, label = row.fetchone()
        with open(path, "rb") as file, numpy.load(io.BytesIO(file.read())) as arrays:
            values = arrays["values"]
        return torch.from_numpy((values - values.mean()) / values.std())[:4096].clone(), label


def read_ahead(pool: ThreadPoolExecutor, reader: ShardReader, ahead: int) -> Iterator[tuple[torch.Tensor, int]]:
    futures = collections.deque(pool.submit(reader.read, number) for number in range(ahead))
    for number in itertools.count(ahead):
        yield futures.popleft().result()
        futures.append(pool.submit(reader.read, number))


def future_io(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    reader = ShardReader(os.path.dirname(job.device), files=3)
    with ThreadPoolExecutor(1, thread_name_prefix="reader") as pool:
        job.culprit(culprits.thread(pool.submit(threading.get_native_id).result()))
        for batch in job.batches(read_ahead(pool, reader, 3)):
            trainer.step(batch)


# --- torch's loader, elsewhere or beside others ----------------------------------------------------------------------


class Molecules(Dataset[Any]):
    """Distances between the atoms of a molecule, worked out in Python."""

    def __init__(self, atoms: int, length: int = 10_000_000):
        self.atoms, self.length = atoms, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        places = [((index + n) % 17 * 0.3, (index * n) % 13 * 0.2, n % 7 * 0.5) for n in range(self.atoms)]
        distances = []
        for x, y, z in places:
            nearest = sorted((x - u) ** 2 + (y - v) ** 2 + (z - w) ** 2 for u, v, w in places)
            distances.append(sum(nearest[1:9]))
        return torch.tensor(distances)


def loop_in_thread(job: Job) -> None:
    """A function that trains, run in a thread as Ray Train does; the main thread joins it."""
    one_thread()

    def train_func() -> None:
        trainer = Trainer(job.take_gpu(), 0.012)
        feed = DataLoader(Molecules(125), batch_size=8, num_workers=1, persistent_workers=True)
        for batch in job.batches(feed):
            trainer.step(batch)

    runner = threading.Thread(target=train_func, name="TrainWorker")
    runner.start()
    runner.join()


def evaluate_fold(fold: int) -> float:
    return sum(number % 7 for number in range(20_000 * (fold + 1))) / 20_000


def worker_beside_pool(job: Job) -> None:
    """A pool that was used once, for a score before training, and stays; then one slow worker."""
    trainer = take_trainer(job, 0.012)
    with multiprocessing.Pool(4, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        pool.map(evaluate_fold, range(4))
        before = set(culprits.workers())
        feed = DataLoader(Molecules(125), batch_size=8, num_workers=1, persistent_workers=True)
        job.culprit(*(culprits.process(pid) for pid in loader_workers(feed) - before))
        for batch in job.batches(feed):
            trainer.step(batch)


def after_validation(job: Job, length: int = 10_000_000) -> tuple[Trainer, DataLoader[Any], DataLoader[Any]]:
    """A validation loader that was gone through once and keeps its two workers, and one for training with a slow worker."""
    trainer = take_trainer(job, 0.012)
    held_back = DataLoader(Molecules(10, length=64), batch_size=8, num_workers=2, persistent_workers=True)
    for batch in held_back:
        trainer.step(batch)
    before = set(culprits.workers())
    feed = DataLoader(Molecules(125, length=length), batch_size=8, num_workers=1, persistent_workers=True)
    job.culprit(*(culprits.process(pid) for pid in loader_workers(feed) - before))
    return trainer, held_back, feed


def kept_second_loader(job: Job) -> None:
    """A validation loader whose two workers are kept from one validation to the next, which is far away."""
    trainer, _held_back, feed = after_validation(job)
    for batch in job.batches(feed):
        trainer.step(batch)


def two_loaders_in_turn(job: Job) -> None:
    """Epochs of a few seconds with a validation after each; the workers of both loaders stay."""
    trainer, held_back, feed = after_validation(job, 8 * 30)
    for number, batch in enumerate(job.batches(feed), 1):
        trainer.step(batch)
        if number % 30 == 0:
            for held in held_back:
                trainer.step(held)


def loader_workers(feed: DataLoader[Any]) -> set[int]:
    """Starts the loader's workers, which stay, and gives the processes that there are then."""
    iter(feed)
    return set(culprits.workers())


class Vocabulary(Dataset[Any]):
    """A data set that every worker unpacks for itself when it first needs it."""

    def __init__(self, batches: int):
        self.length = batches * 8
        words = " ".join(f"word{number * 31 % 77_777}" for number in range(2_500_000))
        self.text = zlib.compress(words.encode(), 1)
        self.numbers: dict[str, int] | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.numbers is None:
            words = zlib.decompress(self.text).decode().split()
            self.numbers = {word: number for number, word in enumerate(sorted(set(words)))}
        return torch.tensor([self.numbers.get(f"word{index + place}", 0) for place in range(64)])


def short_epochs(job: Job) -> None:
    """Each pass over 25 batches starts its worker anew, and that unpacks its vocabulary again."""
    trainer = take_trainer(job, 0.015)
    feed = DataLoader(Vocabulary(batches=25), batch_size=8, num_workers=1, shuffle=True)
    for batch in job.batches(feed):
        trainer.step(batch)


class Recording(Dataset[Any]):
    """Asks a server for each sample of a batch, several at a time, in threads of its own."""

    def __init__(self, port: int):
        self.port = port
        self.pool: ThreadPoolExecutor | None = None
        self.local = threading.local()

    def __len__(self) -> int:
        return 10_000_000

    def fetch(self, index: int) -> torch.Tensor:
        if not hasattr(self.local, "stream"):
            self.local.stream = socket.create_connection(("127.0.0.1", self.port)).makefile("rwb")
        stream = self.local.stream
        stream.write(index.to_bytes(8, "little"))
        stream.flush()
        sample = stream.read(int.from_bytes(stream.read(8), "little"))
        return torch.frombuffer(bytearray(sample[:8192]), dtype=torch.uint8)

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(4)
        return list(self.pool.map(self.fetch, indices))


def worker_threads_fetch(job: Job) -> None:
    trainer = take_trainer(job, 0.015)
    dataset = Recording(int(job.given["slow-server"]))
    for batch in job.batches(DataLoader(dataset, batch_size=16, num_workers=2, persistent_workers=True)):
        trainer.step(batch)


class DecodedAhead(Dataset[Any]):
    """Scans as JPEG bytes in memory; while a batch is put together, a thread decodes the next."""

    def __init__(self, scans: int):
        from PIL import Image

        self.scans = []
        for seed in range(scans):
            noise = numpy.random.default_rng(seed).integers(0, 255, (48, 64, 3), dtype=numpy.uint8)
            written = io.BytesIO()
            Image.fromarray(noise).resize((1280, 960)).save(written, "JPEG", quality=92)
            self.scans.append(written.getvalue())
        self.decoder: ThreadPoolExecutor | None = None
        self.following: tuple[int, Future[Any]] | None = None

    def __len__(self) -> int:
        return 10_000_000

    def decode(self, first: int, count: int) -> list[numpy.ndarray]:
        from PIL import Image

        pictures = (Image.open(io.BytesIO(self.scans[(first + n) % len(self.scans)])) for n in range(count))
        return [numpy.asarray(picture.convert("RGB"))[::4, ::4] for picture in pictures]

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        if self.decoder is None:
            self.decoder = ThreadPoolExecutor(1)
        first, count = indices[0], len(indices)
        if self.following is None or self.following[0] != first:
            self.following = (first, self.decoder.submit(self.decode, first, count))
        pictures = self.following[1].result()
        self.following = (first + count, self.decoder.submit(self.decode, first + count, count))
        return [torch.from_numpy(picture.copy()) for picture in pictures]


def worker_threads_decode(job: Job) -> None:
    trainer = take_trainer(job, 0.012)
    feed = DataLoader(DecodedAhead(6), batch_size=4, num_workers=1, persistent_workers=True)
    for batch in job.batches(feed):
        trainer.step(batch)


# --- workers that wait for each other, or for one process that serves them all -----------------------------------------


class OneAtATime(Dataset[Any]):
    """Images of a decoder that must not run twice at a time: each sample is made under a lock that all workers share."""

    def __init__(self) -> None:
        self.decoder = multiprocessing.Lock()

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> numpy.ndarray:
        frame = numpy.random.default_rng(index).random((48, 48))
        with stages.TRANSFORM, self.decoder:
            done = soon(0.012)
            while time.thread_time() < done:
                frame = numpy.sqrt(numpy.abs(frame @ frame.T)) / 48
        return frame


def worker_lock(job: Job) -> None:
    """Three workers of which one at a time works."""
    trainer = take_trainer(job, 0.012)
    feed = loader(OneAtATime(), batch_size=4, num_workers=job.workers(3))
    for batch in job.batches(feed):
        trainer.step(batch)


class Corpus:
    """Documents of which each request assembles some, in the process that holds them."""

    def __init__(self) -> None:
        self.text = [f"token{place % 911}" for place in range(4000)]

    def sample(self, index: int) -> list[int]:
        done = soon(0.02)
        counts: collections.Counter[str] = collections.Counter()
        while time.thread_time() < done:
            counts.update(self.text[index % 2000 : index % 2000 + 500])
        return list(counts.values())[:64]


class Managers(BaseManager):
    """Serves a corpus to whoever asks."""


Managers.register("Corpus", Corpus)


class Documents(Dataset[Any]):
    """Asks the process that holds the corpus for each sample."""

    def __init__(self, corpus: Any):
        self.corpus = corpus

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.LOAD:
            return torch.tensor(self.corpus.sample(index)[:32])


def worker_server(job: Job) -> None:
    """Three workers that all wait for one process, which computes each sample."""
    one_thread()
    manager: Any = Managers()
    manager.start(die_with_parent, (os.getpid(),))
    trainer = Trainer(job.take_gpu(), 0.015)
    job.culprit(culprits.process(manager._process.pid))
    feed = loader(Documents(manager.Corpus()), batch_size=4, num_workers=job.workers(3))
    for batch in job.batches(feed):
        trainer.step(batch)
