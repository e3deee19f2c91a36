"""trainmon's own cost: CPU and memory, with and without the screen, and the time to its first frame.

Two builds are compared in pairs on the same job, so that other load on the machine affects both.

CPU includes the programs that trainmon starts (py-spy): the kernel adds a child's time to its parent's when it ends. The job is
one training loop with eight light workers, among three hundred idle processes. With `busy` it is a loop that starves beside
workers that want every CPU four times, while other programs want every CPU too.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from measure.monitor import Monitor
from measure.numbers import median
from measure.terminal import END_OF_FRAME, Terminal
from measure.text import markdown, show
from workloads.labels import Label, by_name
from workloads.launch import Launched
from workloads.processes import cpu_seconds, ending

JOB = "compute-bound-crowd"
BUSY_JOB = "too-many-workers"
#: Seconds for which `diagnose` watches.
DIAGNOSE_S = 18.0
#: Seconds until which the verdict is new, and from which it is stable.
YOUNG_UNTIL_S, STEADY_FROM_S = 15.0, 20.0
#: A verdict that has held for a minute costs less. Reported if the run lasts half a minute longer.
SETTLED_FROM_S, SETTLED_LEAST_S = 80.0, 30.0
#: Shorter runs do not reach the steady state.
LEAST_S = 50.0
#: A frame without end marks is complete when the terminal has been quiet for this long.
QUIET_S = 0.03
ENOUGH_BYTES = 400
#: Seconds after which a program is killed if its key does not end it.
LEAVING_S = 3.0


@dataclass
class Cost:
    """The cost of one run."""

    mode: str
    seconds: float
    #: Percent of one core, children included: the whole run, its start, and without its start.
    cpu_pct: float
    young_cpu_pct: float | None
    steady_cpu_pct: float | None
    settled_cpu_pct: float | None
    peak_rss_mib: float | None
    status: int
    first_frame_ms: float | None = None
    bytes_per_s: float | None = None
    #: What its own verdict says that it costs, percent of one core.
    said_cpu_pct: float | None = None
    #: Context switches of its threads, also without an event; children do not count.
    switches_per_s: float | None = None


@dataclass(frozen=True)
class Pair:
    """The cost of two builds in the same mode, measured one right after the other."""

    this: Cost
    other: Cost


#: Figures to compare two builds: name, field of `Cost`, format.
COMPARED = (
    ("CPU %", "cpu_pct", ".2f"),
    ("to 15 s", "young_cpu_pct", ".2f"),
    ("to 80 s", "steady_cpu_pct", ".2f"),
    ("later", "settled_cpu_pct", ".2f"),
    ("RSS MiB", "peak_rss_mib", ".1f"),
    ("frame ms", "first_frame_ms", ".0f"),
    ("bytes/s", "bytes_per_s", ".0f"),
    ("says", "said_cpu_pct", ".2f"),
    ("switches/s", "switches_per_s", ".0f"),
)
#: The figures that --max-ratio limits.
HELD = ("young_cpu_pct", "steady_cpu_pct", "settled_cpu_pct")


class Watch:
    """Follows a process until it ends. Its peak memory is its own, not that of the parent that forked it."""

    def __init__(self, pid: int):
        self.pid, self.began = pid, time.monotonic()
        self.peak_kib: int | None = None
        #: (Seconds since it began, CPU seconds, and context switches until then.)
        self.cpu: list[tuple[float, float]] = []
        self.switches: list[tuple[float, float]] = []

    def look(self) -> None:
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
                for line in file:
                    if line.startswith("VmHWM:"):
                        self.peak_kib = int(line.split()[1])
            self.switches.append((time.monotonic() - self.began, context_switches(self.pid)))
        except (OSError, ValueError):
            return
        used = cpu_seconds(self.pid, children=True)
        if used is not None:
            self.cpu.append((time.monotonic() - self.began, used))

    def cost(self, mode: str, seconds: float, usage: resource.struct_rusage, status: int) -> Cost:
        def pct(begin: float, end: float, least_s: float) -> float | None:
            per_s = growth([one for one in self.cpu if begin <= one[0] < end], least_s)
            return None if per_s is None else 100 * per_s

        young = [one for one in self.cpu if one[0] <= YOUNG_UNTIL_S]
        return Cost(
            mode=mode,
            seconds=seconds,
            cpu_pct=100 * (usage.ru_utime + usage.ru_stime) / seconds,
            young_cpu_pct=100 * young[-1][1] / young[-1][0] if young else None,
            steady_cpu_pct=pct(STEADY_FROM_S, SETTLED_FROM_S, 1.0),
            settled_cpu_pct=pct(SETTLED_FROM_S, math.inf, SETTLED_LEAST_S),
            peak_rss_mib=self.peak_kib / 1024 if self.peak_kib else None,
            status=os.waitstatus_to_exitcode(status),
            # The count of a thread that ended meanwhile is lost.
            switches_per_s=growth(self.switches, 0.0),
        )


def growth(moments: list[tuple[float, float]], least_s: float) -> float | None:
    """How much a counter grew per second between the first and the last moment; None if they are too close."""
    if len(moments) < 2 or moments[-1][0] - moments[0][0] < least_s:
        return None
    (began, first), (ended, last) = moments[0], moments[-1]
    return max(0.0, last - first) / (ended - began)


def context_switches(pid: int) -> int:
    """Context switches of all threads of a process."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8", errors="replace") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches:" in line)
    return total


