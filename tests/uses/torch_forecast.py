"""Forecasts with a small transformer in plain torch: all in memory, all CPUs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tally


class Forecaster(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.lift = nn.Linear(4, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(self.lift(x))[:, -1])


def train_one_epoch(model, loader, optimizer):
    for history, following in loader:
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(history), following)
        loss.backward()
        optimizer.step()
        tally.units()


if __name__ == "__main__":
    series = torch.randn(2000, 32, 4)
    loader = DataLoader(TensorDataset(series, series[:, -1, :1]), batch_size=16, shuffle=True)
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _epoch in range(100_000):
        train_one_epoch(model, loader, optimizer)
