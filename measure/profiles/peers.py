"""HolisticTraceAnalysis beside trainmon, on the same files in the same run: the same figures where the definitions agree, and the time.

Where they differ: HTA counts all GPUs of a file, and the whole of it instead of the steps; with two or more steps it drops what was
launched by no call in the file, or after the last step. It takes every event that names a stream for work of the GPU, also operators
that are Triton kernels, and waits for a stream. It gives reasons for the idle time of each stream, between two of its kernels,
whatever the other streams do: `host_wait` (launched after the previous kernel had ended), `kernel_wait` (a gap below
its threshold), `other`. trainmon's idle time is that of the whole GPU. HTA runs with HTA_DISABLE_NS_ROUNDING, without which
it shortens each kernel to whole microseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from measure.numbers import median
from measure.paths import MEASURE
from measure.profiles.intervals import length, union
from measure.profiles.reference import Account, Event, NotATrace, read
from measure.profiles.run import Ran, diagnose, measured
from measure.text import show

#: With pandas 3 it fails on some traces (invalid value for dtype int16).
PACKAGES = ("HolisticTraceAnalysis==0.5.0", "pandas<3")
PROGRAM = os.path.join(MEASURE, "profiles/hta_program.py")
PATIENCE_S = 600.0
#: trainmon must be so many times as fast, and agree within so many points of the window.
FASTER = 20.0
#: Less CPU time than this is not measured.
TICK_S = 0.001
POINTS = 0.5


def installed(place: str) -> str:
    """The Python of an environment that has HolisticTraceAnalysis, which is installed if need be."""
    python = os.path.join(place, "bin/python")
    if not os.path.exists(python):
        venv.create(place, with_pip=True, symlinks=True)
    if subprocess.run([python, "-c", "import hta, pandas; assert pandas.__version__ < '3'"], capture_output=True).returncode != 0:
        print(f"installing {PACKAGES[0]} into {place}", file=sys.stderr)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"pip could not install {PACKAGES[0]}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return python


@dataclass(frozen=True)
class Expected:
    """What the definitions of HTA give for a file, by the plain reader."""

    #: Milliseconds that any GPU is busy in the whole file, as HTA sees it, and that this GPU is busy in the window of trainmon.
    busy_ms: float
    in_window_ms: float
    window_ms: float
    gpus: int


def names_a_stream(event: Event) -> bool:
    """What HTA takes for work of the GPU."""
    stream = event.args.get("stream", -1)
    return isinstance(stream, int) and stream != -1


def expected(path: str) -> Expected | None:
    """None if there is no GPU in the file."""
    try:
        events = read(path)
        account = Account(events)
    except NotATrace:
        return None
    if account.gpu is None:
        return None
    everything = [one for one in events if names_a_stream(one)]
    if len({one.name for one in account.steps}) > 1:
        last = max(one.end for one in account.steps)
        launches = {one.args.get("correlation") for one in account.host if one.begin <= last}
        everything = [one for one in everything if one.args.get("correlation") in launches]
    return Expected(
        length(union(one.interval for one in everything)) / 1e6,
        length(account.covered(account.on_gpus[account.gpu])) / 1e6,
        (account.window[1] - account.window[0]) / 1e6,
        len(account.on_gpus),
    )


@dataclass(frozen=True)
class Pair:
    """Both answers about one file."""

    path: str
    ours: Ran
    theirs: Ran
    #: The figures of HTA; none if it failed.
    hta: dict[str, Any] | None
    expected: Expected

    @property
    def profile(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = (self.ours.verdict() or {}).get("profile")
        return found

    def gpu(self) -> dict[str, Any]:
        """trainmon's GPU with most kernels."""
        devices: list[dict[str, Any]] = (self.profile or {}).get("devices") or [{}]
        return max(devices, key=lambda one: one.get("kernels") or 0)

    def milliseconds(self, of: str) -> float | None:
        profile, share = self.profile, self.gpu().get(of)
        return None if profile is None or share is None else float(share) * float(profile["window_ms"])

    def overlap(self) -> float | None:
        """The part of communication that computation hides."""
        gpu = self.gpu()
        return 1 - gpu["exposed"] / gpu["communication"] if gpu.get("communication") else None

    def ratio(self) -> float:
        """How many times as fast trainmon is, by CPU time: other programs on this machine do not change it much."""
        return self.theirs.cpu_s / max(self.ours.cpu_s, TICK_S)

    def differs(self) -> str:
        """Why the figures are not the same; begins with `?` if no definition explains it."""
        if self.hta is None:
            return f"HTA fails: {self.theirs.message()[:70]}"
        busy = self.milliseconds("busy")
        if busy is None:
            return f"? trainmon has no profile: {self.ours.message()[:60]}"
        limit = self.expected.window_ms * POINTS / 100
        if abs(busy - self.hta["busy_ms"]) <= limit:
            return self.differing_parts(limit)
        if abs(busy - self.expected.in_window_ms) > limit:
            return f"? trainmon is off: {self.expected.in_window_ms:.2f} ms are busy in the window"
        if abs(self.hta["busy_ms"] - self.expected.busy_ms) > limit:
            return f"? HTA is off: {self.expected.busy_ms:.2f} ms are busy in the file"
        several = f", {self.expected.gpus} GPUs" if self.expected.gpus > 1 else ""
        return f"HTA: the whole file{several}"

    def differing_parts(self, limit_ms: float) -> str:
        """Where both are busy for the same time, they must also compute and communicate for the same time."""
        hta = self.hta or {}
        if abs((self.milliseconds("compute") or 0.0) - hta["compute_ms"]) > limit_ms:
            return "? the compute time differs"
        ours, theirs = self.overlap(), hta["overlap"]
        if ours is None or theirs is None:
            return "" if ours is theirs else "? only one of both sees communication"
        hidden_ms = abs(ours - theirs) * (self.milliseconds("communication") or 0.0)
        return "" if hidden_ms <= limit_ms else "? the overlap differs"

    def row(self) -> str:
        hta = self.hta or {}
        figures = [self.milliseconds("busy"), hta.get("busy_ms"), self.milliseconds("compute"), hta.get("compute_ms")]
        overlap = [None if one is None else 100 * one for one in (self.overlap(), hta.get("overlap"))]
        idle = [None if (busy := self.milliseconds("busy")) is None or self.profile is None else self.profile["window_ms"] - busy, hta.get("idle_ms")]
        reasons = [hta.get("idle_by", {}).get(name) for name in ("host_wait", "kernel_wait", "other")]
        cells = [f"{show(one, '.2f'):>10}" for one in figures] + [f"{show(one, '.1f'):>6}" for one in overlap]
        cells += [f"{show(one, '.2f'):>10}" for one in idle] + [f"{show(one, '.1f'):>9}" for one in reasons]
        walls = f"{self.ours.wall_s:8.3f} {self.theirs.wall_s:7.2f} {show(hta.get('seconds'), '.2f'):>7}"
        times = f"{walls} {self.ours.cpu_s:8.3f} {self.theirs.cpu_s:7.2f} {self.ratio():6.0f}×"
        return f"{os.path.basename(self.path)[:36]:36} {' '.join(cells)} {times}  {self.differs()}"