def headless(monitor: Monitor, job: Launched, seconds: float, mode: str = "headless", *options: str) -> Cost:
    log = os.path.join(job.folder, f"cost-{time.monotonic_ns()}.csv")
    arguments = ("--pid", str(job.pid), "--log", log, "--duration", f"{seconds:g}s", *options)
    process = monitor.start(job.device, *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return to_its_end(process, seconds, mode)


def diagnose(monitor: Monitor, job: Launched) -> Cost:
    """One verdict, and what it says of its own cost."""
    path = os.path.join(job.folder, "cost-verdict.json")
    with open(path, "wb") as out:
        arguments = ("diagnose", "--pid", str(job.pid), "--duration", f"{DIAGNOSE_S:g}s", "--json")
        process = monitor.start(job.device, *arguments, stdout=out, stderr=subprocess.DEVNULL)
        cost = to_its_end(process, DIAGNOSE_S, "diagnose")
    with open(path, encoding="utf-8") as file:
        cost.said_cpu_pct = (json.load(file).get("self") or {}).get("cpu_pct")
    return cost


def to_its_end(
    process: subprocess.Popen[bytes], seconds: float, mode: str, meanwhile: Callable[[], None] = lambda: None
) -> Cost:
    """Watches a program that ends after some seconds, and does something four times a second."""
    began = time.monotonic()
    watch = Watch(process.pid)
    with ending(process):
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return watch.cost(mode, time.monotonic() - began, usage, status)
            if time.monotonic() - began > seconds + 10:
                raise RuntimeError(f"{mode}: trainmon did not end after its duration")
            watch.look()
            meanwhile()
            time.sleep(0.25)


def screen(monitor: Monitor, job: Launched, seconds: float) -> Cost:
    """trainmon's screen."""
    with Terminal.of_monitor(monitor, job.device, "--pid", str(job.pid)) as terminal:
        return in_terminal("screen", terminal, seconds)


def in_terminal(mode: str, terminal: Terminal, seconds: float, key: str = "q") -> Cost:
    """Reads everything that a program writes to its terminal, and quits it with `key` after some seconds."""
    began, process = terminal.began, terminal.process
    watch = Watch(process.pid)
    first: float | None = None
    last_byte, next_look, left_at = began, 0.0, began + seconds
    start = b""
    leaving = False
    while True:
        now = time.monotonic()
        try:
            piece = terminal.read(now + (QUIET_S if first is None else 0.25))
        except RuntimeError:
            piece = None
            time.sleep(0.01)  # it has ended, or is about to
        if piece:
            last_byte = time.monotonic()
            start += piece if first is None else b""
        if first is None and (END_OF_FRAME in start or (not piece and len(start) >= ENOUGH_BYTES)):
            first = last_byte - began
        if now >= next_look:
            watch.look()
            next_look = now + 0.25
        if not leaving and now >= left_at:
            terminal.press(key)
            leaving = True
        if leaving and now >= left_at + LEAVING_S:
            # Not through `process`, which would collect the exit status before wait4.
            os.kill(process.pid, signal.SIGTERM if now < left_at + 2 * LEAVING_S else signal.SIGKILL)
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            took = time.monotonic() - began
            cost = watch.cost(mode, took, usage, status)
            cost.first_frame_ms = None if first is None else 1000 * first
            cost.bytes_per_s = sum(len(piece) for _, piece in terminal.arrivals) / took
            return cost


def crowded(crowd: str = "crowd") -> Label:
    """The job, among idle processes."""
    return dataclasses.replace(by_name(JOB), companions=(crowd,))


def compare(
    monitor: Monitor, other: Monitor, seconds: float, pairs: int, data: str | None, busy: bool = False
) -> list[Pair]:
    """Lets two builds watch the same job in turn, with and without the screen. They alternate in going first."""
    with Launched(busy_machine() if busy else crowded(), 4 * pairs * (seconds + 10) + 180, data) as job:
        job.wait_until_watchable()
        time.sleep(2.0)
        found = []
        for number in range(pairs):
            for run in (headless, screen):
                order = (other, monitor) if number % 2 else (monitor, other)
                costs = {one is monitor: run(one, job, seconds) for one in order}
                found.append(Pair(costs[True], costs[False]))
                print(f"pair {number + 1}, {costs[True].mode}: measured", flush=True)
    return found


def busy_machine() -> Label:
    """A job that leaves no CPU free, among idle processes and others that want every CPU."""
    return dataclasses.replace(by_name(BUSY_JOB), companions=("crowd", "spinners"))


def measure(monitor: Monitor, seconds: float, data: str | None, busy: bool = False) -> list[Cost]:
    """Measures with and without the screen, and `diagnose`; starts the screen three more times for its first frame."""
    with Launched(busy_machine() if busy else crowded(), 2 * seconds + 240, data) as job:
        job.wait_until_watchable()
        time.sleep(2.0)
        costs = [headless(monitor, job, seconds), screen(monitor, job, seconds), diagnose(monitor, job)]
        frames = [costs[1].first_frame_ms] + [screen(monitor, job, 1.0).first_frame_ms for _ in range(3)]
        costs[1].first_frame_ms = median(frames)
    return costs


def report(costs: list[Cost], as_markdown: bool = False, busy: bool = False) -> str:
    columns = COMPARED[:-1]
    names = [name for name, _field, _form in columns]
    rows = [(cost.mode, *(show(getattr(cost, field), form) for _name, field, form in columns)) for cost in costs]
    if as_markdown:
        return "\n".join(markdown(("", *names), rows))
    lines = [f"{'mode':10} " + " ".join(f"{name:>9}" for name in names) + "  exit"]
    for cost, (mode, *cells) in zip(costs, rows, strict=True):
        lines.append(f"{mode:10} " + " ".join(f"{cell:>9}" for cell in cells) + f" {cost.status:5}")
    lines.append(
        f"CPU in percent of one core, py-spy included: the whole run, its first {YOUNG_UNTIL_S:g} s, from {STEADY_FROM_S:g} s on, and from"
        f" {SETTLED_FROM_S:g} s on (with --duration {SETTLED_FROM_S + SETTLED_LEAST_S + 10:g} or more)"
    )
    lines.append(f"`diagnose` watches {DIAGNOSE_S:g} s; says: the verdict's own figure, over its window")
    others = "and others that want every CPU" if busy else "all idle"
    workers = "workers that want every CPU" if busy else "eight light workers"
    lines.append(f"the job: one training loop, {workers}; three hundred other processes, {others}")
    return "\n".join(lines)


def report_pairs(pairs: list[Pair]) -> tuple[str, float | None]:
    """A table of both builds with the ratios between them, and the highest median ratio among `HELD`."""
    lines = [
        f"{'mode':10} {'figure':11} {'pairs':>5} {'this':>8} {'other':>8} {'ratio':>7} {'least':>7} {'most':>7}"
        "   medians; ratio: this / other, of each pair"
    ]
    highest: float | None = None
    for mode in dict.fromkeys(pair.this.mode for pair in pairs):
        for name, field, form in COMPARED:
            both = [
                (getattr(pair.this, field), getattr(pair.other, field)) for pair in pairs if pair.this.mode == mode
            ]
            known = [(this, other) for this, other in both if this is not None and other]
            if not known:
                continue
            ratios = [this / other for this, other in known]
            this, other = (statistics.median(values) for values in zip(*known, strict=True))
            ratio = statistics.median(ratios)
            if field in HELD:
                highest = ratio if highest is None else max(highest, ratio)
            lines.append(
                f"{mode:10} {name:11} {len(known):>5} {this:>8{form}} {other:>8{form}} {ratio:>7.3f}"
                f" {min(ratios):>7.3f} {max(ratios):>7.3f}"
            )
    odd = [f"{pair.this.mode} {one.status}" for pair in pairs for one in (pair.this, pair.other) if one.status]
    if odd:
        lines.append(f"did not exit with 0: {', '.join(odd)}")
    return "\n".join(lines), highest
