"""Helpers for the unit tests."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any, TypeVar

from workloads.truth import Truth

T = TypeVar("T")


class InFolder(unittest.TestCase):
    """Tests that each have an empty folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def executable(self, name: str, text: str) -> str:
        """Writes a script into the folder; its path."""
        path = Path(self.folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return str(path)


def known(value: T | None) -> T:
    """Unwraps a value that the test expects to exist."""
    assert value is not None
    return value


def written(lines: list[dict[str, Any]], tail: str = "") -> Truth:
    """Writes these lines to a truth file and reads it back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "truth.jsonl")
        Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")
        return Truth.read(path)
