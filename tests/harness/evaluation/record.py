"""Records labelled workloads: recordings that `recordings.rs` holds the diagnosis against, without torch.

    python tests/dev.py record --out tests/recordings                    all but the held-out third
    python tests/dev.py record --only decode,init --out tests/recordings

See keeping.py for what is kept; `evaluate.py --keep DIR` keeps the recordings that it judges as well. Needs
what requirements.txt names, and:
    cargo build --bins --examples
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time

from harness import options
from harness.evaluation import keeping
from harness.evaluation.verdicts import PATIENCE_S, SETTLE_S, SPARE_S
from harness.monitor import Monitor, MonitorFailed
from harness.paths import BUILDS
from workloads.labels import LABELS, Label, by_name
from workloads.launch import Launched, Unavailable, WorkloadFailed

NAME = "dev.py record"


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


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    options.add_monitor(parser)
    debug = os.path.join(BUILDS, "debug")
    parser.set_defaults(trainmon=f"{debug}/trainmon", nvml_lib=f"{debug}/examples/libfake_nvml.so")
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--duration", type=float, default=12.0, help="seconds recorded (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the recordings go")
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
                said = record(label, monitor, label.duration or args.duration, args.data, args.out)
            except (keeping.Refused, Unavailable, WorkloadFailed, MonitorFailed) as error:
                refused += 1
                said = f"not kept: {error}"
            print(f"{label.name:27} {said}", flush=True)
    except KeyboardInterrupt:
        return 130
    return 1 if refused else 0
