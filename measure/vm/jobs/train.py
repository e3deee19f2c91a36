"""A small training-like job in plain Python with one planted bottleneck, which writes its own truth.

    python3 train.py KIND --truth FILE --device FILE --seconds S [--data FILE] [--workers N] [--step-ms MS] [--batch-ms MS]

It imports the simulated device from the package `workloads`, which PYTHONPATH must find.

KIND is what holds the loop back:
    decode   worker processes compute each batch, more slowly than the loop takes them
    disk     worker processes read each batch from --data, past the page cache
    cache    worker processes read random places of --data through the page cache
    python   batches are ready; the loop computes metrics in Python after each step
    ballast  the loop walks through more memory than its control group lets it keep
    child    the loop asks a child process over pipes at each step, and waits for its answer

The loader is made as torch's: forked workers, a queue of indices for each, one queue of batches, polled for five
seconds at a time. Work is counted in CPU time of its thread, so that it takes the same time on a slow machine.
The truth is that of the workloads, see workloads/common.py: `lost` is what the step lost to what was planted in it.
"""

from __future__ import annotations

import argparse
import io
import json
import mmap
import multiprocessing
import os
import queue
import random
import subprocess
import sys
import time
import zlib
from typing import Any, Iterator

from workloads.simulated_gpu import SimulatedGpu

#: How long one poll for a batch lasts, seconds: that of torch's loader.
POLL_S = 5.0
#: Batches that each worker is asked for ahead: torch's default.
PREFETCH = 2
#: One read of the disk, bytes.
READ = 1 << 20
PACKED = zlib.compress(bytes(range(256)) * 64)


def soon(milliseconds: float) -> float:
    """When so much CPU time of the calling thread will be used."""
    return time.thread_time() + milliseconds / 1000


def decode_image(milliseconds: float) -> int:
    """Unpacks a picture and adds up its pixels until so much CPU time is used."""
    done, total = soon(milliseconds), 0
    while time.thread_time() < done:
        pixels = zlib.decompress(PACKED)
        for place in range(0, 1024):
            total += pixels[place] * place
    return total


class Pictures:
    """A data set whose samples cost CPU time."""

    def __init__(self, options: argparse.Namespace):
        self.milliseconds = options.batch_ms

    def __getitem__(self, _index: int) -> int:
        return decode_image(self.milliseconds)


class ShardsOnDisk:
    """A data set whose samples are read past the page cache, one megabyte each."""

    def __init__(self, options: argparse.Namespace):
        self.path, self.reads, self.file = options.data, options.reads, -1

    def __getitem__(self, index: int) -> int:
        if self.file < 0:
            self.file = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
            self.into = mmap.mmap(-1, READ)
            self.places = os.lseek(self.file, 0, os.SEEK_END) // READ
        total = 0
        for number in range(self.reads):
            os.preadv(self.file, [self.into], (index * self.reads + number) % self.places * READ)
            total += self.into[0]
        return total


class CachedShards:
    """A data set whose samples lie at random places of a file that is read through the page cache."""

    #: One sample, bytes.
    SAMPLE = 64 << 10

    def __init__(self, options: argparse.Namespace):
        self.path, self.reads = options.data, options.reads
        self.file: io.FileIO | None = None

    def __getitem__(self, _index: int) -> int:
        if self.file is None:
            self.file = open(self.path, "rb", buffering=0)
            self.random = random.Random(os.getpid())
            self.places = os.fstat(self.file.fileno()).st_size // self.SAMPLE
        total = 0
        for _ in range(self.reads):
            self.file.seek(self.random.randrange(self.places) * self.SAMPLE)
            total += len(self.file.read(self.SAMPLE))
        return total


def worker_loop(dataset: Any, indices: Any, batches: Any) -> None:
    """What one worker does: makes the batches that it is asked for."""
    while True:
        index = indices.get()
        if index is None:
            return
        batches.put((index, dataset[index]))


