"""Asks the example program `contradictions` whether the numbers of a verdict agree with each other.

It is built together with trainmon. It reads verdicts, one JSON object per line, and prints a JSON array of sentences for each: one
per contradiction, empty if the verdict agrees with itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

#: It takes milliseconds; on a busy machine longer.
PATIENCE_S = 20.0


def checker(program: str) -> str | None:
    """The checker of this build of trainmon; None if it was not built."""
    path = os.path.join(os.path.dirname(os.path.abspath(program)), "examples", "contradictions")
    return path if os.access(path, os.X_OK) else None


def find(program: str, verdict: dict[str, Any]) -> list[str] | None:
    """The contradictions in a verdict; None if the build has no checker, or the checker does not answer."""
    path = checker(program)
    if path is None:
        return None
    line = json.dumps(verdict) + "\n"
    try:
        done = subprocess.run(
            [path], input=line, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=True
        )  # fmt: skip
        (answer,) = done.stdout.splitlines()
        found = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return [str(one) for one in found] if isinstance(found, list) else None
