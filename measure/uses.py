"""Judges programs that use a library like its users do, and compares each verdict with what the program measures itself.

    python measure uses                        all programs of tests/uses
    python measure uses NAME… --secs 15        some of them, watched so long
    python measure uses --gain                 also the gain of the first advice, where the program can follow it
    python measure uses --plan                 also what each step of the plan gains, where the program can follow it

The programs need tests/requirements-uses.txt; those whose library is missing are skipped. The exit status is 1 if a verdict is sure and
wrong, or if a program misses its own label.
"""

from __future__ import annotations

import ast
import collections
import fcntl
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from measure import options
from measure.monitor import Monitor, MonitorFailed
from measure.paths import TESTS, TRAINMON
from uses import tally
from uses.labels import SILENCE, USES, Use
from uses.training_labels import TRAINING
from uses.two_labels import TWO
from workloads.processes import cpu_seconds, descendants, die_with_parent, end_group, host_cpu_seconds

NAME = "measure uses"
PROGRAMS = (*USES, *TRAINING, *TWO)
FOLDER = os.path.join(TESTS, "uses")
#: A verdict with this confidence must be honest.
SURE = 0.8
#: A unit counts as counted within this error; a gain counts as within its bound that much above it, and a step of a plan as true
#: if it is that far from what was said.
RATE_ERROR, GAIN_ERROR, PLAN_ERROR = 0.03, 0.05, 0.15
#: Advice that promises less is not worth giving.
LEAST_GAIN = 1.05
#: Watching begins after so many units, which take at most so many seconds; and what trainmon may take beside the time that it watches.
UNITS, STARTS_S, PATIENCE_S = 3, 60.0, 30.0
#: The answer that is true of any program beside others that use the CPUs.
NEIGHBOUR = "cpu/noisy-neighbour"
#: CPUs that other processes use from which a verdict may blame them.
OTHERS_CPUS = 0.4
#: Seconds of each run of `--gain`, behind the first ones.
GAIN_S, SETTLES_S = 6.0, 1.0
LOOK_S = 0.2
#: Two programs that are measured at once would change what is true about each other.
LOCK = os.path.join(tempfile.gettempdir(), "trainmon-measure-uses.lock")


@dataclass
class Truth:
    """What a program measured of itself while it was watched."""

    units_per_s: float | None
    #: Share of the time of each part.
    parts: dict[str, float]
    #: CPUs that processes outside the job used.
    others: float = 0.0

    @classmethod
    def between(cls, first: tally.Reading, last: tally.Reading, others: float = 0.0) -> Truth:
        done, took = last.units - first.units, last.last - first.last
        rate = done / took if done and first.last and took > 0 else None
        seconds = last.at - first.at
        parts = {name: (spent - first.parts.get(name, 0.0)) / seconds for name, spent in last.parts.items() if seconds}
        return cls(rate, parts, others)


def said(verdict: dict[str, Any]) -> str:
    return "/".join(filter(None, (verdict.get("class"), verdict.get("cause"))))


def first_advice(verdict: dict[str, Any]) -> dict[str, Any]:
    """The advice that comes first, empty where there is none."""
    advice: list[dict[str, Any]] = verdict.get("advice") or [{}]
    return advice[0]


def honest(use: Use, verdict: dict[str, Any], others: float = 0.0) -> bool:
    """Whether the class and cause are true."""
    klass = verdict.get("class")
    if klass == "unknown":
        return bool(verdict.get("summary"))
    if said(verdict) == NEIGHBOUR and others >= OTHERS_CPUS:
        return True
    return klass in use.honest or said(verdict) in use.honest


def mislabeled(use: Use, parts: dict[str, float]) -> str | None:
    """The first part that takes another share than the label says."""
    for name, (low, high) in use.parts.items():
        share = parts.get(name, 0.0)
        if not low <= share <= high:
            return f"{name} takes {share:.2f} of the time, not {low} to {high}"
    return None


def rate_error(use: Use, verdict: dict[str, Any], units_per_s: float | None) -> float | None:
    """By how much the counted rate is wrong, as a share; None if it was not counted, or in another unit."""
    steps = verdict.get("steps") or {}
    rate = steps.get("per_s")
    if not rate or not units_per_s or steps.get("unit", use.unit) != use.unit:
        return None
    return float(rate) / units_per_s - 1


def right_place(use: Use, verdict: dict[str, Any]) -> bool:
    """Whether one of the last two frames of the place is one that the label names."""
    names = {name for frame in (verdict.get("place") or [])[-2:] for name in _names(frame)}
    return bool(names & set(use.place))


