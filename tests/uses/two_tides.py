"""Heights of tides in plain torch, from batches that a generator makes; the run's state goes to the disk, to go on after a crash."""

import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import tally

HOURS = 256


class Gauges(IterableDataset):
    """Batches of what gauges measured, without what the moon does."""

    def __init__(self, size=40):
        self.size = size
        self.level = np.random.default_rng(6).normal(size=60_000).cumsum() / 50
        time = np.arange(HOURS)
        periods = (12.42, 12.0, 12.66, 25.82, 23.93, 6.21)
        self.waves = np.stack([wave(2 * np.pi * time / period) for period in periods for wave in (np.sin, np.cos)], axis=1)

    def detided(self, level):
        weights, *_ = np.linalg.lstsq(self.waves, level, rcond=None)
        rest = level - self.waves @ weights
        return rest - np.median(np.lib.stride_tricks.sliding_window_view(np.pad(rest, 12, "edge"), 25), axis=1)

    def __iter__(self):
        while True:
            with tally.part("loading"):
                starts = np.random.randint(0, len(self.level) - HOURS - 1, self.size)
                rows = np.stack([self.detided(self.level[start : start + HOURS]) for start in starts])
                batch = torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(self.level[starts + HOURS].astype(np.float32))
            yield batch


class Forecast(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(HOURS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 1)

    def forward(self, levels):
        return self.head(self.body(levels)).squeeze(1)


def save(path, **state):
    with open(path + ".tmp", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def main():
    torch.set_num_threads(1)
    gauges = Gauges()
    if tally.fixes("loading"):
        gauges = DataLoader(gauges, batch_size=None, num_workers=2)
    every = 500 if tally.fixes("saving") else 3
    path, model = os.path.join(tempfile.mkdtemp(), "tides.pt"), Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step, (levels, heights) in enumerate(gauges):
        loss = nn.functional.smooth_l1_loss(model(levels), heights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()
        if step % every == 0:
            with tally.part("saving"):
                save(path, model=model.state_dict(), optimizer=optimizer.state_dict(), step=step)


main()
