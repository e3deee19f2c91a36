"""Compares trainmon's account of torch.profiler traces with a plain account of the same files.

    cargo build --release
    python measure profiles DIR                            every trace in DIR; the plain account is measure/profiles/reference.py
    python measure profiles DIR --against FILE.jsonl       the plain account is in a file, one row of JSON for each trace
    python measure profiles --speed 100 10gz 1000          a made-up trace of 100 MB, one of 10 MB of gzip, one of 1 GB
    python measure profiles --hostile                      damaged files, bombs, and times that cannot be

Prints both rows of each trace, and under them what differs: a share by more than 0.5 points of the window, or a count. Fails if
anything does.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from measure import options
from measure.paths import TRAINMON
from measure.profiles import hostile, speed
from measure.profiles.reference import SHARES, NotATrace, account
from measure.profiles.run import Ran, diagnose
from measure.text import show

NAME = "measure profiles"
#: Shares may differ by so many points of the window; the reader of a file may take so long.
POINTS = 0.5
PATIENCE_S = 120.0
IDLE_BY = ("input_wait", "sync", "launch", "operator", "python")
#: Share of the row, title and width of its column.
COLUMNS = (
    *((name, title, 8) for name, title in zip(SHARES, ("busy", "compute", "comm.", "exposed", "copy"))),
    *((f"idle_by.{name}", title, 9) for name, title in zip(IDLE_BY, ("| input", "sync", "launch", "operator", "python"))),
    ("input_wait", "| loop: input", 15), ("sync", "sync", 7),
)  # fmt: skip


def rows_of(path: str) -> dict[str, Any] | None:
    """The plain account of a file; None if it is not a trace."""
    try:
        return account(path)
    except NotATrace:
        return None


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its nested parts: `idle_by.sync`, `copy host-to-device pageable: bytes`, `cudaStreamSynchronize: count`."""
    found = {key: value for key, value in row.items() if not isinstance(value, (dict, list))}
    found |= {f"idle_by.{reason}": value for reason, value in row.get("idle_by", {}).items()}
    for copy in row.get("copies", []):
        kind = {True: " pageable", False: " pinned", None: ""}[copy["pageable"]]
        found |= {f"copy {copy['direction'] or 'other'}{kind}: {key}": copy[key] for key in ("count", "bytes", "ms")}
    for sync in row.get("syncs", []):
        found |= {f"{sync['call']}: {key}": sync[key] for key in ("count", "wait_ms")}
    return found


def told(profile: dict[str, Any], device: Any) -> dict[str, Any]:
    """trainmon's account as a row of the reference: of the device that the reference is about, else of the one with most kernels."""
    devices = profile.get("devices") or []
    if not devices:
        return {"device": None}
    same = [one for one in devices if str(one["index"]) == str(device)]
    chosen = (same or sorted(devices, key=lambda one: -(one["kernels"] or 0)))[0]
    syncs: dict[str, dict[str, Any]] = {}
    for one in profile.get("syncs") or []:
        # A copy that blocks waits as well; the reference has it among the copies.
        if not one.get("copies"):
            sync = syncs.setdefault(one["call"], {"call": one["call"], "count": 0, "wait_ms": 0.0})
            sync["count"] += one["count"]
            sync["wait_ms"] += one["wait_ms"]
    return {
        "window_ms": profile["window_ms"],
        # The reference knows steps that the profiler was told of, and no others.
        "steps": profile["steps"] if profile.get("steps_by") in (None, "profiler-step") else 0,
        "device": chosen["index"],
        **{key: chosen[key] for key in (*SHARES, "idle_by", "kernels", "median_kernel_us")},
        **{key: (profile["loop"] or {}).get(key) for key in ("input_wait", "sync")},
        "copies": profile.get("copies") or [],
        "syncs": list(syncs.values()),
    }


@dataclass(frozen=True)
class Difference:
    """One figure, as trainmon has it and as the reference has it."""

    name: str
    told: Any
    expected: Any
    #: Points of the window, for a share.
    points: float | None
    matters: bool

    def line(self) -> str:
        if self.points is not None:
            return f"{self.name}: {100 * self.told:.2f}%, not {100 * self.expected:.2f}%"
        return f"{self.name}: {self.told}, not {self.expected}"


def differences(ours: dict[str, Any], reference: dict[str, Any]) -> list[Difference]:
    """Every figure that the reference has, the shares among them even if they agree."""
    ours, expected = flat(ours), flat(reference)
    shares = {name for name, _, _ in COLUMNS}
    window_ms = expected.get("window_ms") or 0.0
    # A group of copies or calls that only trainmon has.
    names = [*expected, *(name for name in ours if ":" in name and any(":" in one for one in expected) and name not in expected)]
    found = []
    for name in names:
        was, should = ours.get(name), expected.get(name)
        if name in shares and was is not None and should is not None:
            points = 100 * abs(was - should)
            found.append(Difference(name, was, should, points, points > POINTS))
        elif name != "file" and not same(name, was, should, window_ms):
            found.append(Difference(name, was, should, None, True))
    return found


