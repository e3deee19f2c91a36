"""Readings of sensors with Accelerate; each window is cleaned when it is read."""

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally


class Windows(Dataset):
    def __init__(self, days=200):
        self.days = np.random.default_rng(0).normal(size=(days, 2048)).cumsum(1)

    def __len__(self):
        return 50_000

    def __getitem__(self, index):
        with tally.part("loading"):
            day = self.days[index % len(self.days)]
            trend = np.array([np.median(day[max(0, at - 16) : at + 16]) for at in range(0, len(day), 64)])
            clean = np.interp(np.arange(len(day)), np.arange(0, len(day), 64), trend)
            return torch.from_numpy((day - clean).astype(np.float32)), torch.tensor(float(index % 3))


def training_function(config):
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    workers = 2 if tally.fixed else 0
    loader = DataLoader(Windows(), batch_size=config["batch_size"], shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(config["num_epochs"]):
        model.train()
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs).squeeze(1), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            tally.units()


if __name__ == "__main__":
    torch.set_num_threads(1)
    training_function({"lr": 1e-3, "num_epochs": 1000, "batch_size": 32})
