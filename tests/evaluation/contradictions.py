"""Whether the numbers of a verdict agree with each other: asked of the example program `contradictions`.

It lies beside trainmon's own build. It reads verdicts, a JSON object a line, and answers each with a line: a JSON
array of what does not agree in it, as sentences, empty where everything does.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

#: It only computes; a machine busy with other things makes that longer.
PATIENCE_S = 20.0


def checker(program: str) -> str | None:
    """The checker of the same build as a trainmon; None where it was not built."""
    path = os.path.join(os.path.dirname(os.path.abspath(program)), "examples", "contradictions")
    return path if os.access(path, os.X_OK) else None


def of(program: str, verdict: dict[str, Any]) -> list[str] | None:
    """What does not agree in a verdict; None where the checker of that build is missing, or gives no answer."""
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
