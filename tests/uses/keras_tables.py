"""Tables of prices with Keras on torch; a PyDataset makes each batch."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

import tally


class Windows(keras.utils.PyDataset):
    def __init__(self, prices, size=32, **kwargs):
        super().__init__(**kwargs)
        self.prices, self.size = prices, size

    def __len__(self):
        return 200

    def indicators(self, prices):
        """Moving averages, exponential averages and the relative strength of a series."""
        fast = slow = prices[0]
        rows = []
        for at in range(1, len(prices)):
            fast += 0.3 * (prices[at] - fast)
            slow += 0.05 * (prices[at] - slow)
            changes = np.diff(prices[max(0, at - 14) : at + 1])
            up, down = changes[changes > 0].sum(), -changes[changes < 0].sum()
            rows.append((fast - slow, up / (up + down + 1e-9), changes.mean()))
        return np.asarray(rows, np.float32)

    def __getitem__(self, index):
        with tally.part("loading"):
            starts = np.random.randint(0, len(self.prices) - 101, self.size)
            inputs = np.stack([self.indicators(self.prices[start : start + 101]) for start in starts])
            return inputs, np.sign(self.prices[starts + 101 - 1] - self.prices[starts]) > 0


class Units(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        tally.units()


if __name__ == "__main__":
    torch.set_num_threads(1)
    prices = 100 + np.random.default_rng(0).normal(size=50_000).cumsum()
    model = keras.Sequential([keras.Input((100, 3)), keras.layers.Flatten(), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True))
    workers = {"workers": 2, "use_multiprocessing": True} if tally.fixed else {}
    model.fit(Windows(prices, **workers), epochs=10_000, verbose=0, callbacks=[Units()])
