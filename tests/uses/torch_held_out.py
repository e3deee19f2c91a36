"""An image classifier in plain torch that looks at held-out images every few seconds."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally


class Digits(Dataset):
    def __init__(self, count):
        self.count = count
        self.images = torch.rand(512, 1, 28, 28)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.images[index % 512], index % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(64 * 12 * 12, 10)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def train(args, model, loader, optimizer, epoch, held_out):
    for index, (data, target) in enumerate(loader):
        model.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        tally.units()
        if index % args.interval == args.interval - 1:
            with tally.part("testing"):
                accuracy = test(model, held_out)
            print(f"epoch {epoch} step {index}: {100 * accuracy:.1f}%", flush=True)


def test(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            correct += (model(data).argmax(1) == target).sum().item()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--interval", type=int, default=1000 if tally.fixed else 20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = Net()
    loader = DataLoader(Digits(100_000), args.batch_size, shuffle=True, num_workers=1)
    held_out = DataLoader(Digits(1_800), 128, num_workers=1)
    optimizer = torch.optim.Adadelta(model.parameters())
    for epoch in range(1000):
        train(args, model, loader, optimizer, epoch, held_out)


if __name__ == "__main__":
    main()
