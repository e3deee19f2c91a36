"""The tables of the check, as Markdown and JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from measure.text import markdown, show

from .beside import Watched
from .readings import AGREES, DIFFERS, Compared


@dataclass
class Report:
    """What was found."""

    environment: dict[str, Any] = field(default_factory=dict)
    readings: list[Compared] = field(default_factory=list)
    programs: list[Watched] = field(default_factory=list)
    #: A call of NVML, its median, and the longest or the answer.
    costs: list[tuple[str, str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every check was made and passed. Readings of which none agrees are no check."""
        outcomes = {row.outcome for row in self.readings}
        right = bool(self.programs) and all(row.passed for row in self.programs)
        return AGREES in outcomes and DIFFERS not in outcomes and right and not self.failures

    @property
    def of_readings(self) -> str:
        counts = {outcome: sum(row.outcome == outcome for row in self.readings) for outcome in (AGREES, DIFFERS)}
        others = len(self.readings) - sum(counts.values())
        return f"{counts[AGREES]} readings agree, {counts[DIFFERS]} differ, {others} not offered"

    @property
    def sentence(self) -> str:
        right, sure_and_wrong = (sum(getattr(row, what) for row in self.programs) for what in ("passed", "sure_and_wrong"))
        return f"{self.of_readings}; {right} of {len(self.programs)} programs right, {sure_and_wrong} wrong and sure."

    @property
    def title(self) -> str:
        if self.environment["simulated"]:
            return "# trainmon on a SIMULATED device: fake NVML library and fake nvidia-smi, no GPU was there"
        devices = dict.fromkeys(filter(None, self.environment["devices"]))
        return f"# trainmon on {', '.join(devices) or 'a device without a name'}"

    def markdown(self) -> str:
        lines = [self.title, "", self.sentence, ""]
        lines += [f"- {failure}" for failure in self.failures] + ([""] if self.failures else [])
        lines += markdown(("environment", ""), self.environment_rows())
        lines += ["", "## Readings", "", "The last values seen; compared over all looks, idle and working.", ""]
        lines += markdown(
            ("device", "reading", "trainmon", "nvidia-smi", "agrees", "median distance", "note"),
            (
                (row.device, row.reading, row.ours, row.theirs, row.outcome,
                 ", ".join(f"{phase} {far:g}" for phase, far in row.distances.items()) or "–", row.note)
                for row in self.readings
            ),
        )  # fmt: skip
        lines += ["", "## Programs", ""]
        lines += markdown(
            ("program", "truth", "said", "confidence", "right", "device idle, true", "seen", "waits for batches, true", "seen", "CPUs of others", "note"),
            (
                (row.program, row.truth, row.said, show(row.confidence, missing="–"),
                 "yes" if row.passed else "NO", percent(row.idle_true), percent(row.idle_seen), percent(row.wait_true),
                 percent(row.wait_seen), show(row.cores_of_others, "g", "–"), row.why_not)
                for row in self.programs
            ),
        )  # fmt: skip
        if self.costs:
            lines += ["", "## What calls of NVML cost", ""]
            lines += markdown(("call", "median", "longest or answer"), self.costs)
        return "\n".join(lines) + "\n"

    def environment_rows(self) -> list[tuple[str, Any]]:
        said = {key: "–" if value is None else value for key, value in self.environment.items()}
        return [(key, ", ".join(map(str, value)) if isinstance(value, list) else value) for key, value in said.items()]

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "passed": self.passed,
            "failures": self.failures,
            "readings": [vars(row) for row in self.readings],
            "programs": [row.as_json() for row in self.programs],
            "calls": [{"call": name, "median": median, "more": more} for name, median, more in self.costs],
        }


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
