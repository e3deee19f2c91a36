import numpy as np
from xgboost import XGBRegressor
from xgboost.callback import TrainingCallback

import tally


class Count(TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        tally.units()
        return False


def listings(n):
    rng = np.random.default_rng(11)
    features = rng.gamma(2.0, size=(n, 60)).astype("float32")
    price = features[:, 0] * features[:, 1] + np.sin(features[:, 2:10]).sum(axis=1) + rng.normal(scale=0.5, size=n)
    return features, price


def fit(threads):
    features, price = listings(150_000)
    model = XGBRegressor(n_estimators=500_000, learning_rate=0.01, max_depth=7, n_jobs=threads, callbacks=[Count()])
    model.fit(features, price)
    return model


if __name__ == "__main__":
    fit(threads=2 if tally.fixed else 1)
