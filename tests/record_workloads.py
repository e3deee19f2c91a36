"""Records labelled workloads: recordings that `recordings.rs` holds the diagnosis against, without torch.

    python tests/record_workloads.py --out tests/recordings                    all but the held-out third
    python tests/record_workloads.py --only decode,init --out tests/recordings

Beside each NAME.tmz lies NAME.json with what is true about the run: the label's class and causes, and bounds of the
share of time spent waiting for data, around what the workload itself measured. A recording whose verdict is not the
label's is reported and not kept. Needs what requirements.txt names, and:
    cargo build --bins --examples
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TESTS)
sys.path[:0] = [TESTS, os.path.join(TESTS, "workloads")]

from evaluation.monitor import Monitor, MonitorFailed  # noqa: E402
from evaluation.verdicts import PATIENCE_S, SETTLE_S, SPARE_S  # noqa: E402
from labels import LABELS, Label, by_name  # noqa: E402
from launch import Launched, Unavailable, WorkloadFailed  # noqa: E402

#: The share of waiting that a verdict shows may lie this far from the workload's own.
WAIT_MARGIN = 0.08
#: Confidence may fall this far below the one at recording before the test fails.
CONFIDENCE_MARGIN = 0.1
#: Larger recordings are not kept.
LARGEST_KIB = 48


class Refused(Exception):
    """The recording does not show what the label says."""


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
        if not label.holds(wait, None):
            raise Refused(f"the label does not hold: waited {wait:.2f} of the time")
        verdict = json.loads(monitor.run(job.device, "diagnose", "--replay", path, "--json", timeout=PATIENCE_S))
        truth = sidecar(label, verdict, wait, duration)
        with open(path, "rb") as file:
            content = file.read()
    if len(content) > LARGEST_KIB * 1024:
        raise Refused(f"{len(content) / 1024:.0f} KiB are more than {LARGEST_KIB}")
    with open(os.path.join(out, f"{label.name}.tmz"), "wb") as file:
        file.write(content)
    with open(os.path.join(out, f"{label.name}.json"), "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=2)
        file.write("\n")
    said = f"{verdict['class']}/{verdict['cause']} {verdict['confidence']:.2f}"
    return f"{said:32} {len(content) / 1024:5.1f} KiB"


def sidecar(label: Label, verdict: dict, wait: float | None, duration: float) -> dict:
    """What is true about a recorded run; raises Refused where the verdict is another."""
    causes = [label.cause, *label.also_causes]
    said = f"{verdict['class']}/{verdict['cause']}"
    if verdict["class"] != label.klass or (label.cause is not None and verdict["cause"] not in causes):
        raise Refused(f"the verdict is {said}: {verdict['summary']}")
    bounds = None
    if wait is not None:
        bounds = [round(max(0.0, wait - WAIT_MARGIN), 2), round(min(1.0, wait + WAIT_MARGIN), 2)]
        seen = (verdict["shares"] or {}).get("input_wait")
        if seen is None or not bounds[0] <= seen <= bounds[1]:
            raise Refused(f"the verdict is {said}, but sees a wait of {seen} where the workload waited {wait:.2f}")
    confidence = float(verdict["confidence"] or 0.0)
    return {
        "class": label.klass,
        "cause": label.cause,
        "also_causes": list(label.also_causes),
        "min_confidence": math.floor(max(0.0, confidence - CONFIDENCE_MARGIN) * 20) / 20,
        "input_wait": bounds,
        "source": f"workload {label.name}, {duration:g} s: {label.about}",
    }


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
            except (Refused, Unavailable, WorkloadFailed, MonitorFailed) as error:
                refused += 1
                said = f"not kept: {error}"
            print(f"{label.name:27} {said}", flush=True)
    except KeyboardInterrupt:
        return 130
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
