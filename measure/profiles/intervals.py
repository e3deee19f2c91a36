"""Sets of time as sorted lists of intervals that neither touch nor overlap."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

#: Begin and end.
Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The time that any of these covers."""
    merged: list[Interval] = []
    for begin, end in sorted(one for one in intervals if one[0] < one[1]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def within(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """The parts of these inside the window."""
    clipped = ((max(begin, window[0]), min(end, window[1])) for begin, end in intervals)
    return [one for one in clipped if one[0] < one[1]]


def without(intervals: list[Interval], taken: list[Interval]) -> list[Interval]:
    """The time in `intervals` that is not in `taken`; both are unions."""
    left: list[Interval] = []
    at = 0
    for begin, end in intervals:
        while at < len(taken) and taken[at][1] <= begin:
            at += 1
        edges = [begin]
        for one in taken[at:]:
            if one[0] >= end:
                break
            edges += [max(one[0], begin), min(one[1], end)]
        edges.append(end)
        left += [edge for number, edge in enumerate(pairwise(edges)) if number % 2 == 0 and edge[0] < edge[1]]
    return left


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)
