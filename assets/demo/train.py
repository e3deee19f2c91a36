"""A small training run, the job of `trainmon demo`.

Worker processes read, decode and augment images. The training loop takes their batches in order, assigns targets on the
CPU and launches the rest of the step on the GPU, which is simulated (simulated_gpu.py). Everything else is real, and
trainmon watches it from outside as it would watch any other job.
"""

import argparse
import functools
import itertools
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
import zlib

import job
from simulated_gpu import SimulatedGpu

STORED_SIDE = 120  # pixels, as stored
SIDE = 24  # pixels, as trained on
IMAGES = 256
PREFETCH = 4  # batches that each worker may be ahead
BOXES = 8

fork = multiprocessing.get_context("fork")


class ImageDataset:
    """Compressed grayscale images, in a file or on a storage server."""

    def __init__(self, path, storage=None, radius=1):
        self.path, self.storage, self.radius = path, storage, radius
        self.places = []
        self.source = None
        with open(path, "wb") as file:
            for _ in range(IMAGES):
                image = encode_image()
                self.places.append((file.tell(), len(image)))
                file.write(image)

    def open(self):
        """Connects this process to the images."""
        if self.storage:
            self.source = socket.create_connection(self.storage).makefile("rwb")
        else:
            self.source = open(self.path, "rb", buffering=0)

    def read_image(self, index):
        offset, length = self.places[index]
        if self.storage:
            self.source.write(b"%d %d\n" % (offset, length))
            self.source.flush()
        else:
            self.source.seek(offset)
        return self.source.read(length)

    def __getitem__(self, index):
        image = decode_image(self.read_image(index))
        mask = dilate_mask(image, self.radius)
        return augment(image, mask)


def encode_image():
    """An image as it is stored: compressed rows, each as its difference from the one above."""
    return zlib.compress(os.urandom(STORED_SIDE * STORED_SIDE), 1)


def decode_image(data):
    """Decompresses an image, undoes its filter as PNG decoders do, and scales it down."""
    filtered = zlib.decompress(data)
    rows, above = [], bytes(STORED_SIDE)
    for start in range(0, len(filtered), STORED_SIDE):
        row = bytearray(filtered[start : start + STORED_SIDE])
        for x, pixel in enumerate(above):
            row[x] = (row[x] + pixel) & 255
        rows.append(row)
        above = row
    step = STORED_SIDE // SIDE
    return [row[::step] for row in rows[::step]]


def dilate_mask(image, radius):
    """Grows the bright parts of an image by `radius` pixels."""
    for _ in range(radius):
        grown = []
        for above, row, below in zip([image[0], *image], image, [*image[1:], image[-1]]):
            left, right = [row[0], *row], [*row[1:], row[-1]]
            grown.append(list(map(max, above, row, below, left, right)))
        image = grown
    return image


def augment(image, mask):
    """Flips an image at random, and darkens what the mask does not show."""
    flip = random.choice((1, -1))
    augmented = bytearray()
    for row, marks in zip(image, mask):
        augmented += bytes(map(min, row[::flip], marks))
    return bytes(augmented)


class DataLoader:
    """Batches made by worker processes, in order."""

    def __init__(self, dataset, batch_size, workers):
        self.indices = [fork.SimpleQueue() for _ in range(workers)]
        self.batches = [fork.SimpleQueue() for _ in range(workers)]
        for number, queues in enumerate(zip(self.indices, self.batches)):
            fork.Process(target=work, args=(dataset, batch_size, *queues), name=f"worker {number}", daemon=True).start()

    def request(self, number):
        self.indices[number % len(self.indices)].put(number)

    def __iter__(self):
        ahead = PREFETCH * len(self.indices)
        for number in range(ahead):
            self.request(number)
        for number in itertools.count():
            batch = self.batches[number % len(self.batches)].get()
            self.request(number + ahead)
            yield batch


def work(dataset, batch_size, indices, batches):
    """A worker: makes the batches whose numbers it gets."""
    job.end_with_parent(signal.SIGKILL, multiprocessing.parent_process().pid)
    dataset.open()
    while True:
        first = indices.get() * batch_size
        batches.put([dataset[index % IMAGES] for index in range(first, first + batch_size)])


def assign_targets(batch, anchors):
    """Finds the box that overlaps each anchor most, as detection models do before each step."""
    boxes = [(image[0] % SIDE, image[1] % SIDE, 8, 8) for image in batch[:BOXES]]
    targets = []
    for anchor in anchors:
        targets.append(max(boxes, key=functools.partial(overlap, anchor)))
    return targets


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0


def train(loader, gpu, anchors, gpu_ms, run_ahead):
    for step, batch in enumerate(loader):
        targets = assign_targets(batch, anchors)
        # Steps differ, as they do with real data.
        gpu.launch(gpu_ms / 1000 * random.uniform(0.8, 1.2))
        gpu.synchronize(run_ahead)
        if step % 1000 == 0:
            print(f"step {step}: {len(targets)} targets", flush=True)


def cpu_seconds(call):
    """CPU time of a call, the least of a few."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return min(times)


def fit_radius(dataset, batch_size, batch_ms):
    """Sets the radius of the dilation, so that a batch takes about `batch_ms` of CPU time on this machine."""
    data = encode_image()

    def prepare(radius):
        image = decode_image(data)
        augment(image, dilate_mask(image, radius))

    def seconds(radius):
        return cpu_seconds(lambda: prepare(radius))

    base, grown = seconds(0), seconds(16)
    each = max((grown - base) / 16, 1e-6)
    dataset.radius = max(1, round((batch_ms / 1000 / batch_size - base) / each))


def make_anchors(step_ms):
    """As many anchors as take about `step_ms` of CPU time a step on this machine."""
    anchors = [(random.randrange(SIDE), random.randrange(SIDE), 8, 8) for _ in range(50)]
    batch = [os.urandom(SIDE * SIDE) for _ in range(BOXES)]
    each = cpu_seconds(lambda: assign_targets(batch, anchors)) / len(anchors)
    return random.choices(anchors, k=max(1, round(step_ms / 1000 / each)))


def main():
    if sys.version_info < (3, 8):
        sys.exit("the demo needs Python 3.8 or newer, and this is {}.{}".format(*sys.version_info))
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--batch-ms", type=float, required=True, help="CPU time that a worker needs for a batch")
    parser.add_argument("--step-ms", type=float, required=True, help="CPU time that the loop needs for a step")
    parser.add_argument("--gpu-ms", type=float, required=True, help="GPU time of a step")
    parser.add_argument("--run-ahead", type=int, default=0, help="steps that may be queued on the GPU")
    parser.add_argument("--storage", help="HOST:PORT of a storage server, instead of the file")
    options = parser.parse_args()

    job.end_with_parent(signal.SIGTERM, job.trainmon())

    storage = options.storage and tuple(options.storage.rsplit(":", 1))
    dataset = ImageDataset("images.bin", storage)
    fit_radius(dataset, options.batch_size, options.batch_ms)
    anchors = make_anchors(options.step_ms)
    job.end_with_workers()
    loader = DataLoader(dataset, options.batch_size, options.workers)
    train(loader, SimulatedGpu(fd=0), anchors, options.gpu_ms, options.run_ahead)


if __name__ == "__main__":
    main()
