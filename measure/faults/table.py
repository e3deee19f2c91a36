"""Causes real faults around trainmon and prints a table of how it reacts.

    cargo build --release --bins --examples
    python measure faults                         every fault: about two minutes on two CPUs
    python measure faults --only secrets,fifo     faults whose name contains one of these words; --list names all

As root it also causes faults that need other users' files and processes, namespaces, mounts, or priorities. A fault that it cannot
cause here is listed with the reason. The exit status is 1 if a guard does not hold.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import textwrap
import time

from measure import options, paths
from measure.text import printable

from . import files, helpers, job, library, limits, rights, signals, text  # noqa: F401
from .bench import FAULTS, Bench, Fault, Outcome, Skipped, Wrong

WIDTHS = (34, 62, 8, 42)


def run(fault: Fault, args: argparse.Namespace) -> tuple[str, Outcome]:
    bench = Bench(args.trainmon, args.examples)
    try:
        return "holds", fault.run(bench)
    except Skipped as why:
        return "skipped", Outcome(f"not possible here: {why}")
    except Wrong as why:
        return "FAILS", Outcome(str(why))
    except Exception as why:  # any other error is a failure of this fault, not of the table
        return "FAILS", Outcome(f"{type(why).__name__}: {why}")
    finally:
        bench.close()


def row(*cells: str) -> str:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS)]
    lines = max(map(len, wrapped))
    columns = [column + [""] * (lines - len(column)) for column in wrapped]
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(parts, WIDTHS)).rstrip() for parts in zip(*columns)
    )


def main(words: list[str] | None = None) -> int:
    release = pathlib.Path(paths.RELEASE)
    parser = options.parser(__doc__, "measure faults")
    parser.add_argument("--trainmon", type=pathlib.Path, default=release / "trainmon", help="the program")
    parser.add_argument("--examples", type=pathlib.Path, default=release / "examples", help="the folder of the fakes")
    parser.add_argument("--only", default="", help="names, or parts of them, separated by commas")
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    parser.add_argument("--jobs", type=int, default=6, help="faults to cause at the same time (default: %(default)s)")
    args = parser.parse_args(words)
    args.trainmon, args.examples = args.trainmon.resolve(), args.examples.resolve()
    wanted = [word.strip() for word in args.only.split(",") if word.strip()]
    chosen = [fault for fault in FAULTS if not wanted or any(word in fault.name for word in wanted)]
    if args.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    if not chosen:
        parser.error(f"--only: no fault is named {args.only}")
    if not args.trainmon.exists():
        parser.error(f"{args.trainmon} not found; build it: cargo build --release --bins --examples")
    began = time.monotonic()
    results: dict[str, tuple[str, Outcome]] = {}
    # Light faults run together. Those that fill the machine run one after the other.
    together = [fault for fault in chosen if not fault.alone]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results |= zip([fault.name for fault in together], pool.map(lambda fault: run(fault, args), together))
    results |= {fault.name: run(fault, args) for fault in chosen if fault.alone}
    print(row("fault", "what the user sees", "recovers in", "the guard that it proves"))
    print(row(*("-" * width for width in WIDTHS)))
    for fault in chosen:
        state, outcome = results[fault.name]
        seen = ("FAILS: " if state == "FAILS" else "") + printable(outcome.seen, "\N{REPLACEMENT CHARACTER}")
        seconds = "" if outcome.recovery_s is None else f"{outcome.recovery_s:.1f} s"
        print(row(fault.name, seen, seconds, fault.guard))
    states = [state for state, _ in results.values()]
    counts = {state: states.count(state) for state in ("holds", "FAILS", "skipped")}
    print(
        f"\n{counts['holds']} of {len(chosen)} hold, {counts['FAILS']} fail, {counts['skipped']} cannot be caused here;"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if counts["FAILS"] else 0
