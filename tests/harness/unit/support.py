"""Helpers for the unit tests."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, TypeVar

from workloads.truth import Truth

T = TypeVar("T")


def known(value: T | None) -> T:
    """Unwraps a value that the test expects to exist."""
    assert value is not None
    return value


def written(lines: list[dict[str, Any]], tail: str = "") -> Truth:
    """Writes these lines to a truth file and reads it back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "truth.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
        return Truth.read(path)
