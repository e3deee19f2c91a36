"""The tables of the check, as Markdown and JSON. Pure."""

from __future__ import annotations

from typing import Any

from harness.text import markdown as table
from harness.text import show

from .beside import Watched
from .readings import AGREES, DIFFERS, Compared


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def passed(readings: list[Compared], programs: list[Watched], failures: list[str]) -> bool:
    """Whether every check was made and passed. Readings of which none agrees are no check."""
    compared = any(row.outcome == AGREES for row in readings) and all(row.outcome != DIFFERS for row in readings)
    return compared and bool(programs) and all(row.passed for row in programs) and not failures


def sentence(readings: list[Compared], programs: list[Watched]) -> str:
    counts = {outcome: sum(row.outcome == outcome for row in readings) for outcome in (AGREES, DIFFERS)}
    right = sum(row.passed for row in programs)
    return (
        f"{counts[AGREES]} readings agree, {counts[DIFFERS]} differ, {len(readings) - sum(counts.values())} not offered; "
        f"{right} of {len(programs)} programs right, {sum(row.sure_and_wrong for row in programs)} wrong and sure."
    )


def title(environment: dict[str, Any]) -> str:
    if environment["simulated"]:
        return "# trainmon on a SIMULATED device: fake NVML library and fake nvidia-smi, no GPU was there"
    return f"# trainmon on {', '.join(dict.fromkeys(filter(None, environment['devices']))) or 'a device without a name'}"


def markdown(
    environment: dict[str, Any], readings: list[Compared], programs: list[Watched], costs: list[tuple[str, str, str]],
    failures: list[str],
) -> str:  # fmt: skip
    """The whole report."""
    said = {key: "–" if value is None else value for key, value in environment.items()}
    lines = [title(environment), "", sentence(readings, programs), ""]
    lines += [f"- {failure}" for failure in failures] + ([""] if failures else [])
    lines += table(("environment", ""), ((key, ", ".join(map(str, value)) if isinstance(value, list) else value) for key, value in said.items()))
    lines += ["", "## Readings", "", "The last values seen; compared over all looks, idle and working.", ""]
    lines += table(
        ("device", "reading", "trainmon", "nvidia-smi", "agrees", "median distance", "note"),
        (
            (row.device, row.reading, row.ours, row.theirs, row.outcome,
             ", ".join(f"{phase} {far:g}" for phase, far in row.distances.items()) or "–", row.note)
            for row in readings
        ),
    )  # fmt: skip
    lines += ["", "## Programs", ""]
    lines += table(
        ("program", "truth", "said", "confidence", "right", "device idle, true", "seen", "waits for batches, true", "seen", "CPUs of others", "note"),
        (
            (row.program, row.truth, row.said, show(row.confidence, missing="–"),
             "yes" if row.passed else "NO", percent(row.idle_true), percent(row.idle_seen), percent(row.wait_true),
             percent(row.wait_seen), "–" if row.cores_of_others is None else row.cores_of_others, row.why_not)
            for row in programs
        ),
    )  # fmt: skip
    if costs:
        lines += ["", "## What calls of NVML cost", ""]
        lines += table(("call", "median", "longest or answer"), costs)
    return "\n".join(lines) + "\n"


def as_json(
    environment: dict[str, Any], readings: list[Compared], programs: list[Watched], costs: list[tuple[str, str, str]],
    failures: list[str],
) -> dict[str, Any]:  # fmt: skip
    return {
        "environment": environment,
        "passed": passed(readings, programs, failures),
        "failures": failures,
        "readings": [vars(row) for row in readings],
        "programs": [row.as_json() for row in programs],
        "calls": [{"call": name, "median": median, "more": more} for name, median, more in costs],
    }
