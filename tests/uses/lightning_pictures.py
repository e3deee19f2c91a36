"""A small autoencoder with Lightning; a callback keeps pictures of what it makes."""

import io
import tempfile
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tally


class Gallery(Callback):
    def __init__(self, folder, every):
        self.folder, self.every = Path(folder), every

    def sheet(self, images):
        page = Image.new("RGB", (4 * 130, 4 * 150), "white")
        pen = ImageDraw.Draw(page)
        for number, image in enumerate(images[:16]):
            picture = Image.fromarray((image[0].clamp(0, 1) * 255).byte().numpy()).resize((128, 128), Image.Resampling.LANCZOS)
            corner = (number % 4 * 130, number // 4 * 150)
            page.paste(picture, corner)
            pen.text((corner[0], corner[1] + 130), f"{float(image.mean()):.3f} ± {float(image.std()):.3f}", fill="black")
        content = io.BytesIO()
        page.save(content, "PNG")
        return content.getvalue()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == 0:
            with tally.part("drawing"), torch.no_grad():
                (self.folder / f"{batch_idx % 100}.png").write_bytes(self.sheet(module(batch[0])))
        tally.units()


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1024), nn.Unflatten(1, (1, 32, 32)))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return nn.functional.mse_loss(self(batch[0]), batch[0])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def main():
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(torch.rand(20_000, 1, 32, 32)), batch_size=256)
    gallery = Gallery(tempfile.mkdtemp(), every=40 if tally.fixed else 1)
    L.Trainer(accelerator="cpu", max_epochs=-1, callbacks=[gallery], logger=False, enable_checkpointing=False).fit(Autoencoder(), loader)


if __name__ == "__main__":
    main()
