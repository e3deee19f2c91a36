"""Rooms from pictures with Lightning: each picture is turned, blurred and stretched, and the run can go on where it ended."""

import os
import tempfile

import lightning as L
import numpy as np
import torch
from PIL import Image, ImageFilter, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally


def augment(picture):
    turned = picture.rotate(np.random.uniform(-15, 15), Image.Resampling.BICUBIC, expand=True)
    soft = turned.filter(ImageFilter.GaussianBlur(np.random.uniform(0.5, 2)))
    return ImageOps.autocontrast(soft, cutoff=1).resize((48, 48), Image.Resampling.LANCZOS)


class Rooms(Dataset):
    def __init__(self, transform=None, count=200):
        draw = np.random.default_rng(2)
        self.pictures = [Image.fromarray(draw.integers(0, 255, (84, 112, 3), dtype=np.uint8)) for _ in range(count)]
        self.transform = transform

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        with tally.part("loading"):
            picture = self.transform(self.pictures[index % len(self.pictures)])
            pixels = np.asarray(picture, np.float32).transpose(2, 0, 1) / 255
            return torch.from_numpy(pixels), index % 8


class RoomNet(L.LightningModule):
    def __init__(self, folder, every):
        super().__init__()
        self.path, self.every = os.path.join(folder, "rooms.ckpt"), every
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 100, 640), nn.ReLU(), nn.Linear(640, 8)
        )

    def training_step(self, batch, batch_idx):
        pictures, rooms = batch
        return nn.functional.cross_entropy(self.net(pictures), rooms)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        tally.units()
        if batch_idx % self.every == 0:
            with tally.part("saving"):
                self.keep()

    def keep(self):
        content = {"net": self.state_dict(), "optimizer": self.optimizers().optimizer.state_dict(), "step": self.global_step}
        with open(self.path + ".new", "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path + ".new", self.path)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    torch.set_num_threads(1)
    workers = 2 if tally.fixes("loading") else 0
    loader = DataLoader(Rooms(augment), batch_size=16, num_workers=workers, persistent_workers=workers > 0)
    net = RoomNet(tempfile.mkdtemp(), every=500 if tally.fixes("saving") else 2)
    trainer = L.Trainer(accelerator="cpu", max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(net, loader)


if __name__ == "__main__":
    main()
