"""Values, tables and foreign text as they are printed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def show(value: float | None, form: str = ".2f", missing: str = "-") -> str:
    """A value, or what stands for one that was not measured."""
    return missing if value is None else format(value, form)


def percentile(values: Iterable[float], share: float) -> float | None:
    """Nearest rank: the smallest value that at least this share of them do not exceed; None of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)] if ordered else None


def markdown(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """The lines of a Markdown table."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in (list(head), ["---"] * len(head), *cells)]


def printable(text: str, instead: str = " ") -> str:
    """Foreign text for a terminal: without control characters."""
    return "".join(letter if letter.isprintable() else instead for letter in text)
