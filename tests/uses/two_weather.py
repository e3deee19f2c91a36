"""Rain of the next hour with Keras on torch: a PyDataset cuts maps out of the radar's, and a callback scores what was found."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

import tally

SIDE = 32


class Radar(keras.utils.PyDataset):
    def __init__(self, size=32, **kwargs):
        super().__init__(**kwargs)
        self.size = size
        self.maps = np.random.default_rng(9).gamma(0.4, 4, (40, 256, 256)).astype(np.float32)

    def __len__(self):
        return 400

    def cleaned(self, rain):
        """Decibels without single bright points."""
        around = [np.roll(rain, (down, right), (-2, -1)) for down in (-1, 0, 1) for right in (-1, 0, 1)]
        return 10 * np.log10(1 + 200 * np.median(np.stack(around), axis=0) ** 1.6)

    def __getitem__(self, index):
        with tally.part("loading"):
            inputs, rain = [], []
            for _ in range(self.size):
                at, top, left = np.random.randint(0, (37, 256 - SIDE, 256 - SIDE))
                maps = self.maps[at : at + 4, top : top + SIDE, left : left + SIDE]
                inputs.append(self.cleaned(maps[:3]))
                rain.append(maps[3])
            return np.moveaxis(np.stack(inputs), 1, -1), np.stack(rain)[..., None]


def skill(found, rain, reach=2):
    """Fractions skill score: how much it rains around a point, there and here."""
    height, width, error, most = len(rain), len(rain[0]), 0.0, 1e-9
    for y in range(0, height, reach):
        for x in range(0, width, reach):
            near = [(i, j) for i in range(max(0, y - reach), min(height, y + reach)) for j in range(max(0, x - reach), min(width, x + reach))]
            here = sum(found[i][j] > 1 for i, j in near) / len(near)
            there = sum(rain[i][j] > 1 for i, j in near) / len(near)
            error += (here - there) ** 2
            most += here**2 + there**2
    return 1 - error / most


class Skill(keras.callbacks.Callback):
    def __init__(self, radar, every=1):
        super().__init__()
        self.every, self.scores = every, []
        self.inputs, rain = radar[0]
        self.rain = rain[:8, ..., 0].tolist()

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every == 0:
            with tally.part("scoring"):
                found = self.model(self.inputs[:8])[..., 0].tolist()
                self.scores.append(sum(skill(*pair) for pair in zip(found, self.rain)) / 8)
        tally.units()


def main():
    torch.set_num_threads(1)
    workers = {"workers": 2, "use_multiprocessing": True} if tally.fixes("loading") else {}
    model = keras.Sequential(
        [keras.Input((SIDE, SIDE, 3)), *(keras.layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(3)), keras.layers.Conv2D(1, 1)]
    )
    model.compile(optimizer="adam", loss="mse")
    model.fit(Radar(**workers), epochs=100_000, verbose=0, callbacks=[Skill(Radar(), 50 if tally.fixes("scoring") else 1)])


if __name__ == "__main__":
    main()
