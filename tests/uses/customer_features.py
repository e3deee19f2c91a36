import numpy as np
import pandas as pd

import tally


def longest_streak(days):
    longest = current = 1
    for before, after in zip(days, days[1:]):
        current = current + 1 if after - before == 1 else 1
        longest = max(longest, current)
    return longest


def features(orders):
    orders = orders.sort_values("day")
    gaps = orders["day"].diff().dropna()
    tally.units()
    return pd.Series({
        "orders": len(orders),
        "spent": orders["amount"].sum(),
        "gap": gaps.mean(),
        "streak": longest_streak(orders["day"].tolist()),
        "weekend": (orders["day"] % 7 >= 5).mean(),
    })


def main():
    rng = np.random.default_rng(0)
    while True:
        orders = pd.DataFrame({"customer": rng.integers(0, 4000, 200_000), "day": rng.integers(0, 365, 200_000), "amount": rng.gamma(2, 20, 200_000)})
        table = orders.groupby("customer")[["day", "amount"]].apply(features)
        print(table.describe().loc["mean"].round(2).to_dict(), flush=True)


if __name__ == "__main__":
    main()