def _names(frame: dict[str, Any]) -> tuple[str, ...]:
    function = str(frame.get("function") or "")
    return function, function.rpartition(".")[2], os.path.basename(str(frame.get("file") or ""))


def allowed(use: Use, verdict: dict[str, Any]) -> bool:
    """Whether the first advice says what the label asks for, and no advice says what does not exist there."""
    texts = [f"{one.get('title') or ''}\n{one.get('why') or ''}".lower() for one in verdict.get("advice") or []]
    if any(word.lower() in text for word in use.never for text in texts):
        return False
    if said(verdict) == NEIGHBOUR:
        # They come first. Whether it is true is not the advice's part.
        return bool(texts)
    if any((one.get("speedup_at_most") or LEAST_GAIN) < LEAST_GAIN for one in verdict.get("advice") or []):
        return False
    if not texts:
        return not use.advice or SILENCE in use.advice
    return any(word.lower() in texts[0] for word in use.advice)


def followed(use: Use, verdict: dict[str, Any]) -> bool:
    """Whether the program can do what the first advice says."""
    title = str(first_advice(verdict).get("title") or "").lower()
    return use.fixable and allowed(use, verdict) and any(word.lower() in title for word in use.follows or use.advice)


def names_both(use: Use, verdict: dict[str, Any]) -> bool:
    """Whether both limits of a program that has two are named."""
    answers = {said(verdict), *(said(one) for one in verdict.get("other_findings") or [])}
    classes = {answer.partition("/")[0] for answer in answers}
    first = [one for one in use.honest if one != use.also]
    return (use.also in answers or use.also in classes) and any(one in answers or one in classes for one in first)


def gain_kept(gain: float, bound: float) -> bool:
    """Whether a gain is no more than was promised, and at least half of it."""
    return gain <= bound * (1 + GAIN_ERROR) and gain - 1 >= (bound - 1) / 2


def parts_of_plan(use: Use, verdict: dict[str, Any]) -> list[tuple[str, float]]:
    """The parts that the program fixes to follow the plan, with milliseconds of a step after each, up to the first that it cannot."""
    found: list[tuple[str, float]] = []
    for one in verdict.get("plan") or []:
        title, step_ms = str(one.get("title") or "").lower(), one.get("step_ms")
        part = next((part for part, words in use.plan.items() if any(word.lower() in title for word in words)), None)
        if part is None or not step_ms or part in dict(found):
            break
        found.append((part, float(step_ms)))
    return found


def missing(use: Use) -> str | None:
    """The first package that the program imports and that is not installed."""
    with open(os.path.join(FOLDER, f"{use.name}.py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    for name in names:
        top = name.partition(".")[0]
        if not os.path.exists(os.path.join(FOLDER, f"{top}.py")) and importlib.util.find_spec(top) is None:
            return top
    return None


class Running:
    """A program, started with its tally."""

    def __init__(self, use: Use, process: subprocess.Popen[bytes], folder: str, tally_path: str):
        self.use, self.process, self.folder, self.tally_path = use, process, folder, tally_path

    def read(self) -> tally.Reading:
        return tally.read(self.tally_path)

    def check(self) -> None:
        """Raises RuntimeError if it ended."""
        if self.process.poll() is not None:
            with open(os.path.join(self.folder, "output.txt"), encoding="utf-8", errors="replace") as file:
                lines = file.read().strip().splitlines()
            raise RuntimeError(f"ended, {lines[-1] if lines else 'without a word'}")

    def wait(self) -> None:
        """Until it counts. Raises RuntimeError if it does not."""
        until = time.monotonic() + STARTS_S
        while self.read().units < UNITS:
            self.check()
            if time.monotonic() > until:
                raise RuntimeError(f"counts nothing {STARTS_S:.0f} s after its start")
            time.sleep(LOOK_S)

    @property
    def pid(self) -> int:
        return (self.read().counting if self.use.attach_counting else None) or self.process.pid

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) or 0.0 for pid in (self.process.pid, *descendants(self.process.pid)))


