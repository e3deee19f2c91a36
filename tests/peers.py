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
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "workloads"))

from evaluation import peers  # noqa: E402
from evaluation.monitor import Monitor  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trainmon", default=os.path.join(ROOT, "target/release/trainmon"), help="the program")
    parser.add_argument(
        "--nvml-lib",
        default=os.path.join(ROOT, "target/release/examples/libfake_nvml.so"),
        help="the NVML library of all of them; `none` leaves the machine's own",
    )
    parser.add_argument("--seconds", type=float, default=45.0, help="of each program (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="of each program (default: %(default)s)")
    parser.add_argument("--processes", default="300,3000", help="sizes of the crowd (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every run here as well")
    parser.add_argument("--data", help="folder for generated data files (default: under the temporary folder)")
    args = parser.parse_args()
    crowds = [int(word) if word.isdigit() else 0 for word in args.processes.split(",")]
    if unknown := [count for count in crowds if count not in peers.CROWDS]:
        parser.error(f"--processes: {unknown[0]} is none of {', '.join(map(str, peers.CROWDS))}")
    if args.seconds < 25 or args.runs < 1:
        parser.error("--seconds must be 25 or more, --runs 1 or more")
    library = None if args.nvml_lib == "none" else os.path.abspath(args.nvml_lib)
    for path in filter(None, (args.trainmon, library)):
        if not os.path.exists(path):
            print(f"peers.py: {path} not found; cargo build --release --bins --examples", file=sys.stderr)
            return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    monitor = Monitor(os.path.abspath(args.trainmon), library)
    try:
        rows = peers.measure(monitor, args.seconds, args.runs, crowds, args.data)
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
