"""Loops in JAX, compiled for the CPU. Nothing here imports torch, and no library stands between loop and batches."""

from __future__ import annotations

import itertools
import os
import random
from typing import Any, Iterator

import numpy

from workloads import culprits
from workloads.common import Job


def classifier(width: int, hidden: int) -> tuple[Any, Any]:
    """A small network's weights, and its compiled step: (weights, rows, labels) to (weights, loss)."""
    import jax
    import jax.numpy as jnp

    first, second = jax.random.split(jax.random.key(1))
    weights = {
        "hidden": jax.random.normal(first, (width, hidden)) / width**0.5,
        "out": jax.random.normal(second, (hidden, 10)) / hidden**0.5,
    }

    def loss_of(weights: Any, rows: Any, labels: Any) -> Any:
        scores = jax.nn.relu(rows @ weights["hidden"]) @ weights["out"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1))

    @jax.jit
    def update(weights: Any, rows: Any, labels: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(weights, rows, labels)
        return jax.tree.map(lambda weight, gradient: weight - 0.05 * gradient, weights, gradients), loss

    return weights, update


def jittered(series: list[float], draw: random.Random) -> list[float]:
    """A series scaled, shifted and with a part left out, number by number."""
    scale, shift = draw.uniform(0.8, 1.2), draw.randrange(len(series))
    begin = draw.randrange(len(series) - 16)
    moved = [scale * value + draw.gauss(0.0, 0.01) for value in series[shift:] + series[:shift]]
    moved[begin : begin + 16] = [0.0] * 16
    return moved


class Recordings:
    """Series in memory, of which some are drawn and jittered for each batch."""

    def __init__(self) -> None:
        self.draw = random.Random(2)
        self.series = [[self.draw.random() for _ in range(128)] for _ in range(256)]

    def some(self, count: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        chosen = [self.draw.randrange(len(self.series)) for _ in range(count)]
        rows = [jittered(self.series[number], self.draw) for number in chosen]
        return numpy.array(rows, dtype=numpy.float32), numpy.array(chosen, dtype=numpy.int32) % 10


def jax_augments(job: Job) -> None:
    """Each step begins with a call that jitters its rows, number by number: no loader, no generator."""
    recordings = Recordings()
    weights, update = classifier(128, 64)
    for _ in job.batches(itertools.repeat(None)):
        with job.losing():
            rows, labels = recordings.some(300)
        weights, loss = update(weights, rows, labels)
        loss.block_until_ready()


def jax_generator(job: Job) -> None:
    """The same out of a generator that the loop goes over."""
    recordings = Recordings()

    def minibatches() -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        while True:
            yield recordings.some(300)

    weights, update = classifier(128, 64)
    for rows, labels in job.batches(minibatches()):
        weights, loss = update(weights, rows, labels)
        loss.block_until_ready()


def jax_trains(job: Job) -> None:
    """Batches are slices of one array: the compiled network takes the time."""
    # The threads of the compiler's pool compute, or the loop's own: which, is not known from inside.
    job.culprit(culprits.process(os.getpid()))
    numbers = numpy.random.default_rng(3)
    rows, labels = numbers.random((4096, 512), dtype=numpy.float32), numbers.integers(0, 10, 4096, dtype=numpy.int32)
    slices = itertools.cycle(range(0, len(rows), 512))
    weights, update = classifier(512, 2048)
    for begin in job.batches(slices):
        weights, loss = update(weights, rows[begin : begin + 512], labels[begin : begin + 512])
        float(loss)
