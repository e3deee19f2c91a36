"""Out-of-bag error against the number of trees, after scikit-learn's example."""
import itertools

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import tally

X, y = make_classification(n_samples=12_000, n_features=30, n_informative=12, random_state=7)
errors = []

for seed in itertools.count():
    forest = RandomForestClassifier(warm_start=True, oob_score=False, max_features="sqrt", random_state=seed, n_jobs=2 if tally.fixed else None)
    for trees in range(10, 201, 10):
        forest.set_params(n_estimators=trees)
        forest.fit(X, y)
        tally.units(10)
    errors.append(1 - forest.score(X[:500], y[:500]))
    print(f"seed {seed}: {np.mean(errors):.4f}", flush=True)
