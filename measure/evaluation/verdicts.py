"""Lets trainmon watch workloads, each in its own process, and judges its verdicts.

One live process watches: `trainmon record`. The verdict, and the class at each earlier moment, come from the recording
afterwards, so that only one trainmon uses the machine while the workload runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator

from measure import contradictions, recordings
from measure.evaluation import again, keeping
from measure.monitor import Monitor, MonitorFailed
from workloads.labels import Label
from workloads.launch import Launched, WorkloadFailed

from .scoring import Result, judge, judge_change, judge_details

#: Seconds for steps to settle before watching begins: the first batches come from empty queues.
SETTLE_S = 1.0
#: Seconds that one call may take beyond the watched time.
PATIENCE_S = 20.0
#: Extra seconds for a workload, so that it never ends before watching does.
SPARE_S = 120.0


def judge_run(result: Result, run: again.Run, monitor: Monitor, device: str) -> recordings.Watched:
    """Compares trainmon's verdict on a recorded run with the truth."""
    label, truth = run.label, run.truth
    seen = recordings.watched(monitor, device, run.recording, every=label.settled or bool(label.before))
    judge(result, seen.verdict, label.acceptable(), seen.classes if label.settled else [], run.began)
    judge_details(result, seen.verdict, label, truth, seen.begin, seen.end)
    result.contradictions = contradictions.find(monitor.program, seen.verdict)
    if label.before and "change" in truth.events:
        judge_change(result, label, seen.classes, truth.events["change"]["t"])
    return seen


def once_more(run: again.Run, monitor: Monitor) -> Result:
    """Judges a run that was kept. A failure is a result too: see `error`."""
    result = Result(run.label.name, run.number, run.label.klass, run.label.cause, held_out=run.label.held_out)
    result.cores_of_others = run.cores_of_others
    try:
        judge_run(result, run, monitor, "")
    except MonitorFailed as error:
        result.error = str(error)
    return result


@contextlib.contextmanager
def recorded(
    label: Label, number: int, monitor: Monitor, duration: float, data: str | None, *options: str
) -> Iterator[tuple[Launched, again.Run]]:
    """Starts a workload and records it with trainmon.

    Raises MonitorFailed, WorkloadFailed, or limits.Unavailable if this machine cannot run the workload.
    """
    watched = label.duration or duration
    with monitor.launch(label, watched + SPARE_S, data) as job:
        job.wait_until_watchable()
        if label.start != "started":
            time.sleep(SETTLE_S)
        if label.stop:
            os.killpg(job.pid, signal.SIGSTOP)
        path = os.path.join(job.folder, "run.tmz")
        watcher, pid = monitor.beside(job)
        stretch = job.stretch()
        arguments = ("record", "--pid", str(pid), "--duration", f"{watched:g}s", *options, "-o", path)
        watcher.run(job.device, *arguments, timeout=watched + PATIENCE_S)
        stretch.end()
        truth = job.whole_truth_until(stretch.ended, steps=label.wait_scored)
        yield job, again.Run(label, number, stretch.begin, path, truth, stretch.others)


def one_run(
    label: Label,
    number: int,
    monitor: Monitor,
    duration: float,
    data: str | None,
    kept: str | None = None,
    kept_wrong: str | None = None,
    kept_all: str | None = None,
) -> Result:
    """Starts the workload, watches it, and judges the verdict. A failure is a result too; see `error`.

    The first run's recording is kept in the folder `kept`, where that is given and the recording is a test; in the
    folder `kept_wrong` every recording whose verdict is wrong or contradicts itself, to be replayed; in `kept_all` whole
    runs, to be judged again.
    Raises limits.Unavailable where this machine cannot run the workload.
    """
    result = Result(label.name, number, label.klass, label.cause, held_out=label.held_out)
    try:
        with recorded(label, number, monitor, duration, data, *(["--anonymise"] if kept else [])) as (job, run):
            result.cores_of_others = run.cores_of_others
            if kept_all:
                again.keep(kept_all, run, job.truth_path)
            seen = judge_run(result, run, monitor, job.device)
            if kept_wrong and (not result.class_right or result.cause == "wrong" or result.contradictions):
                os.makedirs(kept_wrong, exist_ok=True)
                shutil.copy(run.recording, os.path.join(kept_wrong, f"{label.name}-{number}.tmz"))
            if kept and number == 1 and not label.held_out:
                try:
                    keeping.keep(label, run.recording, seen.verdict, result.wait_true, label.duration or duration, kept)
                except keeping.Refused as refused:
                    print(f"{'':27}     not kept: {refused}")
    except (MonitorFailed, WorkloadFailed) as error:
        result.error = str(error)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        result.error = f"not a verdict: {type(error).__name__}: {error}"
    return result
