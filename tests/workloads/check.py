"""Verifies the labels: runs workloads for some seconds each and holds their own truth against the label.

Shares of waiting, loss and device time lie in the label's bounds, and the chain's true end is named; processes that load
have noted their stages, and no stage but handing over lies outside of the rest's time; stalls come in the label's rhythm,
and no rhythm is left unlabelled.

    python tests/workloads/check.py [--only NAME,NAME] [--seconds 6]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from workloads.labels import LABELS, Label, by_name
from workloads.launch import Launched, WorkloadFailed
from workloads.limits import Unavailable
from workloads.stages import NAMES
from workloads.truth import Truth

#: A process's own clock and ours may differ by this much; so may sums of shares from 1.
SLACK = 0.05
#: A loop that waits this much of its time for batches has somebody who makes them.
WAITS = 0.3


def measure(label: Label, seconds: float, data: str | None) -> dict[str, float | None]:
    """Shares of the truth, and the cores that the trainer and its children used, over `seconds`."""
    with Launched(label, seconds + 90, data) as job:
        job.wait_until_watchable()
        time.sleep(1.0)
        if label.stop:
            os.killpg(job.pid, signal.SIGSTOP)
        stretch = job.stretch()
        time.sleep(seconds)
        stretch.end()
        begin, end = stretch.begin, stretch.ended
        scored = label.wait is not None
        truth = job.whole_truth_until(end, steps=scored)

    return {
        "wait": truth.wait_share(begin, end) if scored else None,
        "busy": truth.busy_share(begin, end) if scored else None,
        "sync": truth.sync_share(begin, end) if scored else None,
        "lost": truth.lost_share(begin, end) if label.lost else None,
        "culprits": len(truth.culprits_in(begin, end)),
        "steps/s": truth.steps_per_s(begin, end) if scored else None,
        "main": stretch.cores[job.pid],
        "workers": sum(cores for pid, cores in stretch.cores.items() if pid != job.pid),
        "others": stretch.others,
        **stage_means(truth, begin, end),
        "stalls": truth.stall_period(begin, end) if scored else None,
    }


def stage_means(truth: Truth, begin: float, end: float) -> dict[str, float]:
    """Mean share of each stage over the processes that load; nothing where there is none."""
    shares = [known for clock in truth.stages.values() if (known := clock.shares(begin, end))]
    return {name: sum(one[name] for one in shares) / len(shares) for name in NAMES} if shares else {}


def complaints(label: Label, found: dict[str, float | None]) -> list[str]:
    """What of a measured truth does not fit the label."""
    wrong = []
    if not label.holds(found["wait"], found["busy"], found["lost"]):
        wrong.append(f"wait {label.wait}, busy {label.busy}, lost {label.lost}")
    if label.cause is not None and label.klass != "balanced" and label.settled and not found["culprits"]:
        wrong.append("nothing is named as the chain's end")
    stages = {name: share for name in NAMES if (share := found.get(name)) is not None}
    if not all(-SLACK <= share <= 1 + SLACK for share in stages.values()):
        wrong.append("a stage takes more than all of the time")
    if sum(stages.values()) - stages.get("hand_over", 0.0) > 1 + SLACK:
        wrong.append("load, decode, transform and collate take more than all of the time")
    if label.hottest and sum(stages.values()) < WAITS:
        wrong.append("the workers' hottest function is named, but they note no work")
    if label.stall_every != found["stalls"] and label.stall_every is not None:
        wrong.append(f"stalls every {found['stalls']} steps, not {label.stall_every}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the workloads are what their labels say.")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=6.0, help="measured for each (default: %(default)s)")
    parser.add_argument("--data", help="folder for generated data files")
    args = parser.parse_args()
    labels = [by_name(name) for name in args.only.split(",")] if args.only else list(LABELS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    columns = ("wait", "busy", "lost", "sync", "steps/s", "main", "workers", "others", *NAMES, "stalls")
    print(f"{'workload':28}" + "".join(f"{column[:9]:>10}" for column in columns))
    print(f"{'':28}{'':50}{'(cores used)':>30}{'(share of a worker, mean)':>50}{'(every)':>10}")
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
        off = complaints(label, found)
        wrong += bool(off)
        cells = "".join(f"{'-' if (share := found.get(column)) is None else format(share, '.2f'):>10}" for column in columns)
        print(f"{label.name:28}{cells}   {'OFF: ' + '; '.join(off) if off else 'ok'}", flush=True)
    print("all labels hold" if not wrong else f"{wrong} labels do not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
