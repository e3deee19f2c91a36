"""What several tests share."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, TypeVar

from workloads.truth import Truth

T = TypeVar("T")


def known(value: T | None) -> T:
    """A value that must be there."""
    assert value is not None
    return value


def written(lines: list[dict[str, Any]], tail: str = "") -> Truth:
    """The truth of a file with these lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "truth.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
        return Truth.read(path)
