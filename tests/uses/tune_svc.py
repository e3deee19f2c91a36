import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import tally


def macro_f1(estimator, X, y):
    score = f1_score(y, estimator.predict(X), average="macro")
    tally.units()
    return score


def main():
    X, y = load_digits(return_X_y=True)
    X = np.tile(X, (2, 1)) + np.random.default_rng(0).normal(scale=2.0, size=(2 * len(X), X.shape[1]))
    y = np.tile(y, 2)
    grid = {"svc__C": np.logspace(-2, 3, 40), "svc__gamma": np.logspace(-5, 0, 40)}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, scoring=macro_f1, cv=5, n_jobs=2)
    search.fit(X, y)
    print(search.best_params_)


if __name__ == "__main__":
    main()
