"""Holds verdicts against labels and sums them up. Pure: no process is started here."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from typing import Any, Iterable

#: A wrong class at this confidence or above is the worst thing that can happen.
CONFIDENT = 0.8
CLASSES = ("data-loader", "io", "cpu", "gpu", "balanced", "idle", "unknown")
NO_VERDICT = "none"

Answers = Iterable[tuple[str, "str | None"]]


@dataclass
class Result:
    """One run of one workload."""

    workload: str
    run: int
    true_class: str
    true_cause: str | None
    seen_class: str = NO_VERDICT
    seen_cause: str | None = None
    confidence: float | None = None
    class_right: bool = False
    #: "right", "wrong", "unnamed" (class right, no cause given) or None where the label asks for none.
    cause: str | None = None
    #: Shares of the window, 0 to 1.
    wait_true: float | None = None
    wait_seen: float | None = None
    busy_true: float | None = None
    gpu_idle_seen: float | None = None
    steps_true: float | None = None
    steps_seen: float | None = None
    #: Whether the truth of this window lies within the label's bounds: a machine busy with other things moves it.
    label_held: bool = True
    #: Cores that processes outside the job used meanwhile, trainmon and companions among them.
    cores_of_others: float | None = None
    first_verdict_s: float | None = None
    summary: str = ""
    #: Why there is no verdict.
    error: str | None = None

    @property
    def wait_error(self) -> float | None:
        """Seen minus true, where both are known."""
        if self.wait_true is None or self.wait_seen is None:
            return None
        return self.wait_seen - self.wait_true

    @property
    def confident_and_wrong(self) -> bool:
        return not self.class_right and (self.confidence or 0.0) >= CONFIDENT


def judge(result: Result, verdict: dict[str, Any], acceptable: Answers) -> None:
    """Fills in what a verdict says, and whether it is right."""
    answers = list(acceptable)
    result.seen_class = str(verdict.get("class"))
    result.seen_cause = verdict.get("cause")
    result.confidence = verdict.get("confidence")
    result.first_verdict_s = verdict.get("first_verdict_s")
    result.summary = str(verdict.get("summary") or "")
    result.wait_seen = (verdict.get("shares") or {}).get("input_wait")
    result.gpu_idle_seen = (verdict.get("gpu_idle") or {}).get("total")
    result.steps_seen = (verdict.get("steps") or {}).get("per_s")
    causes = [cause for klass, cause in answers if klass == result.seen_class]
    result.class_right = bool(causes)
    if result.true_cause is None:
        result.cause = None
    elif not result.class_right:
        result.cause = "wrong"
    elif None in causes or result.seen_cause in causes:
        result.cause = "right"
    else:
        result.cause = "unnamed" if result.seen_cause is None else "wrong"


def percentile(values: list[float], share: float) -> float | None:
    """The value below which `share` of the values lie, by nearest rank; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def confusion(results: list[Result]) -> dict[str, dict[str, int]]:
    """Runs by true class and class seen."""
    table: dict[str, dict[str, int]] = {}
    for result in results:
        row = table.setdefault(result.true_class, {})
        row[result.seen_class] = row.get(result.seen_class, 0) + 1
    return table


def summarise(results: list[Result]) -> dict[str, Any]:
    """The numbers that the project is held to."""
    with_cause = [result for result in results if result.true_cause is not None]
    errors = [abs(result.wait_error) for result in results if result.wait_error is not None]
    firsts = [r.first_verdict_s for r in results if r.class_right and r.first_verdict_s is not None]
    steps = [
        abs(r.steps_seen - r.steps_true) / r.steps_true for r in results if r.steps_true and r.steps_seen is not None
    ]
    idles = [
        abs(r.gpu_idle_seen - (1.0 - r.busy_true))
        for r in results
        if r.gpu_idle_seen is not None and r.busy_true is not None
    ]
    return {
        "runs": len(results),
        "class_accuracy": mean([float(result.class_right) for result in results]),
        "class_accuracy_label_held": mean([float(result.class_right) for result in results if result.label_held]),
        "label_not_held": sum(not result.label_held for result in results),
        "cause_accuracy": mean([float(result.cause == "right") for result in with_cause]),
        "cause_unnamed": sum(result.cause == "unnamed" for result in with_cause),
        "confident_and_wrong": sum(result.confident_and_wrong for result in results),
        "failed": sum(result.error is not None for result in results),
        "wait_error_mean": mean(errors),
        "wait_error_worst": max(errors, default=None),
        "wait_scored": len(errors),
        "gpu_idle_error_mean": mean(idles),
        "steps_error_median": statistics.median(steps) if steps else None,
        "first_verdict_median_s": statistics.median(firsts) if firsts else None,
        "first_verdict_p90_s": percentile(firsts, 0.9),
    }


