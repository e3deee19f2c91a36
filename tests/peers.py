"""trainmon side by side with the monitors that people use in its place.

    cargo build --release --bins --examples
    python tests/peers.py                          each 45 s, once, amid 300 and 3,000 processes: some 20 minutes
    python tests/peers.py --processes 300 --seconds 115       long enough to see what each costs once a verdict has stood

Monitors that are not installed are named with the command that installs them; the others are measured. Without a
GPU the fake NVML library stands in for all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "workloads")]

from evaluation import peers  # noqa: E402
from evaluation.monitor import Monitor, add_arguments  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=45.0, help="of each program (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="of each program (default: %(default)s)")
    parser.add_argument("--processes", default="300,3000", help="sizes of the crowd (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every run here as well")
    args = parser.parse_args()
    crowds = [int(word) if word.isdigit() else 0 for word in args.processes.split(",")]
    if unknown := [count for count in crowds if count not in peers.CROWDS]:
        parser.error(f"--processes: {unknown[0]} is none of {', '.join(map(str, peers.CROWDS))}")
    if args.seconds < 25 or args.runs < 1:
        parser.error("--seconds must be 25 or more, --runs 1 or more")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        rows = peers.measure(Monitor.given(args), args.seconds, args.runs, crowds, args.data)
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:
        print(f"peers.py: {error.args[0]}", file=sys.stderr)
        return 1
    print(peers.report(rows))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
