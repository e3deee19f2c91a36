import numpy as np
from sklearn.neural_network import MLPClassifier

import tally


class Trainer:
    """Trains in mini-batches, with a decaying learning rate."""

    def __init__(self, hidden=(512, 256), batch=256):
        self.model = MLPClassifier(hidden_layer_sizes=hidden, batch_size=batch)
        self.batch = batch

    def epoch(self, x, y):
        order = np.random.permutation(len(x))
        for start in range(0, len(x) - self.batch, self.batch):
            chosen = order[start : start + self.batch]
            with tally.part("fitting"):
                self.model.partial_fit(x[chosen], y[chosen], classes=np.arange(10))
            tally.units()

    def run(self, x, y):
        while True:
            self.epoch(x, y)
            self.model.learning_rate_init *= 0.99


rng = np.random.default_rng(3)
Trainer().run(rng.random((20_000, 784), dtype=np.float32), rng.integers(0, 10, 20_000))
