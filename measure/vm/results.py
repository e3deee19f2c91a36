"""Compares the results from the guests with what was expected, and makes the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .environments import Environment
from .machine import printable

#: A wrong verdict this sure is the worst that can happen.
SURE = 0.8
#: Doctor's findings that tell what an environment lets one see.
TELLING = ("rights", "yama", "processes", "pressure", "cgroup", "syscall", "io", "wchan", "stacks", "delays")
#: Columns of the log that each job here fills, and the least rows.
LOGGED = (
    "timestamp", "elapsed_s", "pid", "phase", "class", "confidence", "input_wait_pct", "device_sync_pct", "host_busy_pct",
    "gpu_util_pct", "gpu_mem_used_mib", "gpu_power_w", "cpu_util_pct", "cpus_allowed", "job_cpu_pct", "run_delay_pct",
    "psi_cpu_some_pct", "psi_io_some_pct", "psi_memory_some_pct", "mem_used_mib", "mem_available_mib", "job_rss_mib", "workers",
    "workers_busy_pct", "job_read_mib_s", "major_faults_per_s", "self_cpu_pct", "self_rss_mib", "gpu0_index", "gpu0_uuid", "gpu0_util_pct",
    "waits_for",
)  # fmt: skip
LEAST_ROWS = 5
HEADINGS = ("environment", "seen", "verdict", "expected", "waits for batches, said and true", "right")


@dataclass(frozen=True)
class Row:
    """One row: what was seen and said, and whether that is right; none where nothing came back."""

    name: str
    what: str
    seen: str
    verdict: str
    expected: str
    right: bool | None
    #: Share of the loop's time spent waiting for batches, as the verdict and as the job says.
    waits: str = "–"
    #: What is wrong, in words.
    why: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        right = {True: "yes", False: "no", None: "–"}[self.right]
        return (f"{self.name}: {self.what}", self.seen, self.verdict, self.expected, self.waits, "; ".join([right, *self.why]))


def expected(environment: Environment) -> str:
    _job, classes, causes = environment.job
    text = f"{'|'.join(classes)}/{' '.join(causes)}"
    return text + (" or unknown" if environment.may_not_know else "")


def said(verdict: dict[str, Any]) -> str:
    sure = verdict.get("confidence")
    return printable(
        f"{verdict.get('class')}/{verdict.get('cause') or '–'} {sure:.2f}" if isinstance(sure, float | int) else "no verdict"
    )


def right(environment: Environment, verdict: dict[str, Any]) -> bool:
    """Whether the verdict is one of those expected."""
    _job, classes, causes = environment.job
    if verdict.get("class") == "unknown":
        return environment.may_not_know
    return verdict.get("class") in classes and verdict.get("cause") in causes


def advised_workers(verdict: dict[str, Any]) -> int | None:
    """The number of workers that the first advice with one wants."""
    for advice in verdict.get("advice") or []:
        found = re.search(r"num_workers from \d+ to (\d+)", str(advice.get("title")))
        if found:
            return int(found[1])
    return None


def unseen(environment: Environment, doctor: dict[str, Any]) -> list[str]:
    """What doctor should have found and did not, in words."""
    wrong = []
    for what, (state, *parts) in environment.seen.items():
        found = doctor.get(what)
        if not isinstance(found, list) or found[0] != state:
            wrong.append(f"doctor's {what} is {found[0] if isinstance(found, list) else 'missing'}, not {state}")
        elif any(part not in found[1] for part in parts):
            wrong.append(f"doctor's {what} says {found[1]!r}")
    return [printable(text) for text in wrong]


def unnamed(environment: Environment, verdict: dict[str, Any]) -> list[str]:
    """The function that the verdict should name and does not, in words."""
    said = " ".join([str(verdict.get("summary")), *(str(link.get("at")) for link in verdict.get("chain") or [])])
    return [f"names no {environment.function}"] if environment.function and environment.function not in said else []


def unlogged(environment: Environment, log: Any) -> list[str]:
    """What is missing in the log, in words."""
    if not environment.logged:
        return []
    if not isinstance(log, dict) or "filled" not in log:
        return [printable(f"no log: {log.get('error') if isinstance(log, dict) else 'nothing came back'}")]
    empty = [name for name in LOGGED if name not in log["filled"]]
    wrong = [f"empty in the log: {', '.join(empty)}"] if empty else []
    return wrong + ([f"{log['rows']} rows in the log"] if log["rows"] < LEAST_ROWS else [])


def seen(line: dict[str, Any]) -> str:
    """The rights in a few words: what doctor did not find in order, and what the verdict did without."""
    doctor = line.get("doctor") or {}
    limited = [f"{what} {doctor[what][0]}" for what in TELLING if what in doctor and doctor[what][0] != "ok"]
    sources = (line.get("verdict") or {}).get("seen") or {}
    missing = [f"{name} {state}" for name, state in sources.items() if state not in ("ok", "v2", "v1")]
    texts = list(dict.fromkeys(limited + missing))
    return printable(", ".join(texts) if texts else "all", 200)


def waits(line: dict[str, Any]) -> str:
    """The two shares in percent; a dash for one that is not known."""
    told = ((line.get("verdict") or {}).get("shares") or {}).get("input_wait")
    true = (line.get("truth") or {}).get("wait")
    both = [f"{share:.0%}" if isinstance(share, float | int) else "–" for share in (told, true)]
    return ", ".join(both)


def row(environment: Environment, line: dict[str, Any] | None, why: str | None = None) -> Row:
    """The environment's row. `line` is what its guest printed of it, `why` the reason where there is none."""
    name, what, wanted = environment.name, environment.what, expected(environment)
    if line is None:
        return Row(name, what, "–", "–", wanted, None, why=(printable(why or "nothing came back"),))
    for reason in ("skipped", "error"):
        if line.get(reason):
            text = printable(str(line[reason]).strip().splitlines()[-1])
            return Row(name, what, "–", "–", wanted, None, why=(f"{reason}: {text}",))
    verdict = line.get("verdict")
    if not isinstance(verdict, dict):
        message = printable(str(line.get("message") or "no message"))
        return Row(name, what, seen(line), f"exit status {line.get('rc')}", wanted, False, why=(message,))
    wrong = []
    if not right(environment, verdict):
        sure = verdict.get("confidence") or 0
        wrong.append("sure and wrong" if sure >= SURE else "another verdict")
    advised = advised_workers(verdict)
    if environment.workers_at_most is not None and advised is not None and advised > environment.workers_at_most:
        wrong.append(f"advises {advised} workers, more than {environment.workers_at_most}")
    wrong += unseen(environment, line.get("doctor") or {})
    wrong += unnamed(environment, verdict) + unlogged(environment, line.get("log"))
    return Row(name, what, seen(line), said(verdict), wanted, not wrong, waits(line), tuple(wrong))


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table, its columns filled up so that it reads well in a terminal."""
    cells = [HEADINGS, *(tuple(cell.replace("|", "/") for cell in one.cells()) for one in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
