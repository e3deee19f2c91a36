"""Keeps recordings of labeled workloads as tests. NAME.json, next to NAME.tmz, holds the truth about the run.

It holds the label's class and causes, and limits around the share of time spent waiting for data that the workload measured.
A recording with a different verdict is refused.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from workloads.labels import Label

#: The share of waiting that a verdict shows may lie this far from the workload's own.
WAIT_MARGIN = 0.08
#: Confidence may fall this far below the one at recording before the test fails.
CONFIDENCE_MARGIN = 0.1
#: Larger recordings are not kept.
LARGEST_KIB = 64


class Refused(Exception):
    """The recording does not match its label."""


def keep(label: Label, path: str, verdict: dict[str, Any], wait: float | None, duration: float, out: str) -> int:
    """Copies the recording at `path` and its truth into `out`; returns its size in bytes. Raises Refused."""
    truth = sidecar(label, verdict, wait, duration)
    content = Path(path).read_bytes()
    if len(content) > LARGEST_KIB * 1024:
        raise Refused(f"{len(content) / 1024:.0f} KiB are more than {LARGEST_KIB}")
    write(out, label.name, content, truth)
    return len(content)


def write(folder: str, name: str, recording: bytes, truth: dict[str, Any]) -> None:
    """Writes a recording, and the truth about it next to it."""
    os.makedirs(folder, exist_ok=True)
    Path(folder, f"{name}.tmz").write_bytes(recording)
    Path(folder, f"{name}.json").write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")


def sidecar(label: Label, verdict: dict[str, Any], wait: float | None, duration: float) -> dict[str, Any]:
    """The truth about a recorded run; raises Refused if the verdict is different."""
    if not label.holds(wait, None):
        raise Refused(f"the label does not hold: waited {wait:.2f} of the time")
    causes = [label.cause, *label.also_causes]
    said = f"{verdict['class']}/{verdict['cause']}"
    if verdict["class"] != label.klass or (label.cause is not None and verdict["cause"] not in causes):
        raise Refused(f"the verdict is {said}: {verdict['summary']}")
    bounds = wait_bounds(wait)
    if bounds is not None:
        seen = (verdict["shares"] or {}).get("input_wait")
        if seen is None or not bounds[0] <= seen <= bounds[1]:
            raise Refused(f"the verdict is {said}, but sees a wait of {seen} where the workload waited {wait:.2f}")
    return described(label, bounds, verdict, duration)


def wait_bounds(wait: float | None) -> list[float] | None:
    """Limits around the share of waiting that the workload measured."""
    return None if wait is None else [round(max(0.0, wait - WAIT_MARGIN), 2), round(min(1.0, wait + WAIT_MARGIN), 2)]


def described(label: Label, bounds: list[float] | None, verdict: dict[str, Any], duration: float) -> dict[str, Any]:
    """The truth about a run, in the form of its JSON file."""
    confidence = float(verdict["confidence"] or 0.0)
    return {
        "class": label.klass,
        "cause": label.cause,
        "also_causes": list(label.also_causes),
        "min_confidence": math.floor(max(0.0, confidence - CONFIDENCE_MARGIN) * 20) / 20,
        "input_wait": bounds,
        "source": f"workload {label.name}, {duration:g} s: {label.about}",
    }
