"""Programs made at random: what a seed means, and what is true of the program. Standard library only.

A plan is drawn from who makes the batches, what that costs, where the step spends its time, how the loop is run, how processes
are started, how the device is waited for, and who else is there. One part of the step is drawn to be much longer than the others,
so that one answer is right; how long each really was, the program measures itself. See random_cases.py.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from typing import Any

from workloads.labels import IDLE_DEVICE, LOST, Label

PREFIX = "random-"
#: Programs that turn into another one while they run: soon, changing-SEED, or once a verdict has stood for a minute and is
#: looked at seldom, standing-SEED.
CHANGING, STANDING = "changing-", "standing-"
#: When that is, seconds after the first step.
SOON_S, LATE_S = (9.0, 16.0), (85.0, 100.0)

#: Who makes the batches.
BY_TORCH = ("torch", "torch-iterable")
BY_PROCESSES = ("process-pool", "pool-imap", "processes", "program")
BY_THREADS = ("thread", "threads", "thread-pool")
BY_THE_LOOP = ("torch-inline", "generator")
#: Of which there can be more (or any at all) by a changed number.
MORE_FEEDERS = (*BY_TORCH, "torch-inline", "process-pool", "pool-imap", "processes", "threads", "thread-pool")
#: Work that making a sample is. Remote and disk wait; the others compute, Python under the interpreter lock.
WORKS = ("python", "numpy", "unpack", "decode", "remote", "disk")
WAITS = ("remote", "disk")
#: What a step may wait for besides.
ELSEWHERE = ("metrics", "environment", "journal")
#: Who stands at the other end of it: companions.py.
SERVERS = {"metrics": "metrics-server", "journal": "journal-holder"}
#: A program that changes is watched for so long after that, seconds.
FOLLOWED_S = 14.0
#: What the slow server takes for a sample, the metrics' server for a post, and how long the journal is held: companions.py.
SAMPLE_S, POST_S, HELD_S = 0.025, 0.04, 0.04


@dataclass(frozen=True)
class Plan:
    """A program. Times in seconds, each of a step but for `sample_s`."""

    seed: int
    #: The part that is longest: "supply", "host", "device", "elsewhere".
    longest: str
    supply: str
    #: Processes or threads that make batches; 0 where the loop does it itself.
    feeders: int
    work: str
    sample_s: float
    batch_size: int
    host_s: float
    #: 0 without a device: the step then computes for `compute_s` on the CPU.
    device_s: float
    compute_s: float
    kernels: int
    elsewhere: str | None
    elsewhere_s: float
    start: str
    #: "block" or "spin"; and after how many steps the device is waited for.
    sync: str
    sync_every: int
    #: The loop's thread: "main" or "other".
    loop: str
    #: Others that are there: "idle-pool", "kept-loader", "ticker", "log-queue".
    beside: tuple[str, ...]
    #: What it turns into `after_s` seconds after its first step: only times and `elsewhere` differ.
    then: Plan | None = None
    after_s: float = 0.0

    @property
    def name(self) -> str:
        kind = PREFIX if not self.then else CHANGING if self.after_s < LATE_S[0] else STANDING
        return f"{kind}{self.seed}"


def plan(seed: int, cpus: int | None = None) -> Plan:
    """What a seed means, on a machine with so many CPUs."""
    cpus = cpus or len(os.sched_getaffinity(0))
    draw = random.Random(seed)
    longest = draw.choices(("supply", "host", "device", "elsewhere"), (50, 15, 15, 20))[0]
    supply = draw.choice(BY_TORCH * 3 + BY_PROCESSES + BY_THREADS + BY_THE_LOOP)
    work = draw.choice(WORKS)
    feeders = draw.randint(1, 3)
    if supply in BY_THE_LOOP:
        feeders = 0
    elif supply in ("thread", "program"):
        feeders = 1
    sync = draw.choices(("block", "spin"), (3, 1))[0]
    times, batch_s = _times(draw, longest, supply, feeders, work, cpus)
    batch_size = draw.choice((1, 2, 4, 8))
    if work == "remote":
        if longest == "supply":
            batch_size = max(1, round(batch_s / SAMPLE_S))
        else:
            work = "python"
    beside = tuple(one for one in ("idle-pool", "kept-loader", "ticker", "log-queue") if draw.random() < 0.2)
    return Plan(
        seed=seed, longest=longest, supply=supply, feeders=feeders, work=work, sample_s=batch_s / batch_size,
        batch_size=batch_size, **times, kernels=draw.choice((1, 3, 12)), start=draw.choice(("fork", "spawn", "forkserver")),
        sync=sync, sync_every=draw.choice((1, 1, 4)), loop=draw.choices(("main", "other"), (4, 1))[0], beside=beside,
    )  # fmt: skip


def _times(
    draw: random.Random, longest: str, supply: str, feeders: int, work: str, cpus: int
) -> tuple[dict[str, Any], float]:
    """What the step spends its time with, one part of it much the longest, and the seconds that a batch costs to make."""
    device_s = draw.uniform(0.008, 0.03)
    compute_s = 0.0
    if draw.random() < 0.15 and longest != "elsewhere":
        device_s, compute_s = 0.0, device_s
    # Of the step without the supply: the others stay small beside the longest.
    host_s = draw.uniform(0.0, 0.15) * (device_s + compute_s)
    elsewhere, elsewhere_s = None, 0.0
    if longest == "host":
        host_s = draw.uniform(1.5, 5.0) * (device_s or 0.01)
        # Without a device the two are the same to an observer.
        compute_s *= 0.3
    elif longest == "device":
        device_s, compute_s = 2.0 * device_s, 2.0 * compute_s
    elif longest == "elsewhere":
        elsewhere = draw.choice(ELSEWHERE)
        elsewhere_s = {"metrics": POST_S, "journal": HELD_S, "environment": draw.uniform(0.02, 0.06)}[elsewhere]
        device_s *= 0.6
    step_s = host_s + device_s + compute_s + elsewhere_s
    # Who makes a batch at a time: threads that hold the interpreter lock take turns, and CPUs are few.
    abreast = max(feeders, 1)
    if work not in WAITS:
        abreast = 1 if supply in BY_THREADS and work == "python" else min(abreast, cpus)
    period = draw.uniform(2.0, 6.0) * step_s if longest == "supply" else draw.uniform(0.05, 0.2) * step_s
    times = {
        "host_s": host_s, "device_s": device_s, "compute_s": compute_s, "elsewhere": elsewhere, "elsewhere_s": elsewhere_s,
    }  # fmt: skip
    return times, period * abreast


def changing(seed: int, cpus: int | None = None, when: tuple[float, float] = SOON_S) -> Plan:
    """What a seed of a program that changes means: it has a device, and something else is longest from then on."""
    cpus = cpus or len(os.sched_getaffinity(0))
    draw = random.Random(f"changing {seed}")
    first = plan(draw.randrange(1 << 30), cpus)
    while first.work in WAITS or not first.device_s:
        first = plan(draw.randrange(1 << 30), cpus)
    longest = draw.choice([part for part in ("supply", "host", "device", "elsewhere") if part != first.longest])
    times, batch_s = _times(draw, longest, first.supply, first.feeders, first.work, cpus)
    while not times["device_s"]:
        times, batch_s = _times(draw, longest, first.supply, first.feeders, first.work, cpus)
    then = replace(first, longest=longest, sample_s=batch_s / first.batch_size, **times)
    return replace(first, seed=seed, then=then, after_s=draw.uniform(*when))


Answer = tuple[str, "str | None"]


def answers(of: Plan, cpus: int) -> list[Answer]:
    """Every right answer, the best first; None where any cause of the class will do."""
    if of.longest == "host" or of.longest == "device" and not of.device_s:
        # A compute thread that is the loop's own is no other than host work.
        return [("cpu", "main-thread" if of.longest == "host" else "cpu-training"), ("cpu", "cpu-training"), ("cpu", "main-thread"),
                ("cpu", "launch-bound")]  # fmt: skip
    if of.longest == "device":
        return [("gpu", "compute-bound"), ("gpu", None)]
    if of.longest == "elsewhere":
        of_elsewhere: dict[str, list[Answer]] = {
            "metrics": [("io", "remote-service"), ("io", "network-storage")],
            "environment": [("cpu", "waits-for-process")],
            "journal": [("io", "lock")],
        }
        return of_elsewhere[str(of.elsewhere)]
    if of.work == "remote":
        return [("io", "network-storage"), ("io", "remote-service")]
    if of.work == "disk":
        return [("io", "disk-bandwidth"), ("io", "small-files"), ("io", "page-cache-miss")]
    if of.supply in BY_THE_LOOP:
        return [("data-loader", "in-process-loading"), ("cpu", "main-thread")]
    found: list[Answer] = [("data-loader", cause) for cause in ("too-few-workers", "transform", "decode")]
    if of.supply in BY_THREADS:
        found += [("data-loader", "in-process-loading"), ("cpu", "gil-contention")]
    if of.supply == "program":
        found.append(("cpu", "waits-for-process"))
    if of.feeders >= cpus or of.feeders > 1 and of.device_s and of.sync == "spin" or of.compute_s:
        found.append(("cpu", "cores-saturated"))
    return found


def about(of: Plan) -> str:
    """One line for a person."""
    parts = [f"{of.feeders} × {of.supply}" if of.feeders else of.supply, f"{of.work} {of.batch_size} × {of.sample_s * 1e3:.0f} ms"]
    parts += [f"host {of.host_s * 1e3:.0f} ms"] if of.host_s >= 1e-3 else []
    parts += [f"device {of.device_s * 1e3:.0f} ms in {of.kernels}, {of.sync}/{of.sync_every}"] if of.device_s else []
    parts += [f"compute {of.compute_s * 1e3:.0f} ms"] if of.compute_s else []
    parts += [f"{of.elsewhere} {of.elsewhere_s * 1e3:.0f} ms"] if of.elsewhere else []
    parts += [of.start] if of.supply in BY_TORCH + BY_PROCESSES else []
    parts += ["loop in a thread"] if of.loop == "other" else []
    return f"{of.longest}: {', '.join(parts + list(of.beside))}"


def of_name(name: str) -> Plan:
    """The plan of the program with this name, `random-`, `changing-` or `standing-SEED`; raises ValueError where that is none."""
    for kind, when in ((CHANGING, SOON_S), (STANDING, LATE_S)):
        if name.startswith(kind):
            return changing(int(name.removeprefix(kind)), when=when)
    return plan(int(name.removeprefix(PREFIX)))


def label(name: str) -> Label:
    """The label of the program with this name; raises ValueError where that is none."""
    cpus = len(os.sched_getaffinity(0))
    of = of_name(name)
    last = of.then or of
    (klass, cause), *others = answers(last, cpus)
    needs = ("real-disk",) if of.work == "disk" else ()
    companions: tuple[str, ...] = ("slow-server",) if of.work == "remote" else ()
    asked = {of.elsewhere, last.elsewhere}
    companions += tuple(server for part, server in SERVERS.items() if part in asked)
    made = Label(
        name, klass, cause, about(of), "random_cases:run", also=tuple(others),
        needs=needs, companions=companions, held_out=of.seed % 3 == 0,
    )  # fmt: skip
    if of.then:
        return replace(
            made, about=f"{made.about}; after {of.after_s:.0f} s {about(of.then)}", before=tuple(answers(of, cpus)),
            duration=of.after_s + FOLLOWED_S, wait_scored=False, settled=False,
        )  # fmt: skip
    if of.longest == "supply" and of.supply in MORE_FEEDERS:
        made = replace(made, fixed=made.entry, more_feeders=2 * of.feeders or 2)
    return replace(
        made, wait=(0.3, 1.0) if of.longest == "supply" else (0.0, 0.25),
        busy=(0.6, 1.0) if of.longest == "device" and of.device_s else IDLE_DEVICE if of.device_s else None,
        lost=LOST if of.longest in ("elsewhere", "host") else None,
    )  # fmt: skip
