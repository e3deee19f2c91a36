"""Families of proteins in plain torch: a worker counts what stands beside what, and each step's ranking is scored."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally

ACIDS = "ACDEFGHIKLMNPQRSTVWY"
FAMILIES = 12


class Proteins(Dataset):
    def __init__(self, count=500):
        draw = random.Random(8)
        self.chains = ["".join(draw.choices(ACIDS, k=700)) for _ in range(count)]
        self.place = {acid: number for number, acid in enumerate(ACIDS)}

    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        chain = [self.place[acid] for acid in self.chains[index % len(self.chains)]]
        together = np.zeros((20, 20), np.float32)
        for gap in (1, 2, 3):
            for left, right in zip(chain, chain[gap:]):
                together[left, right] += 1 / gap
        return torch.from_numpy(together.ravel() / len(chain)), index % FAMILIES


def area(scores, positive):
    """Area under the curve of one family, from the ranks."""
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ranks = sum(rank for rank, one in enumerate(order, 1) if positive[one])
    hits = sum(positive)
    misses = len(scores) - hits
    return (ranks - hits * (hits + 1) / 2) / (hits * misses) if hits and misses else 0.5


def mean_area(history):
    areas = []
    for family in range(FAMILIES):
        scores = [row[family] for rows, _ in history for row in rows]
        areas.append(area(scores, [one == family for _, families in history for one in families]))
    return sum(areas) / FAMILIES


def main():
    torch.set_num_threads(1)
    workers = 2 if tally.fixes("loading") else 1
    batches = iter(DataLoader(Proteins(), batch_size=64, num_workers=workers, persistent_workers=True))
    net = nn.Sequential(nn.Linear(400, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, FAMILIES))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    history, quality, step = [], 0.5, 0
    while True:
        with tally.part("loading"):
            chains, families = next(batches)
        scores = net(chains)
        loss = nn.functional.cross_entropy(scores, families)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history = [*history[-79:], (scores.tolist(), families.tolist())]
        if step % (50 if tally.fixes("metrics") else 1) == 0:
            with tally.part("metrics"):
                quality = 0.9 * quality + 0.1 * mean_area(history)
        step += 1
        tally.units()


if __name__ == "__main__":
    main()
