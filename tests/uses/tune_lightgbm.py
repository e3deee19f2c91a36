import lightgbm as lgb
import numpy as np
import optuna

import tally


class Objective:
    def __init__(self, rows=3000):
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(rows, 10))
        self.y = (self.X[:, 0] * self.X[:, 1] > rng.normal(size=rows)).astype(int)

    def __call__(self, trial):
        params = {
            "objective": "binary",
            "verbosity": -1,
            "num_threads": 1 if tally.fixed else 8,
            "num_leaves": trial.suggest_int("num_leaves", 4, 32),
            "learning_rate": trial.suggest_float("learning_rate", 1e-3, 0.3, log=True),
            "bagging_fraction": trial.suggest_float("bagging_fraction", 0.4, 1.0),
        }
        train = lgb.Dataset(self.X[:2000], self.y[:2000])
        model = lgb.train(params, train, num_boost_round=40)
        return float(np.mean((model.predict(self.X[2000:]) > 0.5) == self.y[2000:]))


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(Objective(), n_trials=1_000_000, callbacks=[lambda study, trial: tally.units()])
