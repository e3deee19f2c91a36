"""Reads the truth that a workload wrote, and computes shares over any window of CLOCK_MONOTONIC time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step: when it asked for its batch, had it, and was done; and device and sync seconds up to then."""

    asked: float
    got: float
    done: float
    busy: float | None
    sync: float | None


@dataclass
class Truth:
    """The content of one truth file."""

    header: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    #: The last event of each name.
    events: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Truth:
        """Reads a file that may still be written: a torn last line and a missing file count as not yet there."""
        truth = cls()
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return truth
        for line in text.split("\n")[:-1]:
            entry = json.loads(line)
            if "workload" in entry:
                truth.header = entry
            elif "event" in entry:
                truth.events[entry["event"]] = entry
            else:
                truth.steps.append(Step(entry["a"], entry["b"], entry["c"], entry.get("busy"), entry.get("sync")))
        return truth

    def wait_share(self, begin: float, end: float) -> float | None:
        """Share of the window spent waiting for batches; None when no step lies in it.

        After the last step that was noted the loop is taken to wait still: it asked at once for the next batch.
        """
        if end <= begin or not self.steps:
            return None
        waited = sum(max(0.0, min(step.got, end) - max(step.asked, begin)) for step in self.steps)
        waited += max(0.0, end - max(self.steps[-1].done, begin))
        return waited / (end - begin)

    def steps_per_s(self, begin: float, end: float) -> float | None:
        """Steps a second, with the parts of steps at the window's ends."""
        count = 0.0
        for step in self.steps:
            inside = min(step.done, end) - max(step.asked, begin)
            if inside > 0:
                count += min(1.0, inside / max(1e-9, step.done - step.asked))
        return count / (end - begin) if end > begin and self.steps else None

    def _at(self, name: str, moment: float) -> float | None:
        """A growing value at a moment, on the line between the steps around it; at the ends, the nearest value."""
        before = None
        for step in self.steps:
            value = getattr(step, name)
            if value is None:
                return None
            if step.done >= moment:
                if before is None:
                    return value
                then, was = before
                return was + (value - was) * (moment - then) / max(1e-9, step.done - then)
            before = (step.done, value)
        return before[1] if before else None

    def _grown(self, name: str, begin: float, end: float) -> float | None:
        first, last = self._at(name, begin), self._at(name, end)
        return None if first is None or last is None or end <= begin else (last - first) / (end - begin)

    def busy_share(self, begin: float, end: float) -> float | None:
        """Share of the time in which the device worked for the job."""
        return self._grown("busy", begin, end)

    def sync_share(self, begin: float, end: float) -> float | None:
        """Share of the time that the main thread waited for the device."""
        return self._grown("sync", begin, end)
