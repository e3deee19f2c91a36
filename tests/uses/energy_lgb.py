import lightgbm as lgb
import numpy as np

import tally


def count(env):
    tally.units()


def main(config):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100_000, 60))
    y = np.abs(X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + rng.normal(size=len(X))
    train = lgb.Dataset(X[:90_000], y[:90_000])
    valid = lgb.Dataset(X[90_000:], y[90_000:], reference=train)
    lgb.train(config, train, num_boost_round=1_000_000, valid_sets=[valid], callbacks=[count, lgb.log_evaluation(100)])


main({"objective": "regression", "num_leaves": 255, "learning_rate": 0.01, "metric": "rmse", "verbosity": -1})