@contextmanager
def running(use: Use, fixed: bool = False, parts: Sequence[str] = ()) -> Iterator[Running]:
    """Starts a program, with these parts fixed, once no other is measured on this machine, and kills it in the end."""
    parent = os.getpid()
    with open(LOCK, "a", encoding="ascii") as lock, tempfile.TemporaryDirectory(prefix="uses-", ignore_cleanup_errors=True) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(folder, "tally")
        tally.create(path)
        fixes = {"TALLY_FIXED": "1" if fixed else "0", "TALLY_FIXES": ",".join(parts)}
        env = {**os.environ, **fixes, "TALLY": path, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": folder}
        with open(os.path.join(folder, "output.txt"), "wb") as output:
            process = subprocess.Popen(
                [sys.executable, os.path.join(FOLDER, f"{use.name}.py")], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=lambda: die_with_parent(parent),
            )  # fmt: skip
        try:
            yield Running(use, process, folder, path)
        finally:
            end_group(process)


def watched(use: Use, monitor: Monitor, seconds: float) -> tuple[dict[str, Any], Truth]:
    """Runs a program and trainmon beside it."""
    with running(use) as program, open(os.path.join(program.folder, "verdict.json"), "w+b") as answer:
        program.wait()
        host, own, began = host_cpu_seconds(), program.cpu(), time.monotonic()
        judge = monitor.start(
            "", "diagnose", "--pid", str(program.pid), "--duration", f"{seconds:g}s", "--json", stdout=answer, stderr=subprocess.STDOUT
        )
        readings: list[tally.Reading] = []
        try:
            while judge.poll() is None and time.monotonic() < began + seconds + PATIENCE_S:
                readings.append(program.read())
                time.sleep(LOOK_S)
        finally:
            judge.kill()
            judge.wait()
        took = time.monotonic() - began
        others = (host_cpu_seconds() - host - (program.cpu() - own)) / took
        program.check()
        answer.seek(0)
        text = answer.read().decode(errors="replace").strip()
    if judge.returncode != 0:
        raise MonitorFailed(f"exit {judge.returncode}: {text.splitlines()[-1] if text else 'no message'}")
    verdict = json.loads(text)
    # The numbers of a verdict are those of its window.
    window = verdict.get("window_s") or seconds
    first = next(one for one in readings if one.at >= readings[-1].at - window)
    return verdict, Truth.between(first, readings[-1], others)


def rate_alone(use: Use, fixed: bool, parts: Sequence[str] = ()) -> float:
    """Units per second of a program that nothing watches."""
    with running(use, fixed, parts) as program:
        program.wait()
        time.sleep(SETTLES_S)
        first = program.read()
        time.sleep(GAIN_S)
        program.check()
        return Truth.between(first, program.read()).units_per_s or 0.0


def gained(use: Use) -> float:
    """How many times as fast it is once it follows the advice: the middle of two pairs."""
    pairs = [(rate_alone(use, False), rate_alone(use, True)) for _ in range(2)]
    return statistics.mean(after / before if before else 0.0 for before, after in pairs)


def plan_lines(use: Use, verdict: dict[str, Any], sums: Sums) -> Iterator[str]:
    """Follows the plan step by step. Before it, the program is measured as it is: what was said is said of what was seen."""
    followed: list[str] = []
    steps = parts_of_plan(use, verdict)
    seen = float((verdict.get("steps") or {}).get("per_s") or 0.0)
    before = rate_alone(use, False) if steps and seen else 0.0
    for part, step_ms in steps if before else ():
        followed.append(part)
        measured, planned = rate_alone(use, False, followed) / before, 1000 / step_ms / seen
        right = sums.add("step of a plan", abs(planned / measured - 1) <= PLAN_ERROR if measured else False)
        yield f"    with {', '.join(followed)} fixed {right}: {measured:.2f}× measured, {planned:.2f}× planned"
    if use.plan and len(steps) < len(use.plan):
        yield f"    the plan has {len(steps)} of {len(use.plan)} steps that the program can follow"


class Sums:
    """For each column, how many rows are right of those that were judged."""

    def __init__(self) -> None:
        self.right: collections.Counter[str] = collections.Counter()
        self.of: collections.Counter[str] = collections.Counter()

    def add(self, column: str, right: bool) -> str:
        self.right[column] += right
        self.of[column] += 1
        return "yes" if right else "NO"

    def lines(self) -> list[str]:
        return [f"{column}: {self.right[column]} of {count}" for column, count in self.of.items()]


def row(use: Use, verdict: dict[str, Any], truth: Truth, sums: Sums) -> list[str]:
    """The lines about one program."""
    confidence = verdict.get("confidence") or 0.0
    true = honest(use, verdict, truth.others)
    cells = [f"{use.name:26} {said(verdict):32} {confidence:.2f} honest {sums.add('class and cause honest', true):3}"]
    sure_and_wrong = not true and confidence >= SURE
    sums.add("not sure and wrong", not sure_and_wrong)
    if sure_and_wrong:
        cells.append("SURE AND WRONG")
    if use.unit:
        error = rate_error(use, verdict, truth.units_per_s)
        counted = sums.add("unit within 3%", error is not None and abs(error) <= RATE_ERROR)
        steps = verdict.get("steps") or {}
        seen = f"{steps['per_s']:.2f} {steps.get('unit') or '–'}" if steps.get("per_s") else "–"
        cells.append(
            f"counted {counted}: {seen}/s beside {truth.units_per_s or 0:.2f} {use.unit}" + (f", {error:+.1%}" if error is not None else "")
        )
    place = verdict.get("place") or []
    shown = " → ".join(f"{one.get('function')} ({os.path.basename(str(one.get('file')))}:{one.get('line')})" for one in place) or "–"
    if use.place:
        shown += f": {sums.add('place', right_place(use, verdict))}"
    advice = first_advice(verdict)
    good = sums.add("advice", allowed(use, verdict))
    lines = [" | ".join(cells), f"    place {shown}", f"    advice {good}: {advice.get('title') or 'none'}"]
    if use.also:
        lines.append(f"    both limits ({use.also}): {sums.add('both limits', names_both(use, verdict))}")
    if plan := verdict.get("plan"):
        lines.append("    plan: " + "; ".join(f"{one.get('title')} ({one.get('step_ms') or '–'} ms)" for one in plan))
    job = verdict.get("job") or {}
    if "kind" in job:
        lines.append(f"    kind {job['kind']}: {sums.add('kind', job['kind'] in use.kind.split())}")
    # A program whose loop is its own may be run by no library.
    if job.get("library"):
        lines.append(f"    library {job['library']}: {sums.add('library', job['library'] == use.library)}")
    if truth.others >= OTHERS_CPUS:
        lines.append(f"    other processes used {truth.others:.1f} CPUs")
    return lines


def judged(use: Use, monitor: Monitor, seconds: float, gain: bool, plan: bool, sums: Sums) -> None:
    """Runs one program and prints what came of it."""
    try:
        verdict, truth = watched(use, monitor, seconds)
        if fault := mislabeled(use, truth.parts):
            sums.add("label true", False)
            print(f"{use.name:26} NOT AS LABELED: {fault} (said {said(verdict)}, others used {truth.others:.1f} CPUs)", flush=True)
            return
        sums.add("label true", True)
        lines = row(use, verdict, truth, sums)
        if truth.parts:
            lines.append("    measured: " + ", ".join(f"{name} {share:.2f}" for name, share in truth.parts.items()))
        if gain and followed(use, verdict):
            bound = first_advice(verdict).get("speedup_at_most")
            measured = gained(use)
            if bound:
                kept = sums.add("gain", gain_kept(measured, bound))
                lines.append(f"    gain {kept}: {measured:.2f}× measured, at most {bound:.2f}× promised")
            else:
                lines.append(f"    gain {measured:.2f}× measured, nothing promised")
        if plan and use.plan:
            lines += plan_lines(use, verdict, sums)
        print("\n".join(lines), flush=True)
    except (MonitorFailed, OSError, RuntimeError, ValueError) as error:
        sums.add("ran", False)
        print(f"{use.name:26} failed: {error}", flush=True)


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs")
    parser.add_argument("--secs", type=float, default=15.0, metavar="SECONDS", help="seconds to watch each [15]")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    parser.add_argument("--gain", action="store_true", help="also measure what following the first advice gains")
    parser.add_argument("--plan", action="store_true", help="also measure what following the plan step by step gains")
    parser.add_argument("--list", action="store_true", help="list the programs, and run none")
    args = parser.parse_args(words)
    known = {use.name: use for use in PROGRAMS}
    if unknown := [name for name in args.names if name not in known]:
        parser.error(f"no program is named {', '.join(unknown)}; --list names them")
    chosen = [known[name] for name in args.names] or list(PROGRAMS)
    if args.list:
        for use in chosen:
            print(f"{use.name:26} {use.library:20} {use.kind:24} {', '.join(use.honest)}")
        return 0
    options.end_as_interrupted()
    monitor, sums, skipped = Monitor(os.path.abspath(args.trainmon), None), Sums(), 0
    for use in chosen:
        if package := missing(use):
            skipped += 1
            print(f"{use.name:26} skipped: {package} is not installed")
        else:
            judged(use, monitor, args.secs, args.gain, args.plan, sums)
    print("\n".join(["", *sums.lines(), *([f"skipped: {skipped}"] if skipped else [])]))
    failed = any(sums.right[column] < sums.of[column] for column in ("ran", "label true", "not sure and wrong"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
