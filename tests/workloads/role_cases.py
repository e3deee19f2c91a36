"""Who is who: a child that trains, a child that is no loader, workers that have nothing to read, pages of cold files."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from multiprocessing.connection import Connection
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import IterableDataset, get_worker_info

from workloads import culprits, dataset_files
from workloads.common import Job, burn, gpu_step, loader, one_thread
from workloads.processes import die_with_parent
from workloads.waiting_cases import random_batches


def learn(commands: Connection, parent: int) -> None:
    """Trains a small network on the CPU, a step for each command, and answers with its loss."""
    die_with_parent(parent)
    one_thread()
    network = torch.nn.Sequential(torch.nn.Linear(600, 900), torch.nn.GELU(), torch.nn.Linear(900, 600))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5)
    while True:
        seed = commands.recv()
        batch = torch.rand(128, 600, generator=torch.Generator().manual_seed(seed))
        loss = torch.nn.functional.mse_loss(network(batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        commands.send(float(loss))


def learner_in_a_child(job: Job) -> None:
    """The process that was started imports torch as well, but only tells a forked learner what to do next."""
    one_thread()
    ours, theirs = multiprocessing.Pipe()
    learner = multiprocessing.get_context("fork").Process(target=learn, args=(theirs, os.getpid()), daemon=True)
    learner.start()
    job.culprit(culprits.process(learner.pid), {"kind": "thread", "pid": learner.pid, "tid": learner.pid})
    for number, _batch in enumerate(job.batches(random_batches())):
        with job.losing():
            ours.send(number)
            ours.recv()


def keep_records(records: Connection, parent: int) -> None:
    """Sums up what the loop reports; hardly any work, and none that the loop waits for."""
    die_with_parent(parent)
    total = 0.0
    while True:
        total += records.recv()["loss"]
        time.sleep(0.004)


def cropped_pictures() -> Iterator[torch.Tensor]:
    """Makes each batch in Python and NumPy, in the process that asks."""
    noise = numpy.random.default_rng(3)
    while True:
        pictures = [noise.random((48, 48), dtype=numpy.float32) for _ in range(8)]
        burn(0.04)
        yield torch.from_numpy(numpy.stack(pictures))


def tracker_in_a_child(job: Job) -> None:
    """The loop makes its batches itself; a forked tracker of experiments hears of each step."""
    one_thread()
    hears, tells = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    context.Process(target=keep_records, args=(hears, os.getpid()), daemon=True).start()
    device = gpu_step(job.take_gpu(), 0.012)
    for number, batch in enumerate(job.batches(cropped_pictures())):
        device(number, batch)
        tells.send({"step": number, "loss": 0.5})


class Sharded(IterableDataset[Any]):
    """A stream of so many shards that has no end; each worker reads every n-th of them, the last worker the first one."""

    def __init__(self, shards: int, cost: float):
        self.shards, self.cost = shards, cost

    def __iter__(self) -> Iterator[torch.Tensor]:
        info: Any = get_worker_info()
        mine = range(self.shards)[info.num_workers - 1 - info.id :: info.num_workers]
        while mine:
            for shard in mine:
                burn(self.cost)
                yield torch.full((16,), float(shard))


def one_shard_for_three_workers(job: Job) -> None:
    """Two of three workers end at once: there is nothing for them to read."""
    one_thread()
    feed = loader(Sharded(1, 0.008), batch_size=6, num_workers=3, persistent_workers=False)
    job.train(feed, gpu_step(job.take_gpu(), 0.012))


class MappedRows(torch.utils.data.Dataset[Any]):
    """Rows of files that are mapped and, at each sample, not in memory: little is done with them."""

    def __init__(self, files: list[str], rows: int):
        self.files, self.rows = files, rows
        self.maps: list[numpy.memmap] = []

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, _index: int) -> torch.Tensor:
        number = random.randrange(len(self.files))
        # Mapped anew, as only pages that are mapped nowhere leave the page cache.
        table = numpy.memmap(self.files[number], numpy.uint8, "r")
        with open(self.files[number], "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        starts = [random.randrange(len(table) - 4096) for _ in range(self.rows)]
        return torch.tensor([float(table[start : start + 512].mean()) for start in starts])


def mapped_rows_from_a_cold_disk(job: Job) -> None:
    """One worker: the kernel fetches far more of the file than the rows, and that is most of what happens."""
    one_thread()
    dataset = MappedRows(dataset_files.shards(job.data), 40)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.004))
