"""Reads the truth that a workload wrote, and computes shares over any window of CLOCK_MONOTONIC time."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from workloads import stages


@dataclass(frozen=True)
class Step:
    """One step: when it asked for its batch, had it, and was done; and device and sync seconds up to then."""

    asked: float
    got: float
    done: float
    busy: float | None
    sync: float | None
    #: The longest time in it that the loop did not run, where it can tell.
    gap: float | None = None
    #: Seconds lost to what the label names, up to then; 0 where waiting for batches is the loss.
    lost: float = 0.0

    @property
    def wait(self) -> float:
        return self.got - self.asked


#: A wait belongs to a stall when it is at least this part of the long waits …
STALL_PART = 0.5
#: … which are found among this share of all waits; there must be this many of them.
LONG_SHARE, LONG_LEAST = 0.025, 3
#: Shorter waits than this are no stalls, seconds; nor are those that cost less than this share of the time.
STALL_LEAST_S, STALL_COST = 0.003, 0.05
#: This part of the distances between stalls must be the same.
STALL_REGULAR = 0.8


def stall_period(waits: list[float], seconds: float) -> int | None:
    """The N, 2 or more, of stalls that come every N-th step; None without such a rhythm. `seconds`: of all steps."""
    at_least = max(LONG_LEAST, int(len(waits) * LONG_SHARE))
    if len(waits) < 2 * at_least:
        return None
    long = sorted(waits, reverse=True)[at_least - 1]
    stalls = [number for number, wait in enumerate(waits) if wait >= STALL_PART * long]
    if long < STALL_LEAST_S or sum(waits[number] for number in stalls) < STALL_COST * seconds:
        return None
    distances = [after - before for before, after in zip(stalls, stalls[1:])]
    if len(distances) < LONG_LEAST:
        return None
    period = max(set(distances), key=distances.count)
    return period if period >= 2 and distances.count(period) >= STALL_REGULAR * len(distances) else None


@dataclass
class StageClock:
    """The seconds that one process has spent in each stage, at moments of CLOCK_MONOTONIC."""

    #: (moment, seconds so far by stage, the stage that begins then or "-"), in order of time.
    entries: list[tuple[float, tuple[float, ...], str]] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> StageClock:
        """The content of a file that stages.py writes; a torn last line is not there yet."""
        clock = cls()
        for line in text.split("\n")[:-1]:
            moment, *seconds, begins = line.split()
            clock.entries.append((float(moment), tuple(map(float, seconds)), begins))
        clock.entries.sort(key=lambda entry: entry[0])
        return clock

    @property
    def marked(self) -> bool:
        """Whether the data set marks stages at all: frameworks' and other people's do not."""
        return bool(self.entries) and any(self.entries[-1][1][: stages.NAMES.index("hand_over")])

    def _at(self, moment: float) -> list[float]:
        """Seconds by stage up to a moment. After the last line the stage that began there is taken to last."""
        before = self.entries[0]
        for entry in self.entries:
            if entry[0] >= moment:
                part = (moment - before[0]) / max(1e-9, entry[0] - before[0])
                return [was + (now - was) * max(0.0, part) for was, now in zip(before[1], entry[1])]
            before = entry
        return [
            seconds + (moment - before[0] if name == before[2] else 0.0)
            for name, seconds in zip(stages.NAMES, before[1])
        ]

    def shares(self, begin: float, end: float) -> dict[str, float] | None:
        """Share of the window by stage; None for a process that was there for less than three quarters of it."""
        if end <= begin or not self.entries or self.entries[0][0] > begin + (end - begin) / 4:
            return None
        first, last = self._at(max(begin, self.entries[0][0])), self._at(end)
        lived = end - max(begin, self.entries[0][0])
        return {name: (now - was) / lived for name, was, now in zip(stages.NAMES, first, last)}


@dataclass
class Truth:
    """The content of one truth file."""

    header: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    #: The last event of each name.
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Time by stage of each process that marked any, by PID.
    stages: dict[int, StageClock] = field(default_factory=dict)
    #: (moment, ends of the chain of waits that are right from then on), in order of time.
    culprits: list[tuple[float, list[dict[str, Any]]]] = field(default_factory=list)
    #: The thread that runs the loop, where that is not the main one.
    loop_tid: int | None = None

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
            elif "culprit" in entry:
                truth.culprits.append((entry["t"], entry["culprit"]))
            elif "loop_tid" in entry:
                truth.loop_tid = entry["loop_tid"]
            else:
                more = (entry.get("busy"), entry.get("sync"), entry.get("gap"), entry.get("lost", 0.0))
                truth.steps.append(Step(entry["a"], entry["b"], entry["c"], *more))
        return truth

    def read_stages(self, path: str) -> None:
        """Reads what the processes have noted beside the file at `path`: see stages.py."""
        folder, prefix = os.path.dirname(path), os.path.basename(path) + ".stages."
        for name in os.listdir(folder):
            if name.startswith(prefix):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.stages[int(name[len(prefix) :])] = StageClock.parse(file.read())

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

    def stall_period(self, begin: float, end: float) -> int | None:
        """Stalls come every so many steps, by the steps that lie in the window; None without such a rhythm."""
        inside = [step for step in self.steps if step.asked >= begin and step.done <= end]
        return stall_period([step.wait for step in inside], end - begin)

    def longest_gap(self, begin: float, end: float) -> float | None:
        """The longest time that the loop did not run, in seconds, in the window's steps; None if they cannot tell."""
        gaps = [step.gap for step in self.steps if step.gap and begin <= step.done and step.got <= end]
        return max(gaps, default=None)

    def culprits_in(self, begin: float, end: float) -> list[dict[str, Any]]:
        """All that were a true end of the chain at some moment of the window."""
        until = [moment for moment, _ends in self.culprits[1:]] + [float("inf")]
        spans = zip(self.culprits, until)
        return [one for (since, ends), to in spans if since <= end and to >= begin for one in ends]

    def _at(self, name: str, moment: float) -> float | None:
        """A growing value at a moment, on the line between the steps around it; at the ends, the nearest value."""
        before: tuple[float, float] | None = None
        for step in self.steps:
            value: float | None = getattr(step, name)
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

    def lost_share(self, begin: float, end: float) -> float | None:
        """Share of the time lost to what the label names, where that is no wait for batches."""
        return self._grown("lost", begin, end)