def show(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def row(result: Result) -> str:
    """One line about one run."""
    right = "ok" if result.class_right else "WRONG"
    if result.class_right and result.cause in ("wrong", "unnamed"):
        right = f"ok, cause {result.cause}"
    if result.confident_and_wrong:
        right = "CONFIDENTLY WRONG"
    if not result.label_held:
        right += ", truth outside the label's bounds"
    if result.error is not None:
        right = f"FAILED: {result.error}"
    seen = f"{result.seen_class}/{result.seen_cause or '-'}"
    return (
        f"{result.workload:27} {result.run:>2}  {seen:34} {show(result.confidence):>5} "
        f"{show(result.wait_true):>6} {show(result.wait_seen):>6} {show(result.first_verdict_s, '.1f'):>6} "
        f"{show(result.cores_of_others, '.1f'):>6}  {right}"
    )


ROW_HEAD = (
    f"{'workload':27} {'#':>2}  {'verdict':34} {'conf':>5} {'wait':>6} {'seen':>6} {'first':>6} {'others':>6}  result"
)


def tables(results: list[Result]) -> str:
    """The confusion table and the sums, for a person."""
    lines = ["", "true class × class seen (right answers include a label's alternatives)"]
    columns = [*CLASSES, NO_VERDICT]
    lines.append(f"{'':13}" + "".join(f"{name:>12}" for name in columns) + f"{'right':>9}")
    table = confusion(results)
    for true in CLASSES:
        if true in table:
            counted = table[true]
            runs = [result for result in results if result.true_class == true]
            share = sum(result.class_right for result in runs) / len(runs)
            cells = "".join(f"{counted.get(name, 0) or '.':>12}" for name in columns)
            lines.append(f"{true:13}{cells}{share:9.0%}")
    total = summarise(results)
    lines += [
        "",
        f"class accuracy        {show(total['class_accuracy'], '.1%')} of {total['runs']} runs",
        f"  … label held        {show(total['class_accuracy_label_held'], '.1%')}"
        f" ({total['label_not_held']} runs in which the truth left the label's bounds)",
        f"cause accuracy        {show(total['cause_accuracy'], '.1%')} ({total['cause_unnamed']} left unnamed)",
        f"confident and wrong   {total['confident_and_wrong']} (confidence {CONFIDENT} or more)",
        f"no verdict            {total['failed']}",
        f"data-wait error       mean {points(total['wait_error_mean'])}, worst {points(total['wait_error_worst'])}"
        f" (absolute, over {total['wait_scored']} runs)",
        f"device-idle error     mean {points(total['gpu_idle_error_mean'])}",
        f"steps/s error         median {show(total['steps_error_median'], '.1%')}",
        f"first verdict         median {show(total['first_verdict_median_s'], '.1f')} s,"
        f" p90 {show(total['first_verdict_p90_s'], '.1f')} s (of runs with the right class)",
    ]
    return "\n".join(lines)


def points(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} points"


def as_json(results: list[Result], **more: Any) -> dict[str, Any]:
    """Everything, for a machine."""
    runs = [{**asdict(result), "wait_error": result.wait_error} for result in results]
    return {**more, "summary": summarise(results), "confusion": confusion(results), "runs": runs}
