"""Whether a job trains: loops under a name of another phase, and jobs that have not taken a step yet."""

from __future__ import annotations

import itertools
import random
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import IterableDataset, Sampler

from workloads.common import Job, burn, gpu_step, loader, one_thread
from workloads.loader_cases import Computed

# --- it trains -------------------------------------------------------------------------------------------------------


def training_named_for_validation(job: Job) -> None:
    """Each fold of a cross-validation trains a model of its own: the name of the function says otherwise."""
    one_thread()
    device = gpu_step(job.take_gpu(), 0.012)

    def cross_val_score() -> None:
        job.train(loader(Computed(0.012), batch_size=4, num_workers=1), device)

    cross_val_score()


def metric_at_each_step(job: Job) -> None:
    """A device-bound loop that reads a metric under no_grad at each step, which is where it waits for the device."""
    one_thread()
    gpu = job.take_gpu()

    @torch.no_grad()
    def validation_error(batch: torch.Tensor) -> float:
        gpu.synchronize()
        return float(batch.abs().mean())

    step = 0
    for batch in job.batches(torch.rand(8) for _ in itertools.count()):
        gpu.launch(0.04)
        validation_error(batch)
        step += 1


def features_for_jax(job: Job) -> None:
    """A linear model of JAX on the CPU: turning rows of text into numbers takes most of each step."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def update(weights: jax.Array, rows: jax.Array) -> jax.Array:
        return weights - 0.01 * jax.grad(lambda w: jnp.square(rows @ w - 1.0).mean())(weights)

    draw = random.Random(5)
    texts = [";".join(f"{draw.random():.5f}" for _ in range(48)) for _ in range(256)]
    weights, step = jnp.zeros(48), 0
    for chosen in job.batches(draw.choices(texts, k=2400) for _ in itertools.count()):
        with job.losing():
            rows = numpy.array([featurize(text) for text in chosen], numpy.float32)
        weights = update(weights, rows)
        weights.block_until_ready()
        step += 1


def featurize(text: str) -> list[float]:
    """The numbers of a row of text, clipped."""
    return [min(0.9, float(field)) for field in text.split(";")]


def one_thread_without_a_counter(job: Job) -> None:
    """A model in NumPy on one thread, and nothing that counts its steps."""
    draw = numpy.random.default_rng(7)
    weights, rows = draw.random((800, 800), numpy.float32), draw.random((128, 800), numpy.float32)
    for batch in job.batches(itertools.repeat(rows)):
        hidden = numpy.tanh(batch @ weights)
        weights -= 1e-6 * (batch.T @ (hidden - batch))


# --- it does not train yet -------------------------------------------------------------------------------------------


class Texts:
    """Texts that cost something to read; reading them all takes longer than anybody watches."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> int:
        burn(0.002)
        return index % 512


class ByLength(Sampler[int]):
    """Hands out the texts in the order of their lengths, for which it has to read each of them."""

    def __init__(self, job: Job, texts: Texts):
        self.job, self.texts = job, texts

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[int]:
        lengths: list[int] = []
        for number in range(len(self.texts)):
            lengths.append(self.texts[number])
            if number == 20:
                self.job.truth.event("ready")
            if self.job.over():
                return
        yield from sorted(range(len(lengths)), key=lengths.__getitem__)


def reads_lengths_first(job: Job) -> None:
    """The sampler reads every text before it hands out the first index. The model is on the device already."""
    one_thread()
    device, texts = gpu_step(job.take_gpu(), 0.02), Texts()
    device(0, None)
    job.train(loader(texts, batch_size=16, sampler=ByLength(job, texts)), device)


class Shuffled(IterableDataset[float]):
    """A stream through a shuffle buffer that takes half an hour to fill."""

    def __init__(self, job: Job):
        self.job = job

    def __iter__(self) -> Iterator[float]:
        buffer: list[float] = []
        for number in itertools.count():
            burn(0.002)
            buffer.append(number / 7)
            if number == 20:
                self.job.truth.event("ready")
            if self.job.over():
                return
            if len(buffer) > 1_000_000:
                yield buffer.pop(random.randrange(len(buffer)))


def fills_a_buffer(job: Job) -> None:
    """The loader fills its shuffle buffer, in the loop's own thread."""
    one_thread()
    job.train(loader(Shuffled(job), batch_size=16), gpu_step(job.take_gpu(), 0.02))


def skips_what_it_has_seen(job: Job) -> None:
    """A resumed run makes and drops the batches that it had before it was stopped; no step is taken."""
    one_thread()
    job.take_gpu()
    feed: Iterator[Any] = iter(loader(Computed(0.003), batch_size=8))
    for number, _batch in enumerate(feed):
        if number == 5:
            job.truth.event("ready")
        if job.over():
            return
