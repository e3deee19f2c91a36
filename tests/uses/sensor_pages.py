import os
import tempfile

import numpy as np
import pandas as pd
import xgboost as xgb

import tally


class SensorFiles(xgb.DataIter):
    """Reads a day of sensor values at a time, and makes rolling features of them."""

    def __init__(self, paths):
        self.paths, self.at = paths, 0
        super().__init__()

    def features(self, path):
        table = pd.read_csv(path)
        rolled = table.groupby("sensor")["value"].rolling(20, min_periods=1).apply(lambda window: window[-1] - window.mean(), raw=True)
        table["drift"] = rolled.reset_index(level=0, drop=True)
        return table

    def next(self, input_data):
        if self.at == len(self.paths):
            return False
        with tally.part("loading"):
            table = self.features(self.paths[self.at])
        input_data(data=table[["sensor", "value", "drift"]], label=table["fault"])
        self.at += 1
        return True

    def reset(self):
        self.at = 0


def write_days(folder, days=4, rows=4000):
    rng = np.random.default_rng(2)
    for day in range(days):
        sensor, value = rng.integers(0, 40, rows), rng.normal(size=rows)
        pd.DataFrame({"sensor": sensor, "value": value, "fault": value > 1}).to_csv(os.path.join(folder, f"{day}.csv"), index=False)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


paths = write_days(tempfile.mkdtemp())
while True:
    data = xgb.QuantileDMatrix(SensorFiles(paths), max_bin=64, nthread=1)
    booster = xgb.train({"max_depth": 4, "max_bin": 64, "nthread": 1}, data, num_boost_round=10)
    tally.units(10)
