"""Trains a small model anew on the newest export, as often as it can."""
import csv
import tempfile
from datetime import datetime

import lightgbm as lgb
import numpy as np

import tally


def export(path, rows=30_000):
    rng = np.random.default_rng(8)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        for second in range(rows):
            values = rng.normal(size=6)
            writer.writerow([datetime.fromtimestamp(1.7e9 + second).isoformat(), *(f"{value:.5f}" for value in values)])


def load(path):
    rows, targets = [], []
    with open(path, newline="") as file:
        for when, *values in csv.reader(file):
            moment = datetime.strptime(when, "%Y-%m-%dT%H:%M:%S")
            numbers = [float(value) for value in values]
            rows.append([moment.hour, moment.weekday(), *numbers[:-1]])
            targets.append(numbers[-1])
    return np.array(rows), np.array(targets)


path = tempfile.mktemp(suffix=".csv")
export(path)
while True:
    with tally.part("loading"):
        X, y = load(path)
    model = lgb.train({"num_leaves": 15, "num_threads": 1, "verbosity": -1}, lgb.Dataset(X, y), num_boost_round=10)
    tally.units(10)
