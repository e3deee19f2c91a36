import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_score

import tally

optuna.logging.set_verbosity(optuna.logging.WARNING)
X, y = load_breast_cancer(return_X_y=True)


def objective(trial):
    model = ExtraTreesClassifier(
        n_estimators=trial.suggest_int("n_estimators", 20, 60),
        max_depth=trial.suggest_int("max_depth", 4, 24),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 8),
    )
    return cross_val_score(model, X, y, cv=3).mean()


def count(study, trial):
    tally.units()


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(objective, n_trials=100_000, callbacks=[count])
print(study.best_params)
