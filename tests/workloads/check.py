"""Verifies the labels: runs workloads for some seconds each and holds their own truth against the label's bounds.

    python tests/workloads/check.py [--only NAME,NAME] [--seconds 6]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from labels import LABELS, Label, by_name
from launch import Launched, Unavailable, WorkloadFailed


def measure(label: Label, seconds: float, data: str | None) -> dict[str, float | None]:
    """Shares of the truth, and the cores that the trainer and its children used, over `seconds`."""
    with Launched(label, seconds + 90, data) as job:
        job.wait_until_watchable()
        time.sleep(1.0)
        if label.stop:
            os.killpg(job.pid, signal.SIGSTOP)
        begin = time.monotonic()
        before = job.cpu_used()
        time.sleep(seconds)
        after = job.cpu_used()
        end = time.monotonic()
        scored = label.wait is not None
        truth = job.truth_until(end) if scored else job.truth()

        used = {pid: (now - before[pid]) / (end - begin) for pid, now in after.items() if pid in before}

    return {
        "wait": truth.wait_share(begin, end) if scored else None,
        "busy": truth.busy_share(begin, end) if scored else None,
        "sync": truth.sync_share(begin, end) if scored else None,
        "steps/s": truth.steps_per_s(begin, end) if scored else None,
        "main": used[job.pid],
        "workers": sum(cores for pid, cores in used.items() if pid not in (0, job.pid)),
        "others": used[0] - sum(cores for pid, cores in used.items() if pid),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the workloads are what their labels say.")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=6.0, help="measured for each (default: %(default)s)")
    parser.add_argument("--data", help="folder for generated data files")
    args = parser.parse_args()
    labels = [by_name(name) for name in args.only.split(",")] if args.only else list(LABELS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    columns = ("wait", "busy", "sync", "steps/s", "main", "workers", "others")
    print(f"{'workload':28}" + "".join(f"{column:>9}" for column in columns) + "   (the last three: cores used)")
    wrong = 0
    for label in labels:
        try:
            found = measure(label, args.seconds, args.data)
        except Unavailable as error:
            print(f"{label.name:28}  skipped: {error}", flush=True)
            continue
        except WorkloadFailed as error:
            print(f"{label.name:28}  FAILED: {error}", flush=True)
            wrong += 1
            continue
        holds = label.holds(found["wait"], found["busy"])
        wrong += not holds
        cells = "".join("        -" if found[c] is None else f"{found[c]:9.2f}" for c in columns)
        print(f"{label.name:28}{cells}   {'ok' if holds else f'OFF: wait {label.wait}, busy {label.busy}'}", flush=True)
    print("all labels hold" if not wrong else f"{wrong} labels do not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