HEAD = (
    f"{'':36} {'busy ms':^21} {'compute ms':^21} {'overlap %':^13} {'idle ms':^21} {'HTA: idle ms of all streams':^29} {'seconds':^24} {'CPU seconds':^16}\n"
    f"{'':36} " + f"{'trainmon':>10} {'HTA':>10} " * 2 + f"{'t.':>6} {'HTA':>6} {'trainmon':>10} {'HTA':>10} "
    f"{'host':>9} {'kernel':>9} {'other':>9} {'trainmon':>8} {'HTA':>7} {'no imp.':>7} {'trainmon':>8} {'HTA':>7}  ratio"
)  # fmt: skip


def pairs(folder: str, trainmon: str, python: str) -> Iterator[Pair]:
    """Runs both on each trace with a GPU, one after the other."""
    paths = sorted(entry.path for entry in os.scandir(folder) if entry.is_file() and entry.name.endswith((".json", ".gz")))
    with ProcessPoolExecutor() as pool:
        known = list(pool.map(expected, paths))
    for path, about in zip(paths, known):
        if about is not None:
            ours, theirs = diagnose(trainmon, path, PATIENCE_S), measured([python, PROGRAM, path], PATIENCE_S)
            hta = json.loads(theirs.output.splitlines()[-1]) if theirs.status == 0 else None
            yield Pair(path, ours, theirs, hta, about)


def compare(folder: str, trainmon: str, place: str) -> int:
    """Prints the table; fails if trainmon is too slow, or a figure differs for no known reason."""
    python = installed(place)
    print(HEAD)
    done = []
    for pair in pairs(folder, trainmon, python):
        print(pair.row(), flush=True)
        done.append(pair)
    both = [pair for pair in done if pair.hta is not None and pair.profile is not None]
    if not both:
        raise RuntimeError("no file that both could read")
    ours, theirs = sum(pair.ours.cpu_s for pair in both), sum(pair.theirs.cpu_s for pair in both)
    least = min(both, key=Pair.ratio)
    unexplained = [pair for pair in done if pair.differs().startswith("?")]
    print(f"\n{len(both)} files that both read: trainmon {ours:.2f} s of CPU time, HTA {theirs:.1f} s: {theirs / ours:.0f} times as fast;", end=" ")
    print(f"median {show(median(map(Pair.ratio, both)), '.0f')}, least {least.ratio():.0f} ({os.path.basename(least.path)})")
    print(f"{len(unexplained)} differ by more than {POINTS} points for no known reason")
    print("\n" + (__doc__ or "").partition("\n\n")[2].strip())
    return 1 if unexplained or theirs / ours < FASTER else 0
