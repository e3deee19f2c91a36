"""Classifies sound: clips are stored packed, and a command unpacks the next ones before each step."""

import os
import subprocess
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import tally

torch.set_num_threads(1)
folder = tempfile.mkdtemp()


def record(name, seconds=40):
    path = os.path.join(folder, name)
    wave = (np.sin(np.arange(16_000 * seconds) * 0.01) * 3000 + np.random.default_rng(1).normal(0, 200, 16_000 * seconds)).astype(np.int16)
    with open(path, "wb") as file:
        subprocess.run(["gzip", "-1", "-c"], input=wave.tobytes(), stdout=file, check=True)
    return path


def read_clip(path):
    with tally.part("unpacking"):
        unpacked = subprocess.run(["gzip", "-d", "-c", path], capture_output=True, check=True)
    return torch.from_numpy(np.frombuffer(unpacked.stdout, np.int16).astype(np.float32) / 32768)


clips = [record(f"{number}.raw.gz") for number in range(4)]
loader = DataLoader(clips, batch_size=2, shuffle=True, collate_fn=list)
net = nn.Sequential(nn.Conv1d(1, 8, 64, stride=32), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

for _epoch in range(1_000_000):
    for paths in loader:
        waves = torch.stack([read_clip(path)[: 16_000 * 8] for path in paths])
        loss = nn.functional.cross_entropy(net(waves[:, None]), torch.tensor([0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()
