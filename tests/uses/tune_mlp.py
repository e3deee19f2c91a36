import warnings

from scipy.stats import loguniform, randint
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV
from sklearn.neural_network import MLPClassifier

import tally

warnings.filterwarnings("ignore")


def accuracy(model, images, digits):
    tally.units()
    return model.score(images, digits)


images, digits = load_digits(return_X_y=True)
space = {"alpha": loguniform(1e-6, 1e-1), "learning_rate_init": loguniform(1e-4, 1e-2), "hidden_layer_sizes": [(16,), (32,)], "batch_size": randint(32, 64)}
workers = 2 if tally.fixed else None
while True:
    search = RandomizedSearchCV(MLPClassifier(max_iter=3), space, n_iter=60, cv=3, scoring=accuracy, n_jobs=workers)
    search.fit(images / 16, digits)
    print(search.best_score_, search.best_params_, flush=True)
