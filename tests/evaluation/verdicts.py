"""Runs `trainmon diagnose` against workloads, each in a process of its own, and judges what it says."""

from __future__ import annotations

import json
import os
import signal
import time

from labels import Label
from launch import Launched, WorkloadFailed

from .monitor import Monitor, MonitorFailed
from .scoring import Result, judge

#: Steps settle for so long before watching begins: the first batches come out of empty queues.
SETTLE_S = 1.0
#: Beyond the watched time, what one call may take.
PATIENCE_S = 20.0
#: What a workload may need around the watched time, so that it never ends first.
SPARE_S = 120.0


def one_run(label: Label, number: int, monitor: Monitor, duration: float, data: str | None) -> Result:
    """Starts the workload, watches it, and judges the verdict. A failure is a result too; see `error`.

    Raises limits.Unavailable where this machine cannot run the workload.
    """
    result = Result(label.name, number, label.klass, label.cause)
    watched = label.duration or duration
    with Launched(label, watched + SPARE_S, data) as job:
        try:
            job.wait_until_watchable()
            if label.start != "started":
                time.sleep(SETTLE_S)
            if label.stop:
                os.killpg(job.pid, signal.SIGSTOP)
            arguments = ("diagnose", "--pid", str(job.pid), "--duration", f"{watched:g}s", "--json")
            began, before = time.monotonic(), job.cpu_used()
            output = monitor.run(job.device, *arguments, timeout=watched + PATIENCE_S)
            end, after = time.monotonic(), job.cpu_used()
            used = {pid: now - before[pid] for pid, now in after.items() if pid in before}
            result.cores_of_others = (2 * used[0] - sum(used.values())) / (end - began)
            verdict = json.loads(output)
            judge(result, verdict, label.acceptable())
            begin = end - float(verdict.get("observed_s") or watched)
            if label.wait_scored:
                truth = job.truth_until(end)
                result.wait_true = truth.wait_share(begin, end)
                result.busy_true = truth.busy_share(begin, end)
                result.label_held = label.holds(result.wait_true, result.busy_true)
                result.steps_true = truth.steps_per_s(begin, end)
        except (MonitorFailed, WorkloadFailed) as error:
            result.error = str(error)
        except (ValueError, AttributeError, TypeError) as error:
            result.error = f"not a verdict: {error}"
    return result
