"""More workloads of several classes: other shapes of loaders and loops, phases that are no training, placement."""

from __future__ import annotations

import json
import os
import queue
import sys
import tempfile
import threading
import time
from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler

from workloads import dataset_files
from workloads.common import Endless, Job, burn, gpu_step, loader, one_thread
from workloads.gpu_cases import light_loader
from workloads.loader_cases import Computed, Pictures, emulate_pinning
from workloads.simulated_gpu import SimulatedGpu

# --- loaders ---------------------------------------------------------------------------------------------------------


class Points(Endless):
    """Cheap samples: a list of numbers and a class."""

    def __getitem__(self, index: int) -> tuple[list[float], int]:
        return [float(index % 5)] * 600, index % 10


def mixup(samples: list[tuple[list[float], int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mixes each sample with its neighbour, number by number."""
    values, targets = [], []
    for number, (sample, target) in enumerate(samples):
        other, other_target = samples[number - 1]
        share = 0.3 + 0.4 * (number % 2)
        values.append([share * mine + (1.0 - share) * its for mine, its in zip(sample, other)])
        soft = [0.0] * 10
        soft[target] += share
        soft[other_target] += 1.0 - share
        targets.append(soft)
    return torch.tensor(values), torch.tensor(targets)


def mixup_collate(job: Job) -> None:
    one_thread()
    feed = loader(Points(), batch_size=384, num_workers=1, collate_fn=mixup)
    job.train(feed, gpu_step(job.take_gpu(), 0.008))


class Dilated(Endless):
    """Masks that a 2-D convolution with a large kernel of ones grows, where a running maximum would do."""

    def __getitem__(self, index: int) -> torch.Tensor:
        mask = (numpy.random.default_rng(index).random((96, 96)) > 0.999).astype(numpy.float32)
        return torch.from_numpy(self.dilate(mask, 31))

    def dilate(self, mask: numpy.ndarray, size: int) -> numpy.ndarray:
        padded = numpy.pad(mask, size // 2)
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, (size, size))
        wide: numpy.ndarray = numpy.einsum("ijkl,kl->ij", windows, numpy.ones((size, size), numpy.float32)) > 0.5
        return wide.astype(numpy.uint8)


def dilation(job: Job) -> None:
    one_thread()
    workers = len(os.sched_getaffinity(0))
    feed = loader(Dilated(), batch_size=24, num_workers=workers)
    job.train(feed, gpu_step(job.take_gpu(), 0.012))


class Photographs(Pictures):
    """JPEG files, decoded and cut: unlike scaling them down, that costs nothing beside the decoding."""

    def __getitem__(self, index: int) -> torch.Tensor:
        from PIL import Image

        with Image.open(self.files[index % len(self.files)]) as picture:
            part = picture.convert("RGB").crop((400, 300, 624, 524))
        return torch.from_numpy(numpy.asarray(part).copy()).permute(2, 0, 1)


def decode_all_cores(job: Job) -> None:
    one_thread()
    files = dataset_files.jpegs(job.data)
    feed = loader(Photographs(files), batch_size=8, num_workers=len(os.sched_getaffinity(0)))
    job.train(feed, gpu_step(job.take_gpu(), 0.008))


def spawn_pinned(job: Job) -> None:
    one_thread()
    emulate_pinning()
    feed = loader(
        Computed(0.02), batch_size=4, num_workers=1, pin_memory=True, multiprocessing_context="spawn"
    )
    job.train(feed, gpu_step(job.take_gpu(), 0.02))


def build_index(_worker: int) -> None:
    """What each worker does before its first batch: 0.6 s of it."""
    burn(0.6)


def epoch_restarts_fork(job: Job) -> None:
    """Epochs of 25 batches, 20 ms each; between them the worker is started anew and builds its index again."""
    one_thread()
    feed = loader(
        Computed(0.001, length=4 * 25), batch_size=4, num_workers=1, persistent_workers=False,
        worker_init_fn=build_index, multiprocessing_context="fork",
    )
    job.train(feed, gpu_step(job.take_gpu(), 0.02))


class Texts(IterableDataset[Any]):
    """A stream of lines, cut into tokens in Python."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        line = " ".join(f"word{number * 7 % 97}" for number in range(400))
        words = {f"word{number}": number for number in range(97)}
        while True:
            tokens = []
            for _ in range(40):
                tokens = [words.get(word.strip().lower(), 0) for word in line.split(" ")]
            yield torch.tensor(tokens)


def iterable_text(job: Job) -> None:
    one_thread()
    job.train(loader(Texts(), batch_size=16, num_workers=1), gpu_step(job.take_gpu(), 0.012))


class Table(Endless):
    """A data set that is asked for whole batches: `__getitems__`."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self.standardise(index) for index in indices]

    def standardise(self, index: int) -> torch.Tensor:
        row = [float((index + column) % 11) for column in range(6000)]
        mean = sum(row) / len(row)
        spread = (sum((value - mean) ** 2 for value in row) / len(row)) ** 0.5
        return torch.tensor([(value - mean) / spread for value in row[:200]])


def batched_getitems(job: Job) -> None:
    one_thread()
    dataset = Table()
    feed = loader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 32, False), num_workers=1)
    job.train(feed, gpu_step(job.take_gpu(), 0.012))


class Prefetched:
    """A user's own wrapper: a thread takes batches out of the loader and puts them into a short queue."""

    def __init__(self, batches: Any):
        self.batches = batches
        self.num_workers = batches.num_workers

    def __iter__(self) -> Iterator[Any]:
        ready: queue.Queue[Any] = queue.Queue(maxsize=2)

        def fill() -> None:
            for batch in self.batches:
                ready.put(batch)

        threading.Thread(target=fill, name="prefetcher", daemon=True).start()
        while True:
            yield ready.get()


def user_prefetcher(job: Job) -> None:
    one_thread()
    feed = loader(Computed(0.015), batch_size=4, num_workers=1)
    job.train(Prefetched(feed), gpu_step(job.take_gpu(), 0.015))


def loader_timeout(job: Job) -> None:
    one_thread()
    feed = loader(Computed(0.015), batch_size=4, num_workers=1, timeout=90)
    job.train(feed, gpu_step(job.take_gpu(), 0.015))


# --- loops that load in the process ----------------------------------------------------------------------------------


class Synthetic(Endless):
    """Samples made out of nothing by numpy: no file is read."""

    def __getitem__(self, index: int) -> torch.Tensor:
        random = numpy.random.default_rng(index)
        waves = random.normal(size=(64, 2048)).cumsum(axis=1)
        return torch.from_numpy(numpy.sin(waves).mean(axis=0).astype(numpy.float32))


def inline_synthetic(job: Job) -> None:
    one_thread()
    job.train(loader(Synthetic(), batch_size=8, num_workers=0), gpu_step(job.take_gpu(), 0.015))


class OwnBatches:
    """No loader of torch at all: a generator that makes each batch when the loop asks for it."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        dataset = Synthetic()
        number = 0
        while True:
            yield torch.stack([dataset[number + row] for row in range(8)])
            number += 8


def own_generator(job: Job) -> None:
    one_thread()
    job.train(OwnBatches(), gpu_step(job.take_gpu(), 0.015))


# --- models on the CPU -----------------------------------------------------------------------------------------------


def train_on_cpu(model: torch.nn.Module, shape: tuple[int, ...]) -> Any:
    """A step of real training: forward, backward, optimizer, the loss read."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(*shape)

    def step(number: int, _batch: Any) -> None:
        loss = model(inputs + number % 3).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def cpu_training_threads(job: Job) -> None:
    """An encoder of transformers' kind on as many threads as there are CPUs; a light loader beside it."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    job.train(loader(Computed(0.0003), batch_size=8, num_workers=1), train_on_cpu(model, (16, 96, 128)))


def cpu_training_inline(job: Job) -> None:
    """num_workers=0, but the batches cost little: the model takes the time."""
    one_thread()
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    job.train(loader(Computed(0.0002), batch_size=4, num_workers=0), train_on_cpu(model, (512, 512)))


# --- the host's side of the loop -------------------------------------------------------------------------------------

#: The log file is begun anew at this size.
LOG_BYTES = 40 << 20


def heavy_logging(job: Job) -> None:
    """Each step writes what it knows, as JSON, to a file and to the output."""
    gpu = job.take_gpu()
    device = gpu_step(gpu, 0.01)
    history = [{"layer": number, "norm": number * 0.37, "name": f"block.{number}.weight"} for number in range(6000)]
    log = open(os.path.join(os.path.dirname(job.device), "train.log"), "w", encoding="utf-8")

    def step(number: int, batch: Any) -> None:
        device(number, batch)
        write_log(log, number, history)

    with log:
        job.train(light_loader(), step)


def write_log(log: Any, number: int, history: list[dict[str, Any]]) -> None:
    if log.tell() > LOG_BYTES:
        log.seek(0)
        log.truncate()
    for entry in history:
        log.write(json.dumps({"step": number, **entry}) + "\n")
    log.flush()
    print(f"step {number}", flush=True)


def sync_one_line(job: Job) -> None:
    """A value is read after each of twelve kernels, always on one line; the wait spins, the device runs dry between."""
    gpu = job.take_gpu(sync="spin", power_busy_mw=350_000)

    def step(_number: int, _batch: Any) -> None:
        for _ in range(12):
            gpu.launch(0.003)
            gpu.synchronize()
            burn(0.002)

    job.train(light_loader(), step)


def python_many_lines(job: Job) -> None:
    """The device gets 20 ms of work at once; then 45 ms of Python on many lines, and a wait that finds it done."""
    gpu = job.take_gpu(sync="spin", power_busy_mw=350_000)
    counts: dict[str, int] = {}

    def step(number: int, _batch: Any) -> None:
        for _ in range(4):
            gpu.launch(0.005)
        until = time.thread_time() + 0.045
        while time.thread_time() < until:
            words = [f"token{(number + place) % 31}" for place in range(200)]
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            ordered = sorted(counts.items(), key=lambda item: -item[1])
            text = ",".join(f"{word}={count}" for word, count in ordered)
            pairs = dict(part.split("=") for part in text.split(","))
            total = sum(int(value) for value in pairs.values())
            mean = total / max(1, len(pairs))
            spread = max(abs(int(value) - mean) for value in pairs.values())
            report = {"mean": round(mean, 3), "spread": round(spread, 3), "best": ordered[0][0]}
            json.loads(json.dumps(report))
        gpu.synchronize()

    job.train(light_loader(), step)


#: Nearly all that the link of the simulated device can carry (the fake NVML's largest is PCIe 4 x16: 31.5 GB/s), and the
#: device's own share of a step: the file's rate counts for the time in which kernels run, so it is divided by that share.
LINK_KIB_S, KERNEL_S, COPY_S = 27_000_000, 0.012, 0.048


def copy_bound(job: Job) -> None:
    """Large batches cross the bus for 48 ms of each step, while the host waits; the kernels take 12."""
    share = KERNEL_S / (KERNEL_S + COPY_S)
    gpu = job.take_gpu(power_busy_mw=300_000, pcie_rx_kib_s=int(LINK_KIB_S / share))

    def step(_number: int, _batch: Any) -> None:
        copy_to_device()
        gpu.launch(KERNEL_S)
        gpu.synchronize()

    job.train(light_loader(), step)


def copy_to_device() -> None:
    """A blocking copy: the host sleeps until the bus has carried it."""
    time.sleep(COPY_S)


# --- placement and memory --------------------------------------------------------------------------------------------


def one_cpu() -> set[int]:
    return {min(os.sched_getaffinity(0))}


def pinned_job(job: Job) -> None:
    """The whole job may use one CPU only, while the others are free: a worker and the loop share it."""
    os.sched_setaffinity(0, one_cpu())
    one_thread()
    device = gpu_step(job.take_gpu(), 0.008)

    def step(number: int, batch: Any) -> None:
        burn(0.012)
        device(number, batch)

    job.train(loader(Computed(0.012), batch_size=4, num_workers=1), step)


def crowd_on_one_cpu(_worker: int) -> None:
    os.sched_setaffinity(0, one_cpu())


def pinned_workers(job: Job) -> None:
    """Two workers that a badly set affinity puts on the same CPU; with one each they would nearly keep up."""
    one_thread()
    feed = loader(Computed(0.008), batch_size=4, num_workers=2, worker_init_fn=crowd_on_one_cpu)
    job.train(feed, gpu_step(job.take_gpu(), 0.016))


class Hoarded(Computed):
    """Keeps what it has in memory, so much that the rest of the job's memory is read again and again from files."""

    def __init__(self, files: list[str], kept: int):
        super().__init__(0.0)
        self.files, self.kept = files, kept
        self.memory: numpy.ndarray | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.memory is None:
            self.memory = numpy.ones(self.kept, dtype=numpy.uint8)
        with open(self.files[index % 2], "rb") as file:
            file.seek((index * 7919 % 60) << 20)
            total = sum(file.read(1 << 19)[::4096])
        return torch.tensor(total + int(self.memory[::4096].sum()))


def memory_pressure(job: Job) -> None:
    one_thread()
    files = dataset_files.shards(job.data)
    for path in files:
        dataset_files.evict(path)
    # Of the 420 MiB that the group may have, torch in two processes takes 310: some 25 are left for the files' 120.
    job.train(loader(Hoarded(files, 80 << 20), batch_size=8, num_workers=1), gpu_step(job.take_gpu(), 0.008))


# --- phases that are no training -------------------------------------------------------------------------------------


@torch.no_grad()
def validate(job: Job, batches: Any) -> None:
    """A long validation: no gradients, metrics for each batch."""
    gpu = job.gpu
    assert isinstance(gpu, SimulatedGpu)
    job.truth.event("ready")
    matrix = [[0] * 10 for _ in range(10)]
    for number, _batch in enumerate(batches):
        gpu.launch(0.012)
        gpu.synchronize()
        matrix[number % 10][number * 3 % 10] += 1
        burn(0.01)
        if job.over():
            return


def validation(job: Job) -> None:
    """Trains for two seconds, then validates for the rest of the run."""
    whole = job.seconds_left()
    device = gpu_step(job.take_gpu(), 0.02)
    job.limit(2.0)
    job.train(light_loader(), device)
    job.limit(whole - 2.0)
    validate(job, loader(Computed(0.0005), batch_size=4, num_workers=1))


def compile_warm_up(job: Job) -> None:
    """Before the first step, torch.compile works on one model after the other."""
    one_thread()
    folder = os.path.dirname(job.device)
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"), TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    job.take_gpu()
    job.truth.event("ready")
    width = 24
    while not job.over():
        layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(12)]
        model = torch.compile(torch.nn.Sequential(*layers), dynamic=False)
        model(torch.randn(4, width)).sum().backward()
        width += 1


def imports(job: Job) -> None:
    """Imports one large package after another, none of which has been compiled yet."""
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(dir=os.path.dirname(job.device)) as folder:
        sys.path.insert(0, folder)
        number = 0
        while not job.over():
            with open(os.path.join(folder, f"generated{number}.py"), "w", encoding="utf-8") as file:
                for line in range(3000):
                    file.write(f"def function{line}(a, b={line}):\n    return [a * {line} + b for b in range(b) if a]\n")
            __import__(f"generated{number}")
            del sys.modules[f"generated{number}"]
            if number == 0:
                job.truth.event("ready")
            number += 1
