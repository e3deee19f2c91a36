"""Records labelled workloads: recordings that `recordings.rs` holds the diagnosis against, without torch.

    python tests/record_workloads.py --out tests/recordings                    all but the held-out third
    python tests/record_workloads.py --only decode,init --out tests/recordings

See evaluation/keeping.py for what is kept; `evaluate.py --keep DIR` keeps the recordings that it judges as well. Needs
what requirements.txt names, and:
    cargo build --bins --examples
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TESTS)
sys.path[:0] = [TESTS, os.path.join(TESTS, "workloads")]

from evaluation import keeping  # noqa: E402
from evaluation.monitor import Monitor, MonitorFailed  # noqa: E402
from evaluation.verdicts import PATIENCE_S, SETTLE_S, SPARE_S  # noqa: E402
from labels import LABELS, Label, by_name  # noqa: E402
from launch import Launched, Unavailable, WorkloadFailed  # noqa: E402

def record(label: Label, monitor: Monitor, duration: float, data: str | None, out: str) -> str:
    """Records one workload into `out`; one line about it."""
    with Launched(label, duration + SPARE_S, data) as job, tempfile.TemporaryDirectory() as folder:
        job.wait_until_watchable()
        if label.start != "started":
            time.sleep(SETTLE_S)
        if label.stop:
            os.killpg(job.pid, signal.SIGSTOP)
        path = os.path.join(folder, f"{label.name}.tmz")
        monitor.run(
            job.device, "record", "--pid", str(job.pid), "--duration", f"{duration:g}s", "--anonymise", "-o", path,
            timeout=duration + PATIENCE_S,
        )  # fmt: skip
        end = time.monotonic()
        wait = job.truth_until(end).wait_share(end - duration, end) if label.wait_scored else None
        verdict = json.loads(monitor.run(job.device, "diagnose", "--replay", path, "--json", timeout=PATIENCE_S))
        size = keeping.keep(label, path, verdict, wait, duration, out)
    said = f"{verdict['class']}/{verdict['cause']} {verdict['confidence']:.2f}"
    return f"{said:32} {size / 1024:5.1f} KiB"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trainmon", default=os.path.join(ROOT, "target/debug/trainmon"), help="the program")
    parser.add_argument(
        "--nvml-lib",
        default=os.path.join(ROOT, "target/debug/examples/libfake_nvml.so"),
        help="the fake NVML library",
    )
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--duration", type=float, default=12.0, help="seconds recorded (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the recordings go")
    parser.add_argument("--data", help="folder for generated data files (default: under the temporary folder)")
    args = parser.parse_args()
    for path in (args.trainmon, args.nvml_lib):
        if not os.path.exists(path):
            print(f"record_workloads.py: {path} not found; cargo build --bins --examples", file=sys.stderr)
            return 1
    try:
        chosen = [by_name(name) for name in args.only.split(",")] if args.only else None
    except KeyError as error:
        parser.error(error.args[0])
    labels = chosen or [label for label in LABELS if not label.held_out]
    monitor = Monitor(os.path.abspath(args.trainmon), os.path.abspath(args.nvml_lib))
    os.makedirs(args.out, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    refused = 0
    try:
        for label in labels:
            try:
                said = record(label, monitor, label.duration or args.duration, args.data, args.out)
            except (keeping.Refused, Unavailable, WorkloadFailed, MonitorFailed) as error:
                refused += 1
                said = f"not kept: {error}"
            print(f"{label.name:27} {said}", flush=True)
    except KeyboardInterrupt:
        return 130
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
