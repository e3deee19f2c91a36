"""Workloads of class io: the job waits for bytes, from a disk or from afar, or for writing them."""

from __future__ import annotations

import mmap
import os
import queue
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import IterableDataset

from workloads import dataset_files, stages
from workloads.common import Endless, Job, gpu_step, loader, one_thread, pending
from workloads.loader_cases import Computed

PIECE = 1 << 20


class ColdFiles(Endless):
    """Reads a piece of a file that is not in the page cache, the plain way."""

    def __init__(self, files: list[str], piece: int):
        self.files, self.piece = files, piece

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.LOAD:
            path = self.files[index * 7919 % len(self.files)]
            descriptor = os.open(path, os.O_RDONLY)
            try:
                # Whatever an earlier run or read-ahead left in memory must not help.
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
                size = os.fstat(descriptor).st_size
                at = random.randrange(max(1, size - self.piece)) & ~4095
                read = os.pread(descriptor, self.piece, at)
            finally:
                os.close(descriptor)
            return torch.tensor(len(read))


class DirectFiles(Endless):
    """Reads pieces of files with O_DIRECT: what a loader does that knows its data do not fit into memory."""

    def __init__(self, files: list[str], piece: int, pieces: int):
        self.files, self.piece, self.pieces = files, piece, pieces
        self.descriptors: dict[str, int] = {}
        self.buffer: mmap.mmap | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.LOAD:
            # An anonymous mapping is aligned to a page, as O_DIRECT wants it; made in the worker, shared with nobody.
            if self.buffer is None:
                self.buffer = mmap.mmap(-1, self.piece)
            total = 0
            for _ in range(self.pieces):
                path = self.files[random.randrange(len(self.files))]
                descriptor = self.descriptors.get(path)
                if descriptor is None:
                    descriptor = self.descriptors[path] = os.open(path, os.O_RDONLY | os.O_DIRECT)
                room = os.fstat(descriptor).st_size - self.piece
                total += os.preadv(descriptor, [self.buffer], random.randrange(room + 1) & ~4095)
            return torch.tensor(total)


Mapped = list[tuple[int, mmap.mmap]]


def map_files(files: list[str]) -> Mapped:
    """Each file's descriptor and its mapping, of which nothing is read ahead."""
    maps = []
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)
        maps.append((descriptor, mapped))
    return maps


def forget(maps: Mapped) -> None:
    """Neither this process nor the page cache may keep what was read: the set is far larger than memory."""
    for descriptor, mapped in maps:
        mapped.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


class MappedPages(Endless):
    """Touches random pages of mapped files that are never in memory."""

    def __init__(self, files: list[str], pages: int):
        self.files, self.pages = files, pages
        self.maps: Mapped = []

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.LOAD:
            if not self.maps:
                self.maps = map_files(self.files)
            total = 0
            if index % 16 == 0:
                forget(self.maps)
            for _ in range(self.pages):
                mapped = random.choice(self.maps)[1]
                total += mapped[random.randrange(len(mapped))]
            return torch.tensor(total)


class Buffered(Endless):
    """Small reads at random places of kept files through the page cache, as indexed record files are read."""

    def __init__(self, files: list[str], piece: int, pieces: int):
        self.files, self.piece, self.pieces = files, piece, pieces
        self.descriptors: list[int] = []

    def __getitem__(self, _index: int) -> torch.Tensor:
        with stages.LOAD:
            if not self.descriptors:
                self.descriptors = [os.open(path, os.O_RDONLY) for path in self.files]
                for descriptor in self.descriptors:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            room = os.path.getsize(self.files[0]) - self.piece
            total = 0
            for _ in range(self.pieces):
                total += len(os.pread(random.choice(self.descriptors), self.piece, random.randrange(room) & ~4095))
            return torch.tensor(total)


class FromServer(Endless):
    """Asks a server for each sample."""

    def __init__(self, port: int):
        self.port = port
        self.connection: socket.socket | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.LOAD:
            if self.connection is None:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
            return torch.frombuffer(bytearray(ask(self.connection, index)), dtype=torch.uint8)


def ask(connection: socket.socket, index: int) -> bytes:
    """A sample of the slow server's."""
    connection.sendall(index.to_bytes(8, "little"))
    return _read(connection, int.from_bytes(_read(connection, 8), "little"))


