"""Workloads of class data-loader: the worker processes, or what stands in for them, are too slow."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import IterableDataset, get_worker_info

from workloads import dataset_files, stages
from workloads.common import ENDLESS, Endless, Job, burn, gpu_step, loader, one_thread


class Computed:
    """A map-style data set whose samples cost CPU time: `cheap` seconds each, `slow` for every `slow_every`-th."""

    def __init__(self, cheap: float, length: int = ENDLESS, slow: float = 0.0, slow_every: int = 0):
        self.cheap, self.length, self.slow, self.slow_every = cheap, length, slow, slow_every

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        slow = self.slow_every and index % self.slow_every == self.slow_every - 1
        with stages.TRANSFORM:
            burn(self.slow if slow else self.cheap)
            return torch.full((3, 32, 32), float(index % 7))


class Changing(Computed):
    """Costs `before` until a moment of CLOCK_MONOTONIC, `after` from then on."""

    def __init__(self, before: float, after: float, moment: float):
        super().__init__(before)
        self.after, self.moment = after, moment

    def __getitem__(self, index: int) -> torch.Tensor:
        if time.monotonic() > self.moment:
            self.cheap = self.after
        return super().__getitem__(index)


class Pictures(Endless):
    """JPEG files, decoded and resized."""

    def __init__(self, files: list[str]):
        self.files = files

    def __getitem__(self, index: int) -> torch.Tensor:
        from PIL import Image

        with stages.LOAD:
            picture = Image.open(self.files[index % len(self.files)])
        with picture:
            # Pillow decodes as late as it can: here.
            with stages.DECODE:
                whole = picture.convert("RGB")
            with stages.TRANSFORM:
                small = whole.resize((224, 224), Image.Resampling.BILINEAR, reducing_gap=2.0)
                return torch.from_numpy(numpy.asarray(small).copy()).permute(2, 0, 1)


class Blurred(Endless):
    """Arrays that a Python loop over shifted copies blurs, as hand-written augmentations do."""

    def __getitem__(self, index: int) -> torch.Tensor:
        with stages.TRANSFORM:
            return torch.from_numpy(self.blur(numpy.random.default_rng(index).random((160, 160), dtype=numpy.float32)))

    def blur(self, image: numpy.ndarray) -> numpy.ndarray:
        total = numpy.zeros_like(image)
        for down in range(-9, 10):
            for right in range(-9, 10):
                total += numpy.roll(image, (down, right), (0, 1)) * numpy.exp(-(down * down + right * right) / 40)
        return total


class Fields(Endless):
    """Cheap samples of many small tensors and a token list of uneven length."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        with stages.TRANSFORM:
            return {"tokens": list(range(120 + index % 80)), **{f"field{n}": FIELD for n in range(24)}}


FIELD = torch.zeros(4)


def pad_and_collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Pads token lists in Python, then lets torch stack the rest."""
    longest = max(len(sample["tokens"]) for sample in samples)
    padded = []
    for sample in samples:
        row = []
        for position in range(longest):
            row.append(sample["tokens"][position] if position < len(sample["tokens"]) else 0)
        padded.append(row)
    rest = [{key: value for key, value in sample.items() if key != "tokens"} for sample in samples]
    return {"tokens": torch.tensor(padded), **torch.utils.data.default_collate(rest)}


class Records(Endless):
    """Samples that are nested Python objects, made once and handed over again and again."""

    def __init__(self) -> None:
        self.record = [{"id": n, "box": [n * 0.5, n * 0.25, 1.0, 2.0], "tag": f"object {n}"} for n in range(1500)]

    def __getitem__(self, _index: int) -> list[Any]:
        with stages.TRANSFORM:
            return [dict(entry) for entry in self.record]


def as_they_are(samples: list[Any]) -> list[Any]:
    return samples


class Shards(IterableDataset[Any]):
    """A stream in which each worker has its own shard, and the last worker's is slow."""

    def __init__(self, fast: float, slow: float):
        self.fast, self.slow = fast, slow

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        assert worker is not None
        cost = self.slow if worker.id == worker.num_workers - 1 else self.fast
        while True:
            with stages.TRANSFORM:
                burn(cost)
                sample = torch.zeros(3, 32, 32)
            yield sample


def too_few_workers(job: Job) -> None:
    one_thread()
    job.train(loader(Computed(0.015), batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.015))


def too_few_workers_forkserver(job: Job) -> None:
    one_thread()
    feed = loader(Computed(0.015), batch_size=4, num_workers=job.workers(1), multiprocessing_context="forkserver")
    job.train(feed, gpu_step(job.take_gpu(), 0.015))


