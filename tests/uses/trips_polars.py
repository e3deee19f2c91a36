import math

import numpy as np
import polars as pl

import tally


def distance_km(trip):
    a, b = math.radians(trip["lat1"]), math.radians(trip["lat2"])
    dlat, dlon = b - a, math.radians(trip["lon2"] - trip["lon1"])
    h = math.sin(dlat / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(dlon / 2) ** 2
    return 12742 * math.asin(math.sqrt(h))


def expression():
    a, b = pl.col("lat1").radians(), pl.col("lat2").radians()
    dlon = (pl.col("lon2") - pl.col("lon1")).radians()
    h = ((b - a) / 2).sin() ** 2 + a.cos() * b.cos() * (dlon / 2).sin() ** 2
    return 12742 * h.sqrt().arcsin()


rng = np.random.default_rng(4)
zones = rng.integers(0, 200, 50_000)
while True:
    places = {name: rng.uniform(40, 41, 50_000) for name in ("lat1", "lon1", "lat2", "lon2")}
    trips = pl.DataFrame({"zone": zones, **places})
    with tally.part("distances"):
        km = expression() if tally.fixed else pl.struct("lat1", "lon1", "lat2", "lon2").map_elements(distance_km, return_dtype=pl.Float64)
        trips = trips.with_columns(km=km)
    means = trips.group_by("zone").agg(pl.col("km").mean(), pl.len()).sort("km")
    tally.units(len(trips))
