"""The cost of the screen: bytes to the terminal, wake-ups without an event, and the time from a key to its frame, also while
NVML and py-spy hang. (The storage source opens nothing that can hang.)

The job is that of cost.py: one training loop with eight light workers, among three hundred idle processes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from measure.monitor import Monitor
from measure.numbers import percentile
from measure.terminal import Terminal
from workloads.launch import Launched
from workloads.processes import ending

from .cost import crowded

#: Limits: bytes a second at 1 Hz on 120×40, milliseconds from a key to its frame.
NORMAL_BYTES_PER_S, LOW_BYTES_PER_S, KEY_MS = 6 * 1024, 1.2 * 1024, 30.0
#: The first frames are not the steady state.
SETTLED_S = 5.0
#: The charts grow to a minute first, which moves more of them than later.
GROWN_S = 62.0
#: Time over which wake-ups are counted.
COUNTED_S = 10.0
PRESSES = 50
LOW = "--low-bandwidth"
#: The fake library's setting for an NVML call that takes ten minutes.
HUNG_NVML = {"FAKE_NVML_FAIL": "hang:nvmlDeviceGetUtilizationRates_600000"}


@dataclass
class Traffic:
    """Bytes written in each whole second once the screen has settled."""

    name: str
    per_second: list[int] = field(default_factory=list)
    why_not: str = ""


@dataclass
class WakeUps:
    """Voluntary context switches while nothing happens, by name of thread. `main` draws."""

    name: str
    seconds: float
    main: int
    others: dict[str, int]


@dataclass
class KeyTimes:
    """Milliseconds from a key to the end of a frame."""

    name: str
    ms: list[float]
    #: Which sources hung meanwhile, according to `diagnose` under the same conditions.
    hung: list[str] = field(default_factory=list)


def seconds_of(arrivals: list[tuple[float, int]], start: float, end: float) -> list[int]:
    """Bytes in each whole second from `start` on. A second without output counts as 0."""
    sums = [0] * max(0, int(end - start))
    for moment, count in arrivals:
        place = int(moment - start) if moment >= start else -1
        if 0 <= place < len(sums):
            sums[place] += count
    return sums


def voluntary(status: str) -> int | None:
    """The voluntary context switches of a thread, from the text of its status file."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "voluntary_ctxt_switches" and value.strip().isdigit():
            return int(value)
    return None


def threads(pid: int) -> dict[int, tuple[str, int]]:
    """Name and voluntary context switches of each thread of a process."""
    found: dict[int, tuple[str, int]] = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8", errors="replace") as file:
                count = voluntary(file.read())
        except OSError:
            continue
        if count is not None:
            found[int(task)] = (name, count)
    return found


def difference(
    name: str, pid: int, before: dict[int, tuple[str, int]], after: dict[int, tuple[str, int]], seconds: float
) -> WakeUps:
    """Wake-ups of each thread between two readings. All wake-ups of a new thread count."""
    main = 0
    others: dict[str, int] = {}
    for task, (thread, count) in after.items():
        woke = count - before.get(task, ("", 0))[1]
        if task == pid:
            main = woke
        else:
            # Its input thread has the program's own name.
            others[thread] = others.get(thread, 0) + woke
    return WakeUps(name, seconds, main, dict(sorted(others.items(), key=lambda item: -item[1])))


def traffic(monitor: Monitor, job: Launched, seconds: float, name: str, *options: str) -> list[Traffic]:
    """The traffic of the first minute, and of so many seconds after it."""
    with Terminal.of_monitor(monitor, job.device, "--pid", str(job.pid), *options) as terminal:
        terminal.watch(GROWN_S + seconds)
        counts = [(moment, len(piece)) for moment, piece in terminal.arrivals]
        spans = {f"{name}, first minute": (SETTLED_S, GROWN_S), f"{name}, later": (GROWN_S, GROWN_S + seconds)}
        return [
            Traffic(name, seconds_of(counts, terminal.began + start, terminal.began + end))
            for name, (start, end) in spans.items()
        ]


def knows(monitor: Monitor, option: str) -> bool:
    """Whether the program knows this option."""
    told = subprocess.run([monitor.program, "--help"], capture_output=True, text=True, check=True).stdout
    return option in told.replace(",", " ").split()


def count_wake_ups(terminal: Terminal, name: str) -> WakeUps:
    before, began = threads(terminal.pid), time.monotonic()
    terminal.watch(COUNTED_S)
    return difference(name, terminal.pid, before, threads(terminal.pid), time.monotonic() - began)


