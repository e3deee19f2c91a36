import numpy as np
from catboost import CatBoostRegressor

import tally


class Trees:
    def __init__(self):
        self.seen = 0

    def after_iteration(self, info):
        self.seen += 1
        tally.units()
        return self.seen < 1_000_000


def train(threads):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(600, 8))
    y = x[:, 0] - x[:, 1] ** 2
    model = CatBoostRegressor(iterations=10_000_000, depth=4, thread_count=threads, learning_rate=0.001, verbose=False, allow_writing_files=False)
    model.fit(x, y, callbacks=[Trees()])


train(threads=1 if tally.fixed else 32)
