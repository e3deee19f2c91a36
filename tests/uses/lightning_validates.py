"""Prices of houses with Lightning, in a DataModule; the held-out houses are looked at several times an epoch."""

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

import tally


class Houses(L.LightningDataModule):
    def setup(self, stage):
        features = torch.randn(20_000, 64)
        price = features[:, :8].sum(1, keepdim=True)
        self.train = TensorDataset(features[:12_000], price[:12_000])
        self.held_out = TensorDataset(features[12_000:], price[12_000:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=128, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=128)


class Price(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)) for _ in range(8)
        )

    def forward(self, x):
        return torch.stack([expert(x) for expert in self.experts]).mean(0)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.mse_loss(self(x), y)

    def on_train_batch_end(self, *args):
        tally.units()

    def on_validation_start(self):
        self.looking = tally.part("validating")
        self.looking.__enter__()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        passes = torch.stack([self(x + 0.05 * torch.randn_like(x)) for _ in range(2)])
        self.log("val_error", (passes.mean(0) - y).abs().mean())
        self.log("val_spread", passes.std(0).mean())

    def on_validation_end(self):
        self.looking.__exit__(None, None, None)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


torch.set_num_threads(1)
trainer = L.Trainer(
    accelerator="cpu", max_epochs=-1, val_check_interval=1.0 if tally.fixed else 0.25, enable_checkpointing=False, logger=False,
    check_val_every_n_epoch=20 if tally.fixed else 1, num_sanity_val_steps=0, enable_progress_bar=False,
)
trainer.fit(Price(), datamodule=Houses())
