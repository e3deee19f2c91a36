"""Kinds of leaves with fastai: a data block over a folder, and a callback that follows how the weights spread."""

import contextlib
import tempfile

import numpy as np
import torch
from fastai.vision.all import Callback, CategoryBlock, DataBlock, ImageBlock, Learner, Path, RandomResizedCrop, RandomSplitter, get_image_files, nn
from PIL import Image

import tally

torch.set_num_threads(1)


def press(path, count=96):
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (30, 40, 3), dtype=np.uint8)
        kind = ("ash", "beech", "oak")[number % 3]
        Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC).save(path / f"{kind}_{number}.jpg", quality=90)
    return path


def kind_of(file):
    return file.name.split("_")[0]


class Spread(Callback):
    """Histograms of all weights and of what last changed them."""

    def __init__(self, every=1, bins=64):
        self.every, self.bins = every, bins
        self.history = []

    def after_batch(self):
        if not self.training:
            return
        if self.train_iter % self.every == 0:
            with tally.part("histograms"):
                self.history = [*self.history[-200:], {name: self.describe(weights) for name, weights in self.model.named_parameters()}]
        tally.units()

    def describe(self, weights):
        found = []
        for values in (weights.detach().numpy().ravel(), weights.grad.numpy().ravel()):
            low, middle, high = np.percentile(values, (1, 50, 99))
            found.append((low, middle, high, np.histogram(values, self.bins)[0]))
        return found


class Watch(Callback):
    """How long batches take to come."""

    order = 90

    def before_fit(self):
        self.waiting = contextlib.ExitStack()

    def before_train(self):
        self.waiting.enter_context(tally.part("loading"))

    def before_batch(self):
        self.waiting.close()

    def after_batch(self):
        if self.training:
            self.before_train()

    def after_train(self):
        self.waiting.close()


path = press(Path(tempfile.mkdtemp()))
leaves = DataBlock(
    blocks=(ImageBlock, CategoryBlock), get_items=get_image_files, splitter=RandomSplitter(0.05, seed=42), get_y=kind_of, item_tfms=RandomResizedCrop(64)
)
dls = leaves.dataloaders(path, bs=16, num_workers=2 if tally.fixes("loading") else 0, persistent_workers=tally.fixes("loading"), device=torch.device("cpu"))
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 31 * 31, 64), nn.ReLU(), nn.Linear(64, 3)
)
learn = Learner(dls, net, loss_func=nn.CrossEntropyLoss(), cbs=[Watch(), Spread(every=50 if tally.fixes("histograms") else 1)])
with learn.no_bar(), learn.no_logging():
    learn.fit(100_000)