def too_few_workers_spin(job: Job) -> None:
    one_thread()
    feed = loader(Computed(0.02), batch_size=4, num_workers=job.workers(1), multiprocessing_context="spawn")
    job.train(feed, gpu_step(job.take_gpu(sync="spin"), 0.03))


def pinned(job: Job) -> None:
    one_thread()
    emulate_pinning()
    feed = loader(Computed(0.015), batch_size=4, num_workers=job.workers(1), pin_memory=True)
    job.train(feed, gpu_step(job.take_gpu(), 0.015))


def emulate_pinning() -> None:
    """Lets torch start its real pin-memory thread on a machine without an accelerator; pinning becomes a copy."""
    accelerator: Any = torch.accelerator
    accelerator.is_available = lambda *_args, **_more: True
    accelerator.current_accelerator = lambda *_args, **_more: None
    accelerator.current_device_index = lambda: 0
    accelerator.set_device_index = lambda _index: None
    tensor: Any = torch.Tensor
    tensor.pin_memory = lambda self, *_args: self.clone()


def decode(job: Job) -> None:
    one_thread()
    files = dataset_files.jpegs(job.data)
    job.train(loader(Pictures(files), batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.012))


def transform(job: Job) -> None:
    one_thread()
    job.train(loader(Blurred(), batch_size=2, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.012))


def in_process_loading(job: Job) -> None:
    one_thread()
    files = dataset_files.jpegs(job.data)
    job.train(loader(Pictures(files), batch_size=4, num_workers=job.workers(0)), gpu_step(job.take_gpu(), 0.02))


def collate(job: Job) -> None:
    one_thread()
    feed = loader(Fields(), batch_size=256, num_workers=job.workers(1), collate_fn=pad_and_collate)
    job.train(feed, gpu_step(job.take_gpu(), 0.008))


def hand_over(job: Job) -> None:
    one_thread()
    feed = loader(Records(), batch_size=16, num_workers=job.workers(1), collate_fn=as_they_are)
    job.train(feed, gpu_step(job.take_gpu(), 0.005))


def slow_samples(job: Job) -> None:
    one_thread()
    dataset = Computed(0.002, slow=1.2, slow_every=100)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.02))


def slow_samples_fixed(job: Job) -> None:
    """All samples cost the usual."""
    one_thread()
    job.train(loader(Computed(0.002), batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.02))


def slow_batches_of_one_worker(job: Job) -> None:
    """Every eighth batch costs 0.4 s, the others 4 ms: on average less than the loop's step."""
    one_thread()
    dataset = Computed(0.001, slow=0.4, slow_every=32)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.03))


def slow_batches_of_one_worker_fixed(job: Job) -> None:
    """All samples cost the usual."""
    one_thread()
    job.train(loader(Computed(0.001), batch_size=4, num_workers=job.workers(1)), gpu_step(job.take_gpu(), 0.03))


def worker_imbalance(job: Job) -> None:
    one_thread()
    dataset = Shards(fast=0.0015, slow=0.0275)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.02))


def worker_imbalance_fixed(job: Job) -> None:
    """The same work, spread evenly."""
    one_thread()
    dataset = Shards(fast=0.0145, slow=0.0145)
    job.train(loader(dataset, batch_size=4, num_workers=job.workers(2)), gpu_step(job.take_gpu(), 0.02))


def worker_restart(job: Job) -> None:
    one_thread()
    job.train(short_epochs(job, persistent=False), gpu_step(job.take_gpu(), 0.02))


def worker_restart_fixed(job: Job) -> None:
    """The workers stay from epoch to epoch."""
    one_thread()
    job.train(short_epochs(job, persistent=True), gpu_step(job.take_gpu(), 0.02))


def short_epochs(job: Job, persistent: bool) -> Any:
    dataset = Computed(0.001, length=4 * 40)
    spawn = {"multiprocessing_context": "spawn", "persistent_workers": persistent}
    return loader(dataset, batch_size=4, num_workers=job.workers(1), **spawn)


def too_many_workers(job: Job) -> None:
    one_thread()
    workers = job.workers(4 * len(os.sched_getaffinity(0)))
    # In all, the batches cost three steps' worth of every core.
    cost = 0.01 * 3 * len(os.sched_getaffinity(0))
    job.train(loader(Computed(cost / 4), batch_size=4, num_workers=workers), gpu_step(job.take_gpu(), 0.01))
