"""Draws a few of the labelled programs, so that each class of truth and each kind of program has its share.

The strata come from the labels alone: a program's class, and its kind, see `kind`. A new program, or a new file of
them, needs no line here.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labels import Label

#: An empty stratum is worse than some that have one too many.
EMPTY = 4
#: Draws that are tried until one has every share; the best counts.
STARTS = 12
IN_PROCESS, LIBRARY = "in-process", "library"


def kind(label: Label) -> str:
    """Who feeds the loop, or what it waits for: the loop itself, another library than torch, else what the file of its
    entry is about: `loader_cases` are torch's workers, `chain_cases` threads and processes of the program's own,
    `rank_cases` several ranks, and so on."""
    if any(need.startswith("package=") for need in label.needs):
        return LIBRARY
    if label.cause == "in-process-loading":
        return IN_PROCESS
    return label.entry.partition(":")[0].removesuffix("_cases")


def strata(label: Label) -> tuple[str, str]:
    """The two that a program is in."""
    return f"class {label.klass}", f"kind {kind(label)}"


def draw(labels: list[Label], count: int, seed: int) -> list[Label]:
    """So many of the labels, in their order, the same for the same seed.

    A stratum's share is the part of the labels that is in it, times `count`. It gets between that rounded down and a
    half more rounded up, and one at least where `count` is enough for it. Drawn is at random, then exchanged one by one until that is so.
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
    """Exchanges as long as that brings the strata nearer to their bounds: how far off they still are, and the draw."""
    there = Counter(stratum for label in drawn for stratum in strata(label))

    def off(stratum: str, number: int) -> int:
        least, most = bounds[stratum]
        return EMPTY if number == 0 else max(least - number, number - most, 0) ** 2

    def gain(goes: tuple[str, str], comes: tuple[str, str]) -> int:
        changes = [(stratum, -1) for stratum in goes if stratum not in comes]
        changes += [(stratum, 1) for stratum in comes if stratum not in goes]
        return sum(off(stratum, there[stratum]) - off(stratum, there[stratum] + by) for stratum, by in changes)

    while True:
        # The first of each pair of strata stands for the others: which one that is, is chance.
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
    """The least and the most of `count` that each stratum is to get."""
    there = Counter(stratum for label in labels for stratum in strata(label))
    of_count = {stratum: count * number / len(labels) for stratum, number in there.items()}
    return {stratum: (max(1, math.floor(share)), math.ceil(share + 0.5)) for stratum, share in of_count.items()}


def about(labels: list[Label]) -> str:
    """How many of each stratum there are."""
    there = Counter(stratum for label in labels for stratum in strata(label))
    lines = []
    for which in ("class", "kind"):
        of = [(stratum.partition(" ")[2], number) for stratum, number in there.items() if stratum.startswith(which)]
        lines.append(f"{which:6}" + ", ".join(f"{name} {number}" for name, number in sorted(of, key=lambda one: -one[1])))
    return "\n".join(lines)
