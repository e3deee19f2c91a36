"""Land use from satellite tiles in plain torch; how well the fields hold together is counted as it learns."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally

KINDS = 5


class Tiles(Dataset):
    def __init__(self, size=64):
        draw = np.random.default_rng(1)
        self.scene = draw.integers(200, 4000, (4, 1024, 1024), dtype=np.uint16)
        self.use = np.kron(draw.integers(0, KINDS, (32, 32)), np.ones((32, 32), int))
        self.size = size

    def __len__(self):
        return 1_000_000

    def equalized(self, band):
        _, places, counts = np.unique(band, return_inverse=True, return_counts=True)
        return (counts.cumsum() / band.size)[places].reshape(band.shape)

    def __getitem__(self, index):
        with tally.part("loading"):
            top, left = np.random.default_rng(index).integers(0, 1024 - self.size, 2)
            part = np.s_[top : top + self.size, left : left + self.size]
            bands = self.scene[:, part[0], part[1]].astype(np.float32)
            green, red, infrared = bands[1], bands[2], bands[3]
            vegetation = (infrared - red) / (infrared + red + 1)
            water = (green - infrared) / (green + infrared + 1)
            layers = [self.equalized(band) for band in (*bands, vegetation, water)]
            return torch.from_numpy(np.stack(layers).astype(np.float32)), torch.from_numpy(self.use[part])


def regions(tile):
    """How many connected fields a map has."""
    height, width, found = len(tile), len(tile[0]), 0
    seen = [[False] * width for _ in tile]
    for y in range(height):
        for x in range(width):
            if seen[y][x]:
                continue
            found += 1
            reached, seen[y][x] = [(y, x)], True
            while reached:
                row, column = reached.pop()
                for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                    i, j = row + down, column + right
                    if 0 <= i < height and 0 <= j < width and not seen[i][j] and tile[i][j] == tile[row][column]:
                        seen[i][j] = True
                        reached.append((i, j))
    return found


def scattered(guesses, use):
    pairs = zip(guesses.tolist(), use.tolist())
    return sum(regions(guess) / regions(tile) for guess, tile in pairs) / len(guesses)


def train():
    workers = 2 if tally.fixes("loading") else 0
    loader = DataLoader(Tiles(), batch_size=16, num_workers=workers, persistent_workers=workers > 0)
    net = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, KINDS, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    history = []
    for step, (bands, use) in enumerate(loader):
        found = net(bands)
        loss = nn.functional.cross_entropy(found, use)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % (50 if tally.fixes("metrics") else 1) == 0:
            with tally.part("metrics"):
                history.append(scattered(found[:6].argmax(1), use[:6]))
        tally.units()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train()
