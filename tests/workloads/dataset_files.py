"""Data files for workloads that read: made on first use, kept for the next, 0.8 GB in all.

Content is random, so that no file system compresses or de-duplicates it. A folder is complete once its `.ready`
file exists; a half-made one is made again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable

JPEG_COUNT, JPEG_SIZE = 64, (1280, 960)
SMALL_COUNT, SMALL_BYTES = 2000, 32 * 1024
SHARD_COUNT, SHARD_BYTES = 8, 64 << 20


def default_folder() -> str:
    """A folder of this user's under the system's temporary one."""
    path = os.path.join(tempfile.gettempdir(), f"trainmon-workload-data-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user; give a folder of yours with --data")
    return path


def _made(folder: str, name: str, make: Callable[[str], None]) -> str:
    path = os.path.join(folder, name)
    if not os.path.exists(os.path.join(path, ".ready")):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        make(path)
        os.sync()
        with open(os.path.join(path, ".ready"), "w", encoding="utf-8"):
            pass
    return path


def _listed(path: str) -> list[str]:
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith(".")]


def jpegs(folder: str) -> list[str]:
    """Photographs of noise: about 200 KB each."""

    def make(path: str) -> None:
        import numpy
        from PIL import Image

        width, height = JPEG_SIZE
        for number in range(JPEG_COUNT):
            random = numpy.random.default_rng(number)
            coarse = random.integers(0, 255, (height // 16, width // 16, 3), dtype=numpy.uint8)
            picture = Image.fromarray(coarse).resize(JPEG_SIZE, Image.Resampling.BICUBIC)
            noise = random.integers(0, 24, (height, width, 3), dtype=numpy.uint8)
            grainy = Image.fromarray((numpy.asarray(picture) // 2 + noise).astype(numpy.uint8))
            grainy.save(os.path.join(path, f"{number:04}.jpg"), quality=88)

    return _listed(_made(folder, "jpegs", make))


def small_files(folder: str) -> list[str]:
    """Many files of 32 KiB."""

    def make(path: str) -> None:
        for number in range(SMALL_COUNT):
            with open(os.path.join(path, f"{number:05}.bin"), "wb") as file:
                file.write(os.urandom(SMALL_BYTES))

    return _listed(_made(folder, "small", make))


def shards(folder: str) -> list[str]:
    """A few files of 64 MiB."""

    def make(path: str) -> None:
        for number in range(SHARD_COUNT):
            with open(os.path.join(path, f"{number:02}.bin"), "wb") as file:
                for _ in range(SHARD_BYTES >> 22):
                    file.write(os.urandom(4 << 20))

    return _listed(_made(folder, "shards", make))


def evict(path: str) -> None:
    """Drops a file's pages from the page cache, so that the next read reaches the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for prepare in (jpegs, small_files, shards):
        prepare(sys.argv[1])
