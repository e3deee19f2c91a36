"""Runs one workload by hand, with everything it needs around it, and says which process to watch.

    python tests/workloads/run.py --list
    python tests/workloads/run.py too-few-workers --seconds 60
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from workloads.labels import LABELS, by_name
from workloads.launch import Launched, WorkloadFailed
from workloads.limits import Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one labelled workload until it ends or Ctrl-C.")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true", help="list the workloads and their labels")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to train (default: %(default)s)")
    parser.add_argument("--data", help="folder for generated data files (default: under the temporary folder)")
    args = parser.parse_args()
    if args.list or not args.name:
        for label in LABELS:
            print(f"{label.name:28} {label.klass}/{label.cause or '-'}: {label.about}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Launched(by_name(args.name), args.seconds, args.data) as job:
            assert job.process is not None
            print(f"{args.name}: process {job.pid}, truth in {job.folder}/truth.jsonl")
            print(f"watch it: TRAINMON_SIMULATED_DEVICE={job.device} trainmon --nvml-lib FAKE --pid {job.pid}")
            while job.process.poll() is None:
                time.sleep(0.2)
            if job.process.returncode:
                print(job.output(), file=sys.stderr)
            return job.process.returncode
    except KeyboardInterrupt:
        return 130
    except (KeyError, Unavailable, WorkloadFailed) as error:
        print(f"run.py: {error.args[0]}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
