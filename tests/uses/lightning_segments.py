"""Segments of cells with Lightning: images are warped when they are read."""

import lightning
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tally


class Cells(Dataset):
    def __init__(self):
        draw = np.random.default_rng(0)
        self.images = draw.random((64, 96, 96)).astype(np.float32)

    def __len__(self):
        return 100_000

    def warp(self, image):
        rows, columns = np.meshgrid(np.arange(96.0), np.arange(96.0), indexing="ij")
        shift = np.random.normal(0, 3, (2, 96, 96))
        for _ in range(40):
            shift = (shift + np.roll(shift, 1, 1) + np.roll(shift, 1, 2) + np.roll(shift, -1, 1) + np.roll(shift, -1, 2)) / 5
        at = np.clip(np.stack([rows, columns]) + 4 * shift, 0, 94.99)
        low = at.astype(int)
        part = at - low
        top = image[low[0], low[1]] * (1 - part[1]) + image[low[0], low[1] + 1] * part[1]
        bottom = image[low[0] + 1, low[1]] * (1 - part[1]) + image[low[0] + 1, low[1] + 1] * part[1]
        return top * (1 - part[0]) + bottom * part[0]

    def __getitem__(self, index):
        with tally.part("loading"):
            image = self.warp(self.images[index % 64])
            return torch.from_numpy(image[None].astype(np.float32)), torch.from_numpy((image > 0.5).astype(np.int64))


class Segmenter(lightning.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))

    def training_step(self, batch, batch_idx):
        image, mask = batch
        loss = nn.functional.cross_entropy(self.net(image), mask)
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        tally.units()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Cells(), batch_size=16, num_workers=2 if tally.fixed else 0, persistent_workers=tally.fixed)
    trainer = lightning.Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Segmenter(), loader)
