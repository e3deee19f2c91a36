from itertools import cycle

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import tally

rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 40)).astype(np.float32)
y = (X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)

for rate in cycle((0.02, 0.05, 0.1, 0.2)):
    model = HistGradientBoostingClassifier(max_iter=15, learning_rate=rate, early_stopping=False)
    model.fit(X, y)
    tally.units(15)
    print(rate, model.score(X[:1000], y[:1000]), flush=True)