def _read(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise ConnectionError("the sample server closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class FromPipe(IterableDataset[Any]):
    """Samples of a fixed size out of a named pipe."""

    def __init__(self, path: str, size: int):
        self.path, self.size = path, size

    def __iter__(self) -> Iterator[torch.Tensor]:
        with open(self.path, "rb", buffering=0) as pipe:
            while True:
                left, parts = self.size, []
                with stages.LOAD:
                    while left:
                        part = pipe.read(left)
                        if not part:
                            return
                        parts.append(part)
                        left -= len(part)
                    sample = torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)
                yield sample


def throttled(job: Job) -> None:
    """64 KiB pieces, 8 in a batch: at 4 MB/s a batch takes 130 ms."""
    one_thread()
    dataset = ColdFiles(dataset_files.shards(job.data), 64 * 1024)
    job.train(loader(dataset, batch_size=8, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.02))


def small_files(job: Job) -> None:
    one_thread()
    dataset = DirectFiles(dataset_files.small_files(job.data)[:900], 4096, 1)
    job.train(loader(dataset, batch_size=64, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.006))


def disk_bandwidth(job: Job) -> None:
    one_thread()
    dataset = DirectFiles(dataset_files.shards(job.data), 8 * PIECE, 4)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.015))


class ReadAhead(threading.Thread):
    """Reads samples ahead of the loop, in a thread of the trainer; the queue holds two batches."""

    def __init__(self, dataset: DirectFiles, batch_size: int):
        super().__init__(daemon=True)
        self.dataset, self.batch_size = dataset, batch_size
        self.ready: queue.Queue[Any] = queue.Queue(2)

    def run(self) -> None:
        while True:
            self.ready.put(torch.stack([self.dataset[index] for index in range(self.batch_size)]))

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield self.ready.get()


def thread_reads_ahead(job: Job) -> None:
    one_thread()
    feed = ReadAhead(DirectFiles(dataset_files.shards(job.data), 8 * PIECE, 4), batch_size=4)
    feed.start()
    step = gpu_step(job.take_gpu(), 0.015)
    for number, batch in enumerate(job.batches(feed)):
        step(number, batch)


def mmap_cold(job: Job) -> None:
    one_thread()
    dataset = MappedPages(dataset_files.shards(job.data), 6)
    job.train(loader(dataset, batch_size=16, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.01))


def mapped_cut(views: list[numpy.ndarray], length: int) -> torch.Tensor:
    """A copy of a random piece of a mapped file: a fault for each page, outside of the interpreter lock."""
    view = random.choice(views)
    at = random.randrange(len(view) - length)
    return torch.from_numpy(numpy.array(view[at : at + length]))


def threads_map_cold(job: Job) -> None:
    one_thread()
    maps = map_files(dataset_files.shards(job.data))
    views = [numpy.frombuffer(mapped, dtype=numpy.uint8) for _descriptor, mapped in maps]

    def cut() -> torch.Tensor:
        piece = torch.stack([mapped_cut(views, PIECE) for _ in range(2)])
        forget(maps)
        return piece

    pool = ThreadPoolExecutor(2)
    job.train(pending(lambda: pool.submit(cut), 3), gpu_step(job.take_gpu(), 0.006))


def page_cache_miss(job: Job) -> None:
    one_thread()
    files = dataset_files.shards(job.data)
    for path in files:
        # Pages that an earlier run left behind are charged to nobody and would be hits.
        dataset_files.evict(path)
    feed = loader(Buffered(files, 16 * 1024, 4), batch_size=16, num_workers=job.workers(1))
    job.train(feed, gpu_step(job.take_gpu(), 0.006))


def network_storage(job: Job) -> None:
    one_thread()
    dataset = FromServer(int(job.given["slow-server"]))
    job.train(loader(dataset, batch_size=8, num_workers=job.workers(3)), gpu_step(job.take_gpu(), 0.02))


def network_storage_by_the_loop(job: Job) -> None:
    one_thread()
    dataset = FromServer(int(job.given["slow-server"]))
    job.train(loader(dataset, batch_size=2, num_workers=0), gpu_step(job.take_gpu(), 0.02))


def fifo(job: Job) -> None:
    one_thread()
    dataset = FromPipe(job.given["fifo-writer"], 150_000)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.02))


def checkpoint_write_fixed(job: Job) -> None:
    """Nothing is saved, as when another thread did it for nothing."""
    one_thread()
    job.train(loader(Computed(0.0005), batch_size=4, num_workers=1), gpu_step(job.take_gpu(), 0.02))


def checkpoint_write(job: Job) -> None:
    one_thread()
    gpu = job.take_gpu()
    state = {f"layer{number}": torch.randn(1 << 20) for number in range(96)}
    path = os.path.join(os.path.dirname(job.device), "checkpoint.pt")

    def step(number: int, batch: Any) -> None:
        gpu_step(gpu, 0.02)(number, batch)
        if number % 8 == 7:
            with open(path, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())

    job.train(loader(Computed(0.0005), batch_size=4, num_workers=job.workers(1)), step)
