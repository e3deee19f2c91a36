"""Learns from patches of large pictures in plain torch, and keeps the state of the run beside them."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import tally


class Patches(IterableDataset):
    def __init__(self, size=64):
        self.size = size
        self.picture = np.random.default_rng(0).integers(0, 255, (1024, 1024, 3), dtype=np.uint8)

    def __iter__(self):
        while True:
            with tally.part("loading"):
                patch = self.cut()
            yield patch

    def cut(self):
        top, left = np.random.randint(0, 1024 - self.size, 2)
        patch = self.picture[top : top + self.size, left : left + self.size].astype(np.float64) / 255
        light = patch.max(2)
        for _ in range(4):
            light = np.median(np.stack([np.roll(light, shift, axis) for axis in (0, 1) for shift in (-1, 0, 1)]), axis=0)
        return torch.from_numpy((patch - light[..., None]).astype(np.float32)).permute(2, 0, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(60_000, 256)
        self.encode = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 256, 256))

    def forward(self, x):
        return self.encode(x), self.codes.weight[: len(x)]


def main():
    torch.set_num_threads(1)
    folder, net = Path(tempfile.mkdtemp()), Net()
    net.codes.requires_grad_(False)
    optimizer = torch.optim.SGD(net.encode.parameters(), lr=0.01)
    for step, patches in enumerate(DataLoader(Patches(), batch_size=16)):
        found, wanted = net(patches)
        loss = (found - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()
        if step % 6 == 0:
            with tally.part("saving"):
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, folder / "state.pt")


main()
