"""Records labeled workloads, to test the diagnosis in Rust without torch.

    python measure record --out tests/recordings                    all except the held-out third
    python measure record --only decode,init --out tests/recordings

keeping.py says which recordings are kept. `measure evaluate --keep DIR` also keeps the recordings that it judges. Needs the
packages in requirements.txt, and:
    cargo build --release --bins --examples
"""

from __future__ import annotations

import os

from measure import options, recordings
from measure.evaluation import keeping
from measure.evaluation.verdicts import recorded
from measure.monitor import Monitor, MonitorFailed
from workloads.labels import LABELS, Label, by_name
from workloads.launch import WorkloadFailed
from workloads.limits import Unavailable

NAME = "measure record"


def record(label: Label, monitor: Monitor, duration: float, data: str | None, out: str) -> str:
    """Records one workload into `out`, and returns a line about it."""
    with recorded(label, 1, monitor, duration, data, "--anonymise") as (job, run):
        seen = recordings.watched(monitor, job.device, run.recording, every=False)
        wait = run.truth.wait_share(seen.begin, seen.end) if label.wait_scored else None
        size = keeping.keep(label, run.recording, seen.verdict, wait, label.duration or duration, out)
    verdict = seen.verdict
    said = f"{verdict['class']}/{verdict['cause']} {verdict['confidence']:.2f}"
    return f"{said:32} {size / 1024:5.1f} KiB"


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    options.add_monitor(parser)
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--duration", type=float, default=12.0, help="seconds to record (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the recordings")
    args = parser.parse_args(words)
    try:
        monitor = Monitor.given(args)
        chosen = [by_name(name) for name in args.only.split(",")] if args.only else None
    except KeyError as error:
        parser.error(error.args[0])
    except RuntimeError as error:
        return options.failed(NAME, error)
    labels = chosen or [label for label in LABELS if not label.held_out]
    os.makedirs(args.out, exist_ok=True)
    options.end_as_interrupted()
    refused = 0
    try:
        for label in labels:
            try:
                said = record(label, monitor, args.duration, args.data, args.out)
            except (keeping.Refused, Unavailable, WorkloadFailed, MonitorFailed) as error:
                refused += 1
                said = f"not kept: {error}"
            print(f"{label.name:27} {said}", flush=True)
    except KeyboardInterrupt:
        return 130
    return 1 if refused else 0
