"""Do trainmon's predictions come true? Runs workloads, applies the first advice, runs them again, and compares.

A label's `fixed` names the changed workload. If that is the workload itself, the advice must give the number of workers.
"""

from __future__ import annotations

import dataclasses
import re
import time
from dataclasses import dataclass
from typing import Any

from measure.monitor import Monitor
from measure.numbers import known, mean
from measure.text import show
from workloads.labels import Label
from workloads.launch import Launched, WorkloadFailed
from workloads.limits import Unavailable

from . import verdicts

#: A prediction is right within this fraction of the measurement.
WITHIN = 0.15
#: A measurement may exceed an upper bound by this much: machines vary from minute to minute.
BOUND_SLACK = 1.1
#: Seconds for steps to settle: a changed loop first uses up its queued batches.
SETTLE_S = 2.0

#: "Raise num_workers from 1 to 4", "Set num_workers to 2", "Set num_workers to at least 1".
_WORKERS = re.compile(r"num_workers (?:from \d+ )?to (?:at least )?(\d+)")


@dataclass
class Comparison:
    """One workload, before and after the change."""

    workload: str
    held_out: bool
    #: The first advice.
    title: str = ""
    bound: float | None = None
    #: The largest gain of any tuning, if the change is tuning, as a factor.
    ceiling: float | None = None
    predicted_step_ms: float | None = None
    #: Steps a second by the workload's own record.
    before: float | None = None
    after: float | None = None
    #: CPUs that processes outside the job used meanwhile, including helpers of the workload. They can invalidate a run.
    others_before: float | None = None
    others_after: float | None = None
    #: Why there is nothing to compare.
    why_not: str | None = None

    @property
    def measured(self) -> float | None:
        """The measured speedup."""
        return self.after / self.before if self.before and self.after else None

    @property
    def predicted(self) -> float | None:
        """The speedup that the predicted step time means."""
        if not self.before or not self.predicted_step_ms:
            return None
        return 1000 / self.before / self.predicted_step_ms

    @property
    def right(self) -> bool | None:
        """Whether the prediction came true; None without one."""
        if self.measured is None or self.predicted is None:
            return None
        return abs(self.predicted / self.measured - 1) <= WITHIN

    @property
    def bound_holds(self) -> bool | None:
        """Whether the gain stayed below the advice's bound and the ceiling of all tuning; None without one."""
        bounds = known((self.bound, self.ceiling))
        return None if self.measured is None or not bounds else self.measured <= min(bounds) * BOUND_SLACK


def advised_workers(title: str) -> int | None:
    """The number of workers that an advice recommends."""
    found = _WORKERS.search(title)
    return int(found.group(1)) if found else None


def changed(label: Label, advice: dict[str, Any]) -> tuple[Label, dict[str, str]] | None:
    """The changed workload and its settings; None if the advice does not say what to change."""
    assert label.fixed is not None
    workers = advised_workers(str(advice.get("title") or "")) or label.more_feeders
    lifted = bool(label.fixed_without)
    if label.fixed == label.entry and workers is None and not lifted:
        return None
    fixed = dataclasses.replace(
        label,
        entry=label.fixed,
        needs=tuple(need for need in label.needs if need.partition("=")[0] not in label.fixed_without),
        companions=tuple(role for role in label.companions if role not in label.fixed_without),
    )
    given = {"workers": str(workers)} if label.fixed == label.entry and workers is not None and not lifted else {}
    return fixed, given


def compare(label: Label, monitor: Monitor, duration: float, data: str | None) -> Comparison:
    """Watches the workload, then applies the first advice and runs it alone. `why_not` holds a failure."""
    result = Comparison(label.name, label.held_out)
    seen = verdicts.one_run(label, 1, monitor, duration, data)
    result.before, result.others_before = seen.steps_true, seen.cores_of_others
    if seen.error is not None or not seen.class_right or not seen.advice:
        said = f"verdict {seen.seen_class}/{seen.seen_cause}"
        result.why_not = seen.error or ("no advice" if seen.class_right else said)
        return result
    advice = seen.advice[0]
    result.title = str(advice.get("title") or "")
    change = changed(label, advice)
    if change is None:
        result.why_not = "the advice gives no number of workers"
        return result
    result.predicted_step_ms = advice.get("predicted_step_ms")
    follows = label.more_feeders is None or advised_workers(result.title) is not None
    result.bound = advice.get("speedup_at_most") if follows else None
    result.ceiling = seen.ceiling if change[1] else None
    if result.bound is None and result.ceiling is None and result.predicted_step_ms is None:
        result.why_not = "neither prediction nor bound"
        return result
    try:
        result.after, result.others_after = steps_per_s(*change, label.duration or duration, data)
    except (WorkloadFailed, Unavailable) as error:
        result.why_not = str(error)
    return result


def steps_per_s(
    label: Label, given: dict[str, str], duration: float, data: str | None
) -> tuple[float | None, float]:
    """The steps per second of a workload without trainmon, and the CPUs that other processes used meanwhile."""
    with Launched(label, duration + verdicts.SPARE_S, data, given) as job:
        job.wait_until_watchable()
        time.sleep(SETTLE_S)
        stretch = job.stretch()
        time.sleep(duration)
        stretch.end()
        return job.truth_until(stretch.ended).steps_per_s(stretch.begin, stretch.ended), stretch.others


HEAD = (
    f"{'workload':27} {'steps/s':>8} {'then':>8} {'measured':>9} {'predicted':>9} {'at most':>8} {'tuned':>6} {'others':>9}  result"
)


def row(one: Comparison) -> str:
    if one.why_not is not None:
        said = f"not compared: {one.why_not}"
    else:
        said = {True: "right", False: "WRONG", None: "no prediction"}[one.right]
        said += {True: "", False: ", ABOVE THE BOUND", None: ", no bound"}[one.bound_holds]
    return (
        f"{one.workload:27} {show(one.before):>8} {show(one.after):>8} {show(one.measured):>9} "
        f"{show(one.predicted):>9} {show(one.bound):>8} {show(one.ceiling):>6} "
        f"{show(one.others_before, '.1f'):>4} {show(one.others_after, '.1f'):>4}  {said}"
        + (f" ({one.title})" if one.title else "")
    )


def sums(results: list[Comparison]) -> dict[str, Any]:
    rights = known(one.right for one in results)
    bounds = known(one.bound_holds for one in results)
    return {
        "predictions_within": mean(rights),
        "predictions": len(rights),
        "bounds_held": mean(bounds),
        "bounds": len(bounds),
        "not_compared": sum(one.why_not is not None for one in results),
    }


def report(results: list[Comparison]) -> str:
    lines = [""]
    for name, some in (("all", results), ("held out", [one for one in results if one.held_out])):
        total = sums(some)
        lines.append(
            f"{name:10} within {WITHIN:.0%}: {show(total['predictions_within'], '.0%')} of {total['predictions']}"
            f" predictions; bounds held: {show(total['bounds_held'], '.0%')} of {total['bounds']};"
            f" not compared: {total['not_compared']}"
        )
    return "\n".join(lines)
