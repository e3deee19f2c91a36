"""Draws a stratified sample of the labeled programs, in which every class and every kind of program has its share.

The strata follow from the labels: a program's true class, and its kind (see `kind`). New programs, and new files of them, need no
change here.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.labels import Label

#: What an empty stratum costs: more than several strata that are off by one.
EMPTY = 4
#: How many random starts are tried until one satisfies every share; otherwise the best is used.
STARTS = 12
IN_PROCESS, LIBRARY = "in-process", "library"


def kind(label: Label) -> str:
    """Who feeds the loop: a library other than torch, the loop itself, or else whatever the file of its entry is about
    (`loader_cases`: torch's workers; `chain_cases`: the program's own threads and processes; `rank_cases`: several ranks).
    """
    if any(need.startswith("package=") for need in label.needs):
        return LIBRARY
    if label.cause == "in-process-loading":
        return IN_PROCESS
    return label.entry.partition(":")[0].removesuffix("_cases")


def strata(label: Label) -> tuple[str, str]:
    """The two strata that a program belongs to."""
    return f"class {label.klass}", f"kind {kind(label)}"


def draw(labels: list[Label], count: int, seed: int) -> list[Label]:
    """Draws `count` of the labels, kept in their order; the same seed always gives the same draw.

    A stratum's share is its part of all labels, times `count`; `shares` says what it should get. A random draw is
    improved by exchanging one program at a time until every stratum gets that.
    """
    if count >= len(labels):
        return list(labels)
    chance = random.Random(seed)
    bounds = shares(labels, count)
    best: tuple[int, list[Label]] | None = None
    for _ in range(STARTS):
        shuffled = list(labels)
        chance.shuffle(shuffled)
        found = _exchanged(shuffled[:count], shuffled[count:], bounds)
        if best is None or found[0] < best[0]:
            best = found
        if best[0] == 0:
            break
    assert best is not None
    names = {label.name for label in best[1]}
    return [label for label in labels if label.name in names]


def _exchanged(
    drawn: list[Label], left: list[Label], bounds: dict[str, tuple[int, int]]
) -> tuple[int, list[Label]]:
    """Exchanges programs while that brings the strata closer to their bounds; how far off they end up, and the draw."""
    there = Counter(stratum for label in drawn for stratum in strata(label))

    def off(stratum: str, number: int) -> int:
        least, most = bounds[stratum]
        return EMPTY if number < min(least, 1) else max(least - number, number - most, 0) ** 2

    def gain(goes: tuple[str, str], comes: tuple[str, str]) -> int:
        changes = [(stratum, -1) for stratum in goes if stratum not in comes]
        changes += [(stratum, 1) for stratum in comes if stratum not in goes]
        return sum(off(stratum, there[stratum]) - off(stratum, there[stratum] + by) for stratum, by in changes)

    while True:
        # Programs in the same two strata are interchangeable; the shuffle decides which of them comes first.
        goers = {strata(label): at for at, label in reversed(list(enumerate(drawn)))}
        comers = {strata(label): at for at, label in reversed(list(enumerate(left)))}
        best, goes, comes = max(
            ((gain(goes, comes), goers[goes], comers[comes]) for goes in goers for comes in comers),
            key=lambda swap: (swap[0], -swap[1], -swap[2]),
        )
        if best <= 0:
            return sum(off(stratum, there[stratum]) for stratum in bounds), drawn
        there.subtract(strata(drawn[goes]))
        there.update(strata(left[comes]))
        drawn[goes], left[comes] = left[comes], drawn[goes]


def shares(labels: list[Label], count: int) -> dict[str, tuple[int, int]]:
    """The fewest and the most programs that each stratum should get: its share rounded down, and half a program more
    than its share rounded up. Every class gets one at least, and every kind whose share is half a program or more."""
    there = Counter(stratum for label in labels for stratum in strata(label))
    bounds = {}
    for stratum, number in there.items():
        share = count * number / len(labels)
        # Many small kinds must not crowd out the large ones; there are only a few classes.
        least = 1 if stratum.startswith("class") or share >= 0.5 else 0
        bounds[stratum] = (max(least, math.floor(share)), math.ceil(share + 0.5))
    return bounds


def about(labels: list[Label]) -> str:
    """How many programs there are in each stratum, in two lines."""
    there = Counter(stratum for label in labels for stratum in strata(label))
    lines = []
    for which in ("class", "kind"):
        of = [(stratum.partition(" ")[2], number) for stratum, number in there.items() if stratum.startswith(which)]
        lines.append(f"{which:6}" + ", ".join(f"{name} {number}" for name, number in sorted(of, key=lambda one: -one[1])))
    return "\n".join(lines)
