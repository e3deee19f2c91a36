"""Compares verdicts with labels and sums them up. Pure: this starts no process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from measure.numbers import known, mean, median, percentile
from measure.text import markdown, show
from workloads import culprits, stages

if TYPE_CHECKING:
    from workloads.labels import Label
    from workloads.truth import Truth

#: A wrong class with at least this confidence is the worst possible error.
CONFIDENT = 0.8
CLASSES = ("data-loader", "io", "cpu", "gpu", "balanced", "idle", "unknown")
NO_VERDICT = "none"
#: Seconds within which a changed bottleneck must be named.
FOLLOWED_WITHIN_S = 8.0
#: Steps per second are right within this fraction of the truth.
STEPS_WITHIN = 0.03

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
    confidence_by_rules: float | None = None
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
    #: CPUs that processes outside the job used meanwhile, including trainmon and helpers of the workload.
    cores_of_others: float | None = None
    first_verdict_s: float | None = None
    summary: str = ""
    #: The advice of the verdict, the most important first.
    advice: list[dict[str, Any]] = field(default_factory=list)
    #: The largest gain of any tuning, as a factor.
    ceiling: float | None = None
    #: Why there is no verdict.
    error: str | None = None
    held_out: bool = False
    #: Seconds from starting trainmon to the first right class that stays.
    first_right_s: float | None = None
    #: Share of each stage, true and seen, of each worker with both.
    stages: list[dict[str, tuple[float, float]]] = field(default_factory=list)
    #: Workers whose true stages are known, but missing in the verdict.
    stages_missing: int = 0
    #: (function seen, whether it is right) of each worker, of the main thread, of its first synchronising line.
    hottest: list[tuple[str, bool]] = field(default_factory=list)
    hottest_missing: int = 0
    #: Stalls come every so many steps, by the label and the workload's own record; 0 where both know of none, None
    #: where they differ.
    stall_true: int | None = None
    stall_seen: int | None = None
    #: For a program that changes: whether the class was right up to then, and seconds until it was again and stayed so.
    right_before: bool | None = None
    followed_s: float | None = None
    #: Whether the chain of waits ends where it does in truth; None where the verdict has no chain, or the truth no end.
    culprit_right: bool | None = None
    #: Of several ranks: whether the late one is named, or none where none is late.
    late_rank_right: bool | None = None
    #: Which of the verdict's numbers do not agree with each other, as sentences; None where that was not checked.
    contradictions: list[str] | None = None

    @property
    def wait_error(self) -> float | None:
        """Seen minus true, where both are known."""
        if self.wait_true is None or self.wait_seen is None:
            return None
        return self.wait_seen - self.wait_true

    @property
    def steps_error(self) -> float | None:
        """Part of the true steps a second by which those seen are off."""
        if not self.steps_true or self.steps_seen is None:
            return None
        return abs(self.steps_seen - self.steps_true) / self.steps_true

    @property
    def stage_errors(self) -> list[float]:
        return [abs(seen - true) for worker in self.stages for true, seen in worker.values()]

    @property
    def confident_and_wrong(self) -> bool:
        return not self.class_right and (self.confidence or 0.0) >= CONFIDENT


def judge(
    result: Result,
    verdict: dict[str, Any],
    acceptable: Answers,
    classes: Iterable[tuple[float, str]] = (),
    attached: float = 0.0,
) -> None:
    """Fills in what a verdict says, and whether it is right; and since when `classes`, (moment, class), were."""
    answers = list(acceptable)
    result.seen_class = str(verdict.get("class"))
    result.seen_cause = verdict.get("cause")
    result.confidence = verdict.get("confidence")
    result.confidence_by_rules = verdict.get("confidence_by_rules")
    result.first_verdict_s = verdict.get("first_verdict_s")
    result.summary = str(verdict.get("summary") or "")
    result.advice = list(verdict.get("advice") or [])
    result.ceiling = (verdict.get("ceiling") or {}).get("speedup_at_most")
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

    if result.class_right and result.true_class != "unknown":
        result.first_right_s = first_right([klass for klass, _cause in answers], classes, attached)


def first_right(right: Iterable[str], classes: Iterable[tuple[float, str]], attached: float) -> float | None:
    """Seconds from `attached` to the first class that is right and stays so. Not to know is no answer here."""
    wanted = set(right) - {"unknown"}
    since: float | None = None
    for moment, klass in classes:
        if klass not in wanted:
            since = None
        elif since is None:
            since = moment - attached
    return since


def judge_change(result: Result, label: Label, classes: Iterable[tuple[float, str]], changed: float) -> None:
    """Holds what was said around the moment of a change against what was true before and after it."""
    said = list(classes)
    until = [klass for moment, klass in said if moment <= changed]
    result.right_before = bool(until) and until[-1] in {klass for klass, _cause in label.before}
    after = [(moment, klass) for moment, klass in said if moment > changed]
    result.followed_s = first_right([klass for klass, _cause in label.acceptable()], after, changed)


def judge_details(
    result: Result, verdict: dict[str, Any], label: Label, truth: Truth, begin: float, end: float
) -> None:
    """Holds numbers, stages and functions against the truth of a window. What a verdict leaves out is not scored."""
    if label.wait_scored:
        result.wait_true = truth.wait_share(begin, end)
        result.busy_true = truth.busy_share(begin, end)
        result.steps_true = truth.steps_per_s(begin, end)
        lost = truth.lost_share(begin, end) if label.lost else None
        result.label_held = label.holds(result.wait_true, result.busy_true, lost)
        rhythm = truth.stall_period(begin, end)
        # Scored only where label and record agree: noise can hide a rhythm, or make one for a while.
        result.stall_true = (rhythm or 0) if rhythm == label.stall_every else None
    result.stall_seen = (verdict.get("steps") or {}).get("stall_every")
    node, ends = culprits.last_node(verdict.get("chain")), truth.culprits_in(begin, end)
    if node is not None and ends:
        result.culprit_right = culprits.is_right(node, ends)
    if "late" in truth.events and label.klass != "idle":
        named = [rank.get("pid") for rank in verdict.get("ranks") or [] if rank.get("straggler")]
        result.late_rank_right = named == [pid for pid in (truth.events["late"]["pid"],) if pid is not None]
    for worker in verdict.get("workers") or []:
        clock = truth.stages.get(worker.get("pid"))
        # Over a run that changes, or stands still, the verdict's window is not the whole one.
        steady = label.wait_scored or label.klass in ("data-loader", "io")
        true = clock.shares(begin, end) if clock and clock.marked and steady else None
        seen = worker.get("stages")
        if true is not None and seen is not None:
            result.stages.append({name: (true[name], float(seen.get(name) or 0.0)) for name in stages.NAMES})
        elif true is not None:
            result.stages_missing += 1
        if label.hottest:
            judge_function(result, worker.get("hottest"), label.hottest)
    main = verdict.get("main_thread") or {}
    if label.hottest_main:
        judge_function(result, next(iter(main.get("hottest") or []), None), label.hottest_main)
    if label.sync_lines:
        judge_function(result, next(iter(main.get("sync_lines") or []), None), label.sync_lines)


def judge_function(result: Result, seen: dict[str, Any] | None, right: tuple[str, ...]) -> None:
    if seen is None:
        result.hottest_missing += 1
    else:
        function = last_part(str(seen.get("function")))
        result.hottest.append((function, function in right))


def last_part(function: str) -> str:
    """The last dotted part of a qualified name; a comprehension or lambda stands for the function that it is in."""
    parts = [part for part in function.split(".") if not part.startswith("<")]
    return parts[-1] if parts else function


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
    errors = [abs(error) for error in known(result.wait_error for result in results)]
    firsts = known(result.first_verdict_s for result in results if result.class_right)
    steps = known(result.steps_error for result in results)
    stage_errors = [error for result in results for error in result.stage_errors]
    functions = [right for result in results for _function, right in result.hottest]
    rhythms = [result for result in results if result.stall_true]
    first_right_s = known(result.first_right_s for result in results)
    changes = [result for result in results if result.right_before is not None]
    followed_s = known(result.followed_s for result in changes)
    culprits_right = known(result.culprit_right for result in results)
    late_ranks_right = known(result.late_rank_right for result in results)
    contradictions = known(result.contradictions for result in results)
    idles = [
        abs(result.gpu_idle_seen - (1.0 - result.busy_true))
        for result in results
        if result.gpu_idle_seen is not None and result.busy_true is not None
    ]
    return {
        "runs": len(results),
        "class_accuracy": mean(result.class_right for result in results),
        "class_accuracy_label_held": mean(result.class_right for result in results if result.label_held),
        "label_not_held": sum(not result.label_held for result in results),
        "cause_accuracy": mean(result.cause == "right" for result in with_cause),
        "cause_unnamed": sum(result.cause == "unnamed" for result in with_cause),
        "confident_and_wrong": sum(result.confident_and_wrong for result in results),
        "failed": sum(result.error is not None for result in results),
        "contradicting": sum(map(bool, contradictions)),
        "contradictions_checked": len(contradictions),
        "wait_error_mean": mean(errors),
        "wait_error_worst": max(errors, default=None),
        "wait_scored": len(errors),
        "gpu_idle_error_mean": mean(idles),
        "steps_error_median": median(steps),
        "steps_within": mean(error <= STEPS_WITHIN for error in steps),
        "steps_scored": len(steps),
        "steps_missing": sum(result.steps_true is not None and result.steps_seen is None for result in results),
        "stage_error_mean": mean(stage_errors),
        "stage_error_worst": max(stage_errors, default=None),
        "stages_scored": sum(len(result.stages) for result in results),
        "stages_missing": sum(result.stages_missing for result in results),
        "hottest_accuracy": mean(functions),
        "hottest_scored": len(functions),
        "hottest_missing": sum(result.hottest_missing for result in results),
        "stall_exact": mean(result.stall_seen == result.stall_true for result in rhythms),
        "stall_scored": len(rhythms),
        "stall_missing": sum(result.stall_seen is None for result in rhythms),
        "stall_false": sum(result.stall_true == 0 and result.stall_seen is not None for result in results),
        "culprit_right": sum(culprits_right),
        "culprit_scored": len(culprits_right),
        "late_rank_right": sum(late_ranks_right),
        "late_rank_scored": len(late_ranks_right),
        "changes_scored": len(changes),
        "changes_right_before": sum(bool(result.right_before) for result in changes),
        "changes_followed": sum(followed <= FOLLOWED_WITHIN_S for followed in followed_s),
        "followed_median_s": median(followed_s),
        "brier": brier(results),
        "calibration_error": calibration_error(results),
        "calibration_scored": len(claims(results)),
        "first_right_median_s": median(first_right_s),
        "first_right_p90_s": percentile(first_right_s, 0.9),
        "first_right_scored": len(first_right_s),
        "first_verdict_median_s": median(firsts),
        "first_verdict_p90_s": percentile(firsts, 0.9),
    }


def claims(results: list[Result]) -> list[tuple[float, bool]]:
    """(confidence, whether it is right) of each verdict that claims something: class, and cause where one is asked for."""
    return [
        (result.confidence, result.class_right and result.cause != "wrong")
        for result in results
        if result.confidence is not None and result.seen_class not in ("unknown", NO_VERDICT)
    ]


def by_tenth(results: list[Result]) -> dict[int, list[tuple[float, bool]]]:
    """Claims by the tenth that their confidence lies in, 0 to 9."""
    tenths: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in claims(results):
        tenths.setdefault(min(9, max(0, int(confidence * 10 + 1e-9))), []).append((confidence, right))
    return dict(sorted(tenths.items()))


def brier(results: list[Result]) -> float | None:
    """Mean squared distance of confidence from being right (1) or not (0): 0 is perfect (Brier, 1950)."""
    return mean((confidence - right) ** 2 for confidence, right in claims(results))


def calibration_error(results: list[Result]) -> float | None:
    """Expected calibration error: how far the part that is right is from the mean confidence, over tenths."""
    total = len(claims(results))
    off = [
        abs(sum(confidence for confidence, _ in tenth) - sum(right for _, right in tenth))
        for tenth in by_tenth(results).values()
    ]
    return sum(off) / total if total else None


def reliability(results: list[Result]) -> list[tuple[str, int, str, str]]:
    """For each tenth of confidence: the verdicts in it, their mean confidence, and the part that is right."""
    rows = []
    for tenth, found in by_tenth(results).items():
        sure = sum(confidence for confidence, _ in found) / len(found)
        right = sum(right for _, right in found) / len(found)
        rows.append((f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}", len(found), f"{sure:.2f}", f"{right:.0%}"))
    return rows


def row(result: Result) -> str:
    """One line about one run."""
    right = "ok" if result.class_right else "WRONG"
    if result.class_right and result.cause in ("wrong", "unnamed"):
        right = f"ok, cause {result.cause}"
    if result.confident_and_wrong:
        right = "CONFIDENTLY WRONG"
    if any(not named_right for _function, named_right in result.hottest):
        right += f", hottest {'/'.join(sorted({function for function, was in result.hottest if not was}))}"
    if result.stall_true and result.stall_seen not in (None, result.stall_true):
        right += f", stalls every {result.stall_seen} instead of {result.stall_true}"
    if result.culprit_right is False:
        right += ", chain's end wrong"
    if result.late_rank_right is False:
        right += ", late rank wrong"
    if result.right_before is not None:
        followed = "not followed" if result.followed_s is None else f"followed after {result.followed_s:.1f} s"
        right += f", {followed}" + ("" if result.right_before else ", wrong before")
    if result.contradictions:
        right += ", contradicts itself"
    if not result.label_held:
        right += ", truth outside the label's bounds"
    if result.error is not None:
        right = f"FAILED: {result.error}"
    seen = f"{result.seen_class}/{result.seen_cause or '-'}"
    return (
        f"{result.workload:27} {result.run:>2}  {seen:34} {show(result.confidence):>5} "
        f"{show(result.wait_true):>6} {show(result.wait_seen):>6} {show(result.first_right_s, '.1f'):>6} "
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
    lines += ["", f"{'':35}" + "".join(f"{name:>32}" for name in COLUMNS)]
    lines += [f"{name:35}" + "".join(f"{cell:>32}" for cell in cells) for name, cells in sums(results)]
    lines.append(f"\n{'confidence':13}{'verdicts':>9}{'mean':>8}{'right':>8}")
    lines += [f"{tenth}{count:>15}{sure:>8}{right:>8}" for tenth, count, sure, right in reliability(results)]
    return "\n".join([*lines, *named(results)])


def as_markdown(results: list[Result]) -> str:
    """The tables of docs/measured.md: the lines of `SUMS` that are `PUBLISHED` and that a run was scored for, and confidence."""
    lines = [
        (name, *cells)
        for name, cells in sums(results)
        if name in PUBLISHED and not all(cell.startswith(NOTHING_SCORED) for cell in cells)
    ]
    confidence = markdown(("confidence", "verdicts", "mean", "right"), reliability(results))
    return "\n".join([*markdown(("", *COLUMNS), lines), "", *confidence])


def sums(results: list[Result]) -> list[tuple[str, list[str]]]:
    """Each line of `SUMS`: its name, and a cell for each of `COLUMNS`."""
    held_out = [result for result in results if result.held_out]
    totals = [summarise(runs) if runs else None for runs in (results, held_out)]
    return [(name, ["-" if total is None else shown(total) for total in totals]) for name, shown in SUMS]


def named(results: list[Result]) -> list[str]:
    """A line for each verdict that must not be: sure and wrong, or with numbers that contradict each other."""
    lines = []
    for result in results:
        said = f"{result.seen_class}/{result.seen_cause or '-'} {show(result.confidence)}"
        if result.confident_and_wrong:
            lines.append(f"sure and wrong        {result.workload} #{result.run}: {said}")
        if result.contradictions:
            more = len(result.contradictions) - 1
            first = result.contradictions[0] + (f" (and {more} more)" if more else "")
            lines.append(f"contradicts itself    {result.workload} #{result.run}: {said}: {first}")
    return ["", *lines] if lines else []


def points(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} points"


def _unscored(missing: int) -> str:
    return f", {missing} not scored" if missing else ""


def _but(**counts: int) -> str:
    """What a share leaves out, in brackets; nothing where it leaves out nothing."""
    left_out = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items() if count)
    return f" ({left_out})" if left_out else ""


#: All results, and those of programs that no threshold was fitted to.
COLUMNS = ("all", "unseen")
#: How a cell begins that sums up no run.
NOTHING_SCORED = ("-", "0 of 0")
#: The lines under the confusion table: name, and how its cell is written.
SUMS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("runs", lambda t: str(t["runs"])),
    ("class right", lambda t: show(t["class_accuracy"], ".1%")),
    ("… where the label held", lambda t: f"{show(t['class_accuracy_label_held'], '.1%')}{_but(left_bounds=t['label_not_held'])}"),
    ("cause right", lambda t: f"{show(t['cause_accuracy'], '.1%')}{_but(unnamed=t['cause_unnamed'])}"),
    (f"wrong at {CONFIDENT:.0%} confidence or more", lambda t: str(t["confident_and_wrong"])),
    ("no verdict", lambda t: str(t["failed"])),
    ("contradicts itself", lambda t: f"{t['contradicting']} of {t['contradictions_checked']}"),
    ("time waiting for data, mean error", lambda t: f"{points(t['wait_error_mean'])} of {t['wait_scored']}"),
    ("… worst", lambda t: points(t["wait_error_worst"])),
    ("GPU idle time, mean error", lambda t: points(t["gpu_idle_error_mean"])),
    ("steps/s, median error", lambda t: show(t["steps_error_median"], ".1%")),
    (
        f"steps/s within {STEPS_WITHIN:.0%}",
        lambda t: f"{show(t['steps_within'], '.0%')} of {t['steps_scored']}{_unscored(t['steps_missing'])}",
    ),
    (
        "stall period right",
        lambda t: f"{show(t['stall_exact'], '.0%')} of {t['stall_scored']}{_but(unseen=t['stall_missing'], false=t['stall_false'])}",
    ),
    (
        "worker stages, mean error",
        lambda t: f"{points(t['stage_error_mean'])} of {t['stages_scored']}{_unscored(t['stages_missing'])}",
    ),
    ("… worst", lambda t: points(t["stage_error_worst"])),
    (
        "hottest function right",
        lambda t: f"{show(t['hottest_accuracy'], '.0%')} of {t['hottest_scored']}{_unscored(t['hottest_missing'])}",
    ),
    ("wait chain ends at the culprit", lambda t: f"{t['culprit_right']} of {t['culprit_scored']}"),
    ("late rank named", lambda t: f"{t['late_rank_right']} of {t['late_rank_scored']}"),
    (
        f"change followed within {FOLLOWED_WITHIN_S:.0f} s",
        lambda t: f"{t['changes_followed']} of {t['changes_scored']}, median {show(t['followed_median_s'], '.1f')} s",
    ),
    ("… right before the change", lambda t: f"{t['changes_right_before']} of {t['changes_scored']}"),
    ("Brier score", lambda t: f"{show(t['brier'], '.3f')} of {t['calibration_scored']}"),
    ("expected calibration error", lambda t: show(t["calibration_error"], ".3f")),
    ("first right class, median", lambda t: f"{show(t['first_right_median_s'], '.1f')} s of {t['first_right_scored']}"),
    ("… 90th percentile", lambda t: f"{show(t['first_right_p90_s'], '.1f')} s"),
)

#: Those of them that docs/measured.md shows.
PUBLISHED = (
    "runs", "class right", "cause right", f"wrong at {CONFIDENT:.0%} confidence or more", "contradicts itself",
    "time waiting for data, mean error", f"steps/s within {STEPS_WITHIN:.0%}", "worker stages, mean error",
    "hottest function right", "wait chain ends at the culprit", "late rank named", f"change followed within {FOLLOWED_WITHIN_S:.0f} s",
    "Brier score", "first right class, median",
)  # fmt: skip


def as_json(results: list[Result], **more: Any) -> dict[str, Any]:
    """Everything, for a machine."""
    runs = [{**asdict(result), "wait_error": result.wait_error} for result in results]
    held_out = [result for result in results if result.held_out]
    return {
        **more,
        "summary": summarise(results),
        "summary_held_out": summarise(held_out) if held_out else None,
        "confusion": confusion(results),
        "runs": runs,
    }
