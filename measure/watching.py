"""Counts the false events of `trainmon watch` over days of recorded time, and takes the time until it tells planted ones.

    python measure watch                     ten days of each kind, and each event sixty times
    python measure watch --days 1 --each 5   less of it

It needs `cargo build --release --examples`, and takes about five minutes on two CPUs. Pieces of each bundled recording follow each other in
random order and are judged anew. What is told of them is false, because nothing changes. The second row adds what happens to every job and
is no event. The exit status is 1 if steady jobs have more than one false event a day, or if half of the planted events of a kind are told
later than after 30 s.
"""

from __future__ import annotations

import os
import subprocess

from measure import options, paths

NAME = "measure watch"


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--days", type=float, default=10.0, help="days of recorded time of each kind (default: 10)")
    parser.add_argument("--each", type=int, default=60, help="how many times each event is planted (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is random")
    args = parser.parse_args(words)
    program = os.path.join(paths.RELEASE, "examples/watch_days")
    if not os.path.exists(program):
        return options.failed(NAME, f"{program} is missing: cargo build --release --examples", 2)
    return subprocess.run([program, str(args.days), str(args.each), str(args.seed)], check=False).returncode
