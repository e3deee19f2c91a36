"""What commands share that compare trainmon with what labeled programs log of themselves, one program after the other."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterable
from typing import TypeVar

from measure import options
from measure.monitor import Monitor, MonitorFailed
from workloads.labels import Label, by_name
from workloads.launch import WorkloadFailed
from workloads.limits import Unavailable

Found = TypeVar("Found")


def parser(about: str | None, name: str, figures: str) -> argparse.ArgumentParser:
    """The options that all of them have. `figures` are what may be off."""
    made = options.parser(about, name)
    options.add_monitor(made)
    made.add_argument("--only", help="names of workloads, separated by commas")
    made.add_argument("--within", type=float, metavar="POINTS", help=f"exit with 1 if {figures} are further off than this")
    made.add_argument("--misses", type=int, default=0, help="for --within: how many may be (default: %(default)s)")
    return made


def over(
    args: argparse.Namespace,
    name: str,
    programs: Iterable[str],
    one: Callable[[Label, Monitor], Found],
    cells: Callable[[Found], tuple[str, ...]],
    told: Callable[[list[Found]], str],
    off: Callable[[Found], list[float]],
) -> int:
    """Runs `one` for each program and prints its row, then `told`. The exit status says whether too many figures are off."""
    try:
        monitor = Monitor.given(args)
    except RuntimeError as error:
        return options.failed(name, error)
    found: list[Found] = []
    for program in args.only.split(",") if args.only else programs:
        try:
            found.append(one(by_name(program), monitor))
        except (Unavailable, MonitorFailed, WorkloadFailed, subprocess.SubprocessError) as error:
            print(f"{program}: {error}", flush=True)
            continue
        print(" | ".join(cells(found[-1])), flush=True)
    print("\n" + told(found))
    misses = sum(points > args.within for each in found for points in off(each)) if args.within is not None else 0
    if misses > args.misses:
        return options.failed(name, f"{misses} figures are off by more than {args.within:g} points")
    return 0 if found else 1
