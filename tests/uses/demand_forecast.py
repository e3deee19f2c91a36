import numpy as np
from lightgbm import LGBMRegressor

import tally


def pinball(y_true, y_pred):
    """Mean pinball loss, worst of the shops."""
    worst = 0.0
    with tally.part("metric"):
        for shop in range(60):
            mine = shops == shop
            losses = [max(0.9 * (t - p), 0.1 * (p - t)) for t, p in zip(y_true[mine], y_pred[mine])]
            worst = max(worst, sum(losses) / len(losses))
    tally.units()
    return "pinball", worst, False


rng = np.random.default_rng(9)
X = rng.normal(size=(30_000, 12))
y = X[:, 0] * 3 + np.exp(X[:, 1] / 2) + rng.normal(size=len(X))
shops = rng.integers(0, 60, size=len(X))

model = LGBMRegressor(n_estimators=1_000_000, learning_rate=0.01, num_leaves=4, n_jobs=1, verbosity=-1)
model.fit(X, y, eval_set=[(X, y)], eval_metric=pinball)
