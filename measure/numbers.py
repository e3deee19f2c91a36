"""Means and percentiles of measurements. Values that were not measured are None and do not count."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """None if nothing was measured; so are the others."""
    measured = known(values)
    return statistics.fmean(measured) if measured else None


def median(values: Iterable[float | None]) -> float | None:
    measured = known(values)
    return statistics.median(measured) if measured else None


def percentile(values: Iterable[float | None], share: float) -> float | None:
    """By nearest rank: the smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(known(values))
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)] if ordered else None
