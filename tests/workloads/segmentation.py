"""Trains a segmentation model on tiles: the program on the pictures of README.md and docs/.

    python tests/workloads/segmentation.py --workers 1 --seconds 40 --device device.bin --data DIR

A real torch DataLoader with real JPEG decoding and a real transform; the model's work is a queue of the simulated GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from workloads import simulated_gpu

#: Seconds of GPU work of a step.
STEP_S = 0.075
BATCH = 8
TILE = 192


def load_tile(path: str) -> numpy.ndarray:
    """Decodes one JPEG tile."""
    with Image.open(path) as picture:
        return numpy.asarray(picture.convert("RGB").resize((TILE, TILE)))


def dilate_mask(mask: numpy.ndarray, radius: int = 19) -> numpy.ndarray:
    """Widens a mask by `radius` pixels, the slow way."""
    wide = mask.copy()
    for down in range(-radius, radius + 1):
        for right in range(-radius, radius + 1):
            wide |= numpy.roll(mask, (down, right), (0, 1))
    return wide


class Tiles(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Tiles and their masks."""

    def __init__(self, paths: list[str]):
        self.paths = paths

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        tile = load_tile(self.paths[index % len(self.paths)])
        mask = dilate_mask(tile.mean(axis=2) > 128)
        return torch.from_numpy(tile.copy()), torch.from_numpy(mask)


def train_step(gpu: simulated_gpu.SimulatedGpu, images: torch.Tensor, masks: torch.Tensor) -> None:
    """Forward, backward and the optimizer, on the simulated GPU."""
    assert images.shape[0] == masks.shape[0]
    gpu.launch(STEP_S)
    gpu.synchronize()


def train(loader: DataLoader[tuple[torch.Tensor, torch.Tensor]], gpu: simulated_gpu.SimulatedGpu, until: float) -> int:
    """Steps until the time is up; how many that were."""
    step = 0
    for images, masks in loader:
        train_step(gpu, images, masks)
        step += 1
        if time.monotonic() > until:
            break
    return step


def tiles(folder: str, count: int = 64) -> list[str]:
    """Writes the tiles where they are missing; their paths."""
    os.makedirs(folder, exist_ok=True)
    noise = numpy.random.default_rng(1)
    paths = [os.path.join(folder, f"tile-{number:03}.jpg") for number in range(count)]
    for path in paths:
        if not os.path.exists(path):
            coarse = Image.fromarray(noise.integers(0, 256, (12, 12, 3), dtype=numpy.uint8))
            coarse.resize((512, 512), Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a segmentation model on a simulated GPU.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--device", required=True, help="file of the simulated GPU")
    parser.add_argument("--data", default="tiles", help="folder of the tiles")
    args = parser.parse_args()
    torch.set_num_threads(1)
    simulated_gpu.create(args.device, "Simulated A10G")
    gpu = simulated_gpu.SimulatedGpu(
        args.device, memory_total_bytes=24 << 30, memory_used_bytes=6 << 30, owner_memory_bytes=6 << 30,
        power_limit_mw=300_000, power_busy_mw=270_000, power_idle_mw=22_000, sm_clock_mhz=1_710, sm_clock_max_mhz=1_710,
    )
    loader = DataLoader(Tiles(tiles(args.data)), batch_size=BATCH, num_workers=args.workers)
    steps = train(loader, gpu, time.monotonic() + args.seconds)
    print(f"{steps} steps")


if __name__ == "__main__":
    main()
