"""Formats values, tables, and text from other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def show(value: float | None, form: str = ".2f", missing: str = "-") -> str:
    """Formats a value, or returns `missing` if it was not measured."""
    return missing if value is None else format(value, form)


def markdown(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """The lines of a Markdown table."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in (list(head), ["---"] * len(head), *cells)]


def printable(text: str, instead: str = " ") -> str:
    """Makes text from other programs safe for a terminal: replaces control characters."""
    return "".join(letter if letter.isprintable() else instead for letter in text)
