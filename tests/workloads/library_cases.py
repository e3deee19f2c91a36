"""Loops that other libraries feed, and habits of other people's programs: torchdata.nodes, grain, webdataset, gymnasium, flax, two
loaders at each step, answers through queues, images and metrics of each step, limits of rate.

Written as the libraries' documentation and their users write them. What a workload imports beyond torch is in
requirements-frameworks.txt.
"""

from __future__ import annotations

import io
import itertools
import multiprocessing
import os
import random
import re
import tarfile
import time
import zlib
from collections import Counter
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from workloads import culprits
from workloads.chain_cases import Trainer, soon, take_trainer
from workloads.common import Job, one_thread
from workloads.processes import die_with_parent

PIECES = re.compile(r"'s|'t|'re| ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]+|\s+")


# --- loaders of other libraries --------------------------------------------------------------------------------------


class Corpus:
    """Documents of some hundred words."""

    WORDS = "the of training loss gradient model layer data tokens attention value query key head norm rate".split()

    def __init__(self, documents: int, words: int):
        draw = random.Random(1)
        self.documents = [
            " ".join(draw.choice(self.WORDS) + str(draw.randint(0, 99)) for _ in range(words)) for _ in range(documents)
        ]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> str:
        return self.documents[index]


class Tokenize:
    """Pieces of a document as numbers, in Python."""

    def __init__(self, corpus: Corpus, length: int = 256):
        self.corpus, self.length = corpus, length

    def __call__(self, index: int) -> torch.Tensor:
        pieces = PIECES.findall(self.corpus[index])
        counts = Counter(pieces)
        numbers = [100 + (sum(map(ord, piece)) * 31 + counts[piece]) % 900 for piece in pieces]
        return torch.tensor((numbers + [0] * self.length)[: self.length])


def torchdata_nodes(job: Job, method: str, workers: int, words: int) -> None:
    """sampler → ParallelMapper → Batcher → Mapper → Prefetcher → Loader, over and over."""
    import torchdata.nodes as nodes
    from torch.utils.data import RandomSampler

    trainer = take_trainer(job, 0.01)
    corpus = Corpus(2_000, words)
    node = nodes.SamplerWrapper(RandomSampler(corpus))
    node = nodes.ParallelMapper(node, Tokenize(corpus), num_workers=workers, method=method, in_order=False)
    node = nodes.Mapper(nodes.Batcher(node, batch_size=16), torch.stack)
    for batch in job.batches(nodes.Loader(nodes.Prefetcher(node, prefetch_factor=4))):
        trainer.step(batch)


def torchdata_nodes_threads(job: Job) -> None:
    # Which of its threads is waited for is not known from inside.
    job.names_culprit = True
    torchdata_nodes(job, "thread", 2, words=1800)


def torchdata_nodes_process(job: Job) -> None:
    torchdata_nodes(job, "process", 1, words=1200)


def pictures(count: int, size: tuple[int, int] = (320, 240), kind: str = "PNG") -> list[bytes]:
    """Encoded pictures of noise that was blown up."""
    from PIL import Image

    draw = numpy.random.default_rng(0)
    files = []
    for _ in range(count):
        small = draw.integers(0, 255, (size[1] // 10, size[0] // 10, 3), dtype=numpy.uint8)
        file = io.BytesIO()
        Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(file, kind)
        files.append(file.getvalue())
    return files


def decoded(file: bytes, turn: float = 0.0) -> numpy.ndarray:
    """A picture as numbers: decoded, turned, cropped and scaled."""
    from PIL import Image

    picture = Image.open(io.BytesIO(file)).convert("RGB").rotate(turn, Image.Resampling.BICUBIC)
    return numpy.asarray(picture.crop((20, 10, 244, 234)).resize((160, 160), Image.Resampling.LANCZOS))


class PictureSource:
    """A random-access source as grain wants it."""

    def __init__(self) -> None:
        self.files = pictures(64)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": self.files[index % len(self.files)], "label": index % 10}


def decode_example(example: dict[str, Any]) -> dict[str, Any]:
    return {"image": decoded(example["image"]), "label": example["label"]}


def grain_data_set(threads: int) -> Any:
    import grain

    data = grain.MapDataset.source(PictureSource()).seed(7).shuffle().map(decode_example).batch(24)
    return data.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=8))


def grain_threads(job: Job) -> None:
    """More reading threads than CPUs, as its default of 16 has it."""
    job.names_culprit = True
    trainer = take_trainer(job, 0.008)
    for batch in job.batches(grain_data_set(4)):
        trainer.step(batch)


def grain_process(job: Job) -> None:
    """One worker process."""
    import grain
    from absl import flags

    # grain reads its flags, which absl's own main function would have parsed.
    flags.FLAGS(["train"])
    trainer = take_trainer(job, 0.008)
    data = grain_data_set(1).mp_prefetch(grain.MultiprocessingOptions(num_workers=1, per_worker_buffer_size=2))
    for batch in job.batches(data):
        trainer.step(batch)


