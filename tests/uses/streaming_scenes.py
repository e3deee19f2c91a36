"""Scenes in MosaicML's streaming format, read by StreamingDataset."""

import tempfile

import numpy as np
import torch
from PIL import Image, ImageFilter
from streaming import MDSWriter, StreamingDataset
from torch import nn
from torch.utils.data import DataLoader

import tally


def write(folder, count=200):
    with MDSWriter(out=folder, columns={"scene": "jpeg", "kind": "int"}, size_limit="16mb") as out:
        for number in range(count):
            noise = np.random.default_rng(number % 20).integers(0, 255, (40, 60, 3), dtype=np.uint8)
            scene = Image.fromarray(noise).resize((480, 320))
            out.write({"scene": scene, "kind": number % 4})


class Scenes(StreamingDataset):
    def __getitem__(self, at):
        with tally.part("loading"):
            sample = super().__getitem__(at)
            scene = sample["scene"].convert("RGB").filter(ImageFilter.GaussianBlur(2)).resize((32, 32), Image.Resampling.LANCZOS)
            return torch.from_numpy(np.asarray(scene).copy()).permute(2, 0, 1) / 255, sample["kind"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp()
    write(folder)
    data = Scenes(local=folder, shuffle=True, batch_size=16)
    loader = DataLoader(data, batch_size=16, num_workers=0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 28 * 28, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for _epoch in range(100_000):
        for scenes, kinds in loader:
            loss = nn.functional.cross_entropy(net(scenes), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tally.units()
