"""Ranks answers in plain torch: a worker prepares the features, and each step's order is scored."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally


class Answers(Dataset):
    def __init__(self, count=100_000):
        self.count = count
        self.raw = np.random.default_rng(0).normal(size=(256, 64, 64))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        values = self.raw[index % 256]
        low, middle, high = np.percentile(values, (10, 50, 90), axis=0)
        return torch.from_numpy((high - low) / (1 + abs(middle))).float(), index % 5


def discounted_gain(scores, relevance):
    total = 0.0
    order = sorted(zip(scores, relevance), key=lambda pair: -pair[0])
    for query in range(5):
        ranked = [place for place, (_, kind) in enumerate(order, 1) if kind == query]
        gain = sum(1 / np.log2(1 + place) for place in ranked)
        total += gain / max(1e-9, sum(1 / np.log2(1 + place) for place in range(1, len(ranked) + 1)))
    return total / 5


class Ranker:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        self.quality = []

    def update(self, features, kinds):
        scores = self.net(features).squeeze(1)
        loss = nn.functional.mse_loss(scores, kinds.float())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with tally.part("metrics"):
            pairs = [*zip(scores.tolist(), kinds.tolist())]
            drawn = [random.choices(pairs, k=100) for _ in range(24)]
            self.quality = [discounted_gain(*zip(*pairs)) for pairs in drawn]

    def fit(self, loader):
        batches = iter(loader)
        while True:
            with tally.part("waiting"):
                features, kinds = next(batches)
            self.update(features, kinds)
            tally.units()


if __name__ == "__main__":
    torch.set_num_threads(1)
    Ranker().fit(DataLoader(Answers(10_000_000), batch_size=128, num_workers=1))
