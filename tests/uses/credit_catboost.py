import numpy as np
from catboost import CatBoostClassifier, Pool

import tally


class Count:
    def after_iteration(self, info):
        tally.units()
        return True


rng = np.random.default_rng(1)
numbers = rng.normal(size=(40_000, 40))
labels = (numbers[:, :6].sum(axis=1) + rng.normal(size=len(numbers)) > 0).astype(int)
pool = Pool(numbers, labels)

model = CatBoostClassifier(iterations=1_000_000, depth=8, learning_rate=0.01, verbose=100)
model.fit(pool, callbacks=[Count()])