def same(name: str, was: Any, should: Any, window_ms: float) -> bool:
    """Whether two figures agree. Times may differ by what rounding does to them, and those of groups by as much as a share."""
    if was is None or should is None:
        # A group that only one has agrees if it took no time that matters.
        missing = was if should is None else should
        return was is should or (name.endswith("ms") and missing <= window_ms * POINTS / 100)
    if name == "device":
        return str(was) == str(should)
    if name == "median_kernel_us":
        # The reference may have computed with floats, whose step is a quarter of a microsecond at today's time in microseconds.
        return bool(abs(was - should) <= max(0.25, 0.002 * should))
    if name == "window_ms":
        return bool(abs(was - should) <= max(0.002, 0.001 * should))
    if name.endswith("ms"):
        return bool(abs(was - should) <= window_ms * POINTS / 100)
    return abs(float(was) - float(should)) < 0.5


def cells(row: dict[str, Any]) -> str:
    of_row = flat(row)
    shares = "".join(f"{show(None if of_row.get(name) is None else 100 * of_row[name], '.2f'):>{width}}" for name, _, width in COLUMNS)
    return f"{shares} {of_row.get('kernels') or 0:9} {show(of_row.get('median_kernel_us')):>8}"


HEAD = " " * 12 + "".join(f"{title:>{width}}" for _, title, width in COLUMNS) + f" {'| kernels':>9} {'median us':>8}"


def headline(file: str, ran: Ran, row: dict[str, Any] | None) -> str:
    """What trainmon answered, in one line."""
    cost = f"{ran.wall_s:.2f} s, {ran.peak_mib:.0f} MiB"
    if (verdict := ran.verdict()) is None:
        return f"{file}: refused ({cost}): {ran.message()}"
    advice = next((one["title"] for one in verdict.get("advice", [])), "no advice")
    about = f"{row['window_ms']:.1f} ms, {row['steps']} steps, GPU {row['device']}" if row and row["device"] is not None else "no GPU"
    if not verdict.get("class"):
        return f"{file}: {about} ({cost})\n  no verdict"
    cause = f"{verdict['class']}/{verdict['cause'] or '-'} {verdict['confidence']:.2f}"
    return f"{file}: {about} ({cost})\n  {cause}: {verdict['summary']}\n  {advice}"


def judged(path: str, ran: Ran, reference: dict[str, Any] | None) -> tuple[list[str], int]:
    """The lines of one file, and how many figures differ."""
    file = os.path.basename(path)
    verdict = ran.verdict()
    profile = (verdict or {}).get("profile")
    ours = told(profile, reference and reference["device"]) if profile else None
    lines = [headline(file, ran, ours)]
    if reference is None:
        # Whatever the file is, it is no trace: trainmon must say so.
        wrong = [f"it is no trace, but got a profile of {profile['window_ms']} ms"] if profile else []
    elif reference["device"] is None:
        wrong = ["no kernel in it, but it got a GPU"] if ours and ours["device"] is not None else []
        wrong += ["refused"] if verdict is None else []
    elif ours is None:
        wrong = ["no profile, but the reference has one"]
    else:
        found = differences(ours, reference)
        wrong = [one.line() for one in found if one.matters]
        largest = max((one.points for one in found if one.points is not None), default=0.0)
        lines += [f"  trainmon  {cells(ours)}", f"  reference {cells(reference)}   largest difference {largest:.2f} points"]
    return lines + [f"  DIFFERS {line}" for line in wrong], len(wrong)


def references(paths: list[str], against: str | None) -> Iterator[dict[str, Any] | None]:
    """The row of each file, from `against` if that is given."""
    if against is None:
        with ProcessPoolExecutor() as pool:
            yield from pool.map(rows_of, paths)
        return
    with open(against, encoding="utf-8") as file:
        rows = {os.path.basename(row["file"]): row for row in map(json.loads, file)}
    yield from (rows.get(os.path.basename(path)) for path in paths)


def compare(folder: str, trainmon: str, against: str | None) -> int:
    """Prints all files of a folder; whether any differs."""
    paths = sorted(entry.path for entry in os.scandir(folder) if entry.is_file() and entry.name.endswith((".json", ".gz")))
    runs = [diagnose(trainmon, path, PATIENCE_S) for path in paths]
    differ = 0
    print(f"{HEAD}\n  shares in percent of the window")
    for path, ran, reference in zip(paths, runs, references(paths, against)):
        lines, wrong = judged(path, ran, reference)
        differ += bool(wrong)
        print("\n" + "\n".join(lines), flush=True)
    print(f"\n{differ} of {len(paths)} files differ by more than {POINTS} points, or in a count")
    return 1 if differ else 0


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("folder", nargs="?", help="a folder with traces")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    parser.add_argument("--against", metavar="FILE.jsonl", help="rows of the plain account")
    parser.add_argument("--speed", nargs="*", metavar="MB", help="measure made-up traces of this size (default: 100 10gz 1000)")
    parser.add_argument("--hostile", action="store_true", help="feed it damaged files")
    parser.add_argument("--keep", metavar="DIR", help="keep made-up traces here")
    given = parser.parse_args(words)
    if not os.path.exists(given.trainmon):
        return options.failed(NAME, f"{given.trainmon} not found; build it: cargo build --release")
    return chosen(given)


def chosen(given: argparse.Namespace) -> int:
    options.end_as_interrupted()
    try:
        if given.speed is not None:
            return speed.measure(given.speed or list(speed.SIZES), given.trainmon, given.keep)
        if given.hostile:
            return hostile.report(given.trainmon)
        if given.folder:
            return compare(given.folder, given.trainmon, given.against)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, OSError, ValueError) as error:
        return options.failed(NAME, error)
    return options.failed(NAME, "name a folder, or one of --speed and --hostile", 2)