def webdataset_worker(job: Job) -> None:
    """Shards of pictures, decoded by one worker of torch's loader."""
    import webdataset

    one_thread()
    folder = os.path.dirname(job.device)
    for shard in range(4):
        with tarfile.open(f"{folder}/shard-{shard}.tar", "w") as archive:
            for number, file in enumerate(pictures(48, kind="JPEG")):
                for suffix, content in (("jpg", file), ("cls", str(number % 10).encode())):
                    entry = tarfile.TarInfo(f"{shard:02d}{number:04d}.{suffix}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    trainer = Trainer(job.take_gpu(), 0.01)
    data = webdataset.WebDataset(f"{folder}/shard-{{0..3}}.tar", shardshuffle=False, resampled=True)
    data = data.to_tuple("jpg", "cls").map_tuple(decoded, int).batched(24)
    for batch in job.batches(DataLoader(data, batch_size=None, num_workers=1)):
        trainer.step(batch)


class Augmented(Dataset[Any]):
    """Pictures; `turns` times turned and scaled."""

    def __init__(self, turns: int):
        self.files, self.turns = pictures(32, (160, 160)), turns

    def __len__(self) -> int:
        return 200_000

    def __getitem__(self, index: int) -> torch.Tensor:
        picture = numpy.zeros((4, 4, 3), dtype=numpy.uint8)
        for turn in range(self.turns):
            picture = decoded(self.files[index % 32], turn)
        return torch.from_numpy(picture[:4, :4].copy())


def two_loaders(job: Job) -> None:
    """Labelled and unlabelled pictures at each step; the worker of the unlabelled ones is slow."""
    trainer = take_trainer(job, 0.012)
    labelled = DataLoader(Augmented(1), batch_size=1, shuffle=True, num_workers=1)
    unlabelled = DataLoader(Augmented(2), batch_size=14, shuffle=True, num_workers=1)
    both = zip(labelled, unlabelled)
    first = next(both)
    job.culprit(*map(culprits.process, culprits.workers()[-1:]))
    for batch in job.batches(itertools.chain([first], both)):
        trainer.step(batch)


# --- loops that ask, write and count ---------------------------------------------------------------------------------


def swinging_chain(links: int, substeps: int) -> Any:
    """A chain of links that swings, as an environment of gymnasium."""
    import gymnasium

    class Chain(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-10.0, 10.0, (links,), numpy.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), numpy.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[numpy.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            self.angles, self.speeds = [0.1] * links, [0.0] * links
            return self._seen(), {}

        def step(self, action: numpy.ndarray) -> tuple[numpy.ndarray, float, bool, bool, dict[str, Any]]:
            push = float(action[0])
            for _ in range(substeps):
                for link in range(links):
                    left = self.angles[link - 1] if link else push
                    self.speeds[link] += 0.002 * (left - 1.6 * self.angles[link]) - 0.001 * self.speeds[link]
                self.angles = [a + 0.01 * s for a, s in zip(self.angles, self.speeds)]
            return self._seen(), -abs(self.angles[-1]), False, False, {}

        def _seen(self) -> numpy.ndarray:
            return numpy.clip(numpy.array(self.angles, dtype=numpy.float32), -10.0, 10.0)

    return Chain()


def gymnasium_async(job: Job) -> None:
    """An actor-critic over environments in processes of their own."""
    import gymnasium

    one_thread()
    gpu = job.take_gpu()
    environments = gymnasium.vector.AsyncVectorEnv([lambda: swinging_chain(12, substeps=2500)] * 2)
    job.culprit(*map(culprits.process, culprits.workers()))
    seen, _ = environments.reset(seed=1)
    weights = torch.randn(seen.shape[1], 2) * 0.1
    for _ in job.batches(itertools.repeat(None)):
        gpu.launch(0.006)
        gpu.synchronize()
        actions = torch.tanh(torch.from_numpy(seen) @ weights).numpy()
        with job.losing():
            seen, *_ = environments.step(actions)


def score_texts(asked: Any, answers: Any, trainer: int) -> None:
    """A reward model: statistics of each text, in Python."""
    die_with_parent(trainer)
    while True:
        texts = asked.get()
        done = soon(0.5)
        scores: list[float] = []
        while time.thread_time() < done:
            triples = [Counter(text[at : at + 3] for at in range(len(text) - 2)) for text in texts]
            scores = [sum(count * count for count in triple.values()) / len(triple) for triple in triples]
        answers.put(scores)


def reward_by_queue(job: Job) -> None:
    """Generates token by token on the device, and waits for the scores that another process puts into a queue."""
    one_thread()
    gpu = job.take_gpu(sync="spin")
    asked: Any = multiprocessing.Queue()
    answers: Any = multiprocessing.Queue()
    model = multiprocessing.Process(target=score_texts, args=(asked, answers, os.getpid()), daemon=True)
    model.start()
    job.culprit(culprits.process(model.pid))
    draw = numpy.random.default_rng(0)
    for _ in job.batches(itertools.repeat(None)):
        texts = [""] * 8
        for _token in range(40):
            gpu.launch(0.003)
            gpu.synchronize()
            best = numpy.argpartition(draw.standard_normal((8, 4000), dtype=numpy.float32), -20, axis=1)[:, -1]
            texts = [text + f" {token}" for text, token in zip(texts, best)]
        with job.losing():
            asked.put(texts)
            answers.get()


def saves_images(job: Job) -> None:
    """Adversarial training that writes a grid of pictures at each step."""
    from PIL import Image

    trainer = take_trainer(job, 0.09)
    draw = numpy.random.default_rng(0)
    for _ in job.batches(itertools.repeat(None)):
        trainer.step(None)
        with job.losing():
            grid = draw.integers(0, 255, (560, 560, 3), dtype=numpy.uint8)
            Image.fromarray(grid).save(io.BytesIO(), "PNG", optimize=True)


def metrics_on_the_cpu(job: Job) -> None:
    """A small network that trains on the CPU, and an area under the curve in Python at each step."""
    one_thread()
    network = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    draw = random.Random(3)
    kept = [(draw.random(), draw.random() < 0.5) for _ in range(14_000)]
    for batch in job.batches(torch.rand(256, 128) for _ in itertools.count()):
        loss = network(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with job.losing():
            area_under_curve(kept)


def area_under_curve(kept: list[tuple[float, bool]]) -> float:
    """By ranks, in Python."""
    right = total = 0
    for _score, positive in sorted(kept):
        if positive:
            right += total
        else:
            total += 1
    return right / max(1, total * (len(kept) - total))


def shared_model(job: Job) -> None:
    """Two processes train one model in shared memory; this one only waits for their end, as Hogwild's example does."""
    network = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    network.share_memory()
    context, parent = multiprocessing.get_context("fork"), os.getpid()
    children = [context.Process(target=train_shared, args=(job, network, number == 0, parent)) for number in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def train_shared(job: Job, network: torch.nn.Module, logs: bool, parent: int) -> None:
    """One of the processes, on a thread of its own; the first one writes the truth."""
    die_with_parent(parent)
    one_thread()
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    feed = (torch.rand(512, 512) for _ in itertools.count())
    for batch in job.batches(feed) if logs else itertools.takewhile(lambda _: not job.over(), feed):
        loss = torch.nn.functional.mse_loss(network(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class TokenBucket:
    """So many steps a second and no more."""

    def __init__(self, rate: float):
        self.rate, self.next = rate, time.monotonic()

    def acquire(self) -> None:
        self.next = max(self.next + 1.0 / self.rate, time.monotonic() - 1.0)
        while (left := self.next - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))


def rate_limit(job: Job) -> None:
    trainer = take_trainer(job, 0.03)
    bucket = TokenBucket(8.0)
    for _ in job.batches(itertools.repeat(None)):
        trainer.step(None)
        with job.losing():
            bucket.acquire()


def flax_on_the_cpu(job: Job) -> None:
    """A convolutional network of flax, compiled for the CPU: threads of the compiler's pool compute."""
    job.names_culprit = True
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen

    class Network(linen.Module):
        @linen.compact
        def __call__(self, pictures: Any) -> Any:
            for features in (16, 32):
                pictures = linen.avg_pool(linen.relu(linen.Conv(features, (3, 3))(pictures)), (2, 2), (2, 2))
            return linen.Dense(10)(pictures.reshape((pictures.shape[0], -1)))

    network, optimizer = Network(), optax.adam(1e-3)
    weights = network.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    state = optimizer.init(weights)

    @jax.jit
    def train_step(weights: Any, state: Any, pictures: Any, labels: Any) -> Any:
        def loss_of(weights: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(network.apply(weights, pictures), labels).mean()

        loss, gradients = jax.value_and_grad(loss_of)(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, loss

    packed = [zlib.compress(os.urandom(32 * 32 * 3)) for _ in range(512)]

    def batches() -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        for number in itertools.count():
            rows = [numpy.frombuffer(zlib.decompress(packed[(number * 64 + row) % 512]), numpy.uint8) for row in range(64)]
            yield numpy.stack(rows).reshape(64, 32, 32, 3).astype(numpy.float32) / 255.0, numpy.arange(64) % 10

    for pictures, labels in job.batches(batches()):
        weights, state, loss = train_step(weights, state, pictures, labels)
        float(loss)