class Loader:
    """Gives batches in order, made by worker processes."""

    def __init__(self, dataset: Any, workers: int):
        self.batches: Any = multiprocessing.Queue()
        self.indices: list[Any] = [multiprocessing.Queue() for _ in range(workers)]
        for indices in self.indices:
            multiprocessing.Process(target=worker_loop, args=(dataset, indices, self.batches), daemon=True).start()

    def ask(self, index: int) -> None:
        self.indices[index % len(self.indices)].put(index)

    def _get_data(self) -> tuple[int, Any]:
        while True:
            try:
                found: tuple[int, Any] = self.batches.get(timeout=POLL_S)
                return found
            except queue.Empty:
                continue

    def __iter__(self) -> Iterator[Any]:
        asked = len(self.indices) * PREFETCH
        for index in range(asked):
            self.ask(index)
        ready: dict[int, Any] = {}
        for wanted in range(sys.maxsize):
            while wanted not in ready:
                index, batch = self._get_data()
                ready[index] = batch
            self.ask(asked + wanted)
            yield ready.pop(wanted)


def forward_backward(gpu: SimulatedGpu, milliseconds: float) -> None:
    """The step on the device: launches, and a wait for the loss."""
    for _ in range(4):
        gpu.launch(milliseconds / 4000)
    gpu.synchronize()


def compute_metrics(milliseconds: float) -> float:
    """Metrics in plain Python after each step."""
    done, scores = soon(milliseconds), [0.0]
    while time.thread_time() < done:
        scores = sorted(abs(score - 0.5) for score in scores + [place / 97 for place in range(97)])[:97]
    return scores[0]


class Ballast:
    """Memory that the step walks through, a page at a time."""

    MEBIBYTES, PAGE = 64, mmap.PAGESIZE

    def __init__(self) -> None:
        self.pages = bytearray(self.MEBIBYTES << 20)
        self.random = random.Random(1)

    def walk(self, pages: int) -> None:
        for _ in range(pages):
            place = self.random.randrange(len(self.pages) // self.PAGE) * self.PAGE
            self.pages[place] = (self.pages[place] + 1) % 256


#: A tokenizer of its own process: answers each line on standard input after so much CPU time.
TOKENIZER = """
import sys, time
def tokenize(text, milliseconds):
    done, tokens = time.thread_time() + milliseconds / 1000, []
    while time.thread_time() < done:
        tokens = [word.strip(",.").lower() for word in text.split()]
    return tokens
for line in sys.stdin:
    print(len(tokenize("The quick, brown fox jumps over the lazy dog. " * 20, float(line))), flush=True)
"""


class Tokenizer:
    """A child process that is asked over pipes."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", TOKENIZER]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def tokenize(self, milliseconds: float) -> int:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(f"{milliseconds}\n")
        return int(self.child.stdout.readline())


def map_library(folder: str) -> mmap.mmap:
    """Maps a file with the name of torch's library, as every job of torch has it: by that it is known as one."""
    path = os.path.join(folder, "libtorch_cpu.so")
    with open(path, "w+b") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        return mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)


def train(options: argparse.Namespace) -> None:
    """The loop: batches, steps, and what is planted in the step, each timed."""
    library = map_library(os.path.dirname(options.truth))
    datasets = {"disk": ShardsOnDisk, "cache": CachedShards}
    loader = Loader(datasets.get(options.kind, Pictures)(options), options.workers)
    ballast = Ballast() if options.kind == "ballast" else None
    tokenizer = Tokenizer() if options.kind == "child" else None
    gpu = SimulatedGpu(options.device, sync="block")
    until = time.monotonic() + options.seconds
    lost = 0.0
    with open(options.truth, "w", encoding="utf-8") as truth:
        print(json.dumps({"workload": options.kind, "pid": os.getpid()}), file=truth, flush=True)
        asked = time.monotonic()
        for _batch in loader:
            got = time.monotonic()
            forward_backward(gpu, options.step_ms)
            began = time.monotonic()
            if ballast is not None:
                ballast.walk(options.reads * 100)
            elif tokenizer is not None:
                tokenizer.tokenize(options.planted_ms)
            elif options.kind == "python":
                compute_metrics(options.planted_ms)
            done = time.monotonic()
            lost += done - began
            print(json.dumps({"a": asked, "b": got, "c": done, "lost": lost}), file=truth, flush=True)
            if done >= until:
                library.close()
                return
            asked = time.monotonic()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("decode", "disk", "cache", "python", "child", "ballast"))
    parser.add_argument("--truth", required=True)
    parser.add_argument("--device", required=True, help="the file of the simulated GPU, which the fake NVML library reads")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--data")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--reads", type=int, default=2, help="reads for each batch")
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--batch-ms", type=float, default=5.0)
    parser.add_argument("--planted-ms", type=float, default=80.0)
    return parser.parse_args()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    train(parsed())
    os._exit(0)
