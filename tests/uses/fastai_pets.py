"""Cats and dogs with fastai: a data block over a folder, a small network, fit_one_cycle."""

import tempfile

import numpy as np
import torch
from fastai.vision.all import (
    Callback,
    CategoryBlock,
    DataBlock,
    ImageBlock,
    Learner,
    Path,
    RandomResizedCrop,
    RandomSplitter,
    accuracy,
    get_image_files,
    nn,
)
from PIL import Image

import tally

torch.set_num_threads(1)


def collect(path, count=96):
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (60, 80, 3), dtype=np.uint8)
        kind = "cat" if number % 2 else "dog"
        Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(path / f"{kind}_{number}.jpg", quality=90)
    return path


def kind_of(file):
    return file.name.split("_")[0]


class Watch(Callback):
    def after_create(self):
        self.computing = None

    def before_batch(self):
        if self.training:
            self.computing = tally.part("computing")
            self.computing.__enter__()

    def after_batch(self):
        if self.computing:
            self.computing.__exit__(None, None, None)
            self.computing = None
            tally.units()


path = collect(Path(tempfile.mkdtemp()))
pets = DataBlock(
    blocks=(ImageBlock, CategoryBlock),
    get_items=get_image_files,
    splitter=RandomSplitter(0.1, seed=42),
    get_y=kind_of,
    item_tfms=RandomResizedCrop(64, min_scale=0.35),
)
dls = pets.dataloaders(path, bs=16, num_workers=2 if tally.fixed else 0, device=torch.device("cpu"))
net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
learn = Learner(dls, net, loss_func=nn.CrossEntropyLoss(), metrics=accuracy, cbs=[Watch()])
with learn.no_bar(), learn.no_logging():
    learn.fit_one_cycle(10_000)