def wake_ups(monitor: Monitor, job: Launched) -> list[WakeUps]:
    with Terminal.of_monitor(monitor, job.device, "--pid", str(job.pid), "--interval", "1h") as terminal:
        terminal.watch(SETTLED_S)
        waiting = count_wake_ups(terminal, "an hour's interval")
    sleeper = subprocess.Popen(["sleep", "600"])
    with ending(sleeper), Terminal.of_monitor(monitor, job.device, "--pid", str(sleeper.pid)) as terminal:
        terminal.watch(2.0)
        sleeper.kill()
        sleeper.wait()
        terminal.watch(SETTLED_S)
        ended = count_wake_ups(terminal, "the target ended")
    return [waiting, ended]


def press(terminal: Terminal) -> list[float]:
    """Shows help and overview in turn, at moments unrelated to the samples."""
    chance, times = random.Random(4), []
    for number in range(PRESSES):
        terminal.watch(chance.uniform(0.05, 0.25))
        times.append(1000 * terminal.frame_after("?" if number % 2 == 0 else "1"))
    return times


def key_times(monitor: Monitor, job: Launched) -> list[KeyTimes]:
    with Terminal.of_monitor(monitor, job.device, "--pid", str(job.pid)) as terminal:
        terminal.watch(SETTLED_S)
        free = KeyTimes("sources answer", press(terminal))
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("--pid", str(job.pid), "--py-spy", silent_py_spy(folder))
        with Terminal.of_monitor(monitor, job.device, *arguments, given=HUNG_NVML) as terminal:
            terminal.watch(SETTLED_S)
            times = press(terminal)
        return [free, KeyTimes("sources hang", times, hung_sources(monitor, job, *arguments))]


def silent_py_spy(folder: str) -> str:
    """A py-spy that never prints anything."""
    path = os.path.join(folder, "py-spy")
    Path(path).write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    os.chmod(path, 0o755)
    return path


def hung_sources(monitor: Monitor, job: Launched, *arguments: str) -> list[str]:
    told = subprocess.run(
        monitor.command("diagnose", "--json", "--duration", "6s", *arguments),
        env={**monitor.environment(job.device), **HUNG_NVML},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    ).stdout
    try:
        seen = json.loads(told).get("seen", {})
    except ValueError:
        return []
    return sorted(name for name, state in seen.items() if state == "hung")


def measure(monitor: Monitor, seconds: float, data: str | None) -> str:
    """Measures everything, and returns it as text."""
    with Launched(crowded(), 2 * (GROWN_S + seconds) + 240, data) as job:
        job.wait_until_watchable()
        flows = traffic(monitor, job, seconds, "normal")
        if knows(monitor, LOW):
            flows += traffic(monitor, job, seconds, "low bandwidth", LOW)
        else:
            flows.append(Traffic("low bandwidth", why_not=f"{monitor.program} does not know {LOW}"))
        return report(flows, wake_ups(monitor, job), key_times(monitor, job))


def report(flows: list[Traffic], quiet: list[WakeUps], keys: list[KeyTimes]) -> str:
    lines = [f"{'bytes to the terminal':24} {'median/s':>9} {'mean/s':>9} {'worst/s':>9}   120x40 at 1 Hz"]
    for flow in flows:
        if flow.why_not or not flow.per_second:
            lines.append(f"{flow.name:24} skipped: {flow.why_not or 'nothing was measured'}")
            continue
        limit = LOW_BYTES_PER_S if flow.name.startswith("low") else NORMAL_BYTES_PER_S
        median = percentile(flow.per_second, 0.5) or 0.0
        mean = sum(flow.per_second) / len(flow.per_second)
        verdict = "ok" if median <= limit else "TOO MANY"
        lines.append(
            f"{flow.name:24} {median:9.0f} {mean:9.0f} {max(flow.per_second):9d}   {verdict}: at most {limit:.0f}"
        )
    lines += ["", f"{'wake-ups per second':24} {'main':>9} {'program':>9}   its other threads"]
    for count in quiet:
        whole = count.main + sum(count.others.values())
        threads = ", ".join(f"{name} {woke / count.seconds:.1f}" for name, woke in count.others.items() if woke)
        lines.append(
            f"{count.name:24} {count.main / count.seconds:9.2f} {whole / count.seconds:9.2f}   {threads or 'none'}"
        )
    lines += ["", f"{'key to frame, ms':24} {'median':>9} {'p95':>9} {'worst':>9}"]
    for key in keys:
        middle, high = percentile(key.ms, 0.5), percentile(key.ms, 0.95)
        if middle is None or high is None:
            lines.append(f"{key.name:24} skipped: nothing was measured")
            continue
        verdict = "ok" if high <= KEY_MS else "TOO SLOW"
        hung = f"; hung: {', '.join(key.hung)}" if key.hung else ""
        lines.append(
            f"{key.name:24} {middle:9.1f} {high:9.1f} {max(key.ms):9.1f}   {verdict}: p95 at most {KEY_MS:.0f}{hung}"
        )
    return "\n".join(lines)
