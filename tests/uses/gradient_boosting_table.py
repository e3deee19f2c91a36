import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import tally

rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 40)).astype(np.float32)
y = (X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)

model = HistGradientBoostingClassifier(max_iter=20, learning_rate=0.05, warm_start=True, early_stopping=False)
while True:
    model.fit(X, y)
    tally.units(20)
    model.set_params(max_iter=model.max_iter + 20)
