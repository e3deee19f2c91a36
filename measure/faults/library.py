"""An NVML library that hangs, crashes or is none."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .bench import Bench, Outcome, Verdict, expect, fault, not_seen, running, until


def verdict_with(bench: Bench, library: Path, failure: str, seconds: float = 2) -> tuple[Verdict, float]:
    began = time.monotonic()
    verdict = bench.diagnose(bench.target(), seconds, "--nvml-lib", library, env={"FAKE_NVML_FAIL": failure})
    return verdict, time.monotonic() - began - seconds


@fault("NVML is a FIFO", "trainmon checks the file type before the loader opens it")
def fifo(bench: Bench) -> Outcome:
    os.mkfifo(bench.path("libnvidia-ml.so.1"))
    verdict, late = verdict_with(bench, bench.path("libnvidia-ml.so.1"), "")
    return Outcome(not_seen(verdict, "nvml")["why"], late)


@fault("NVML is truncated", "trainmon compares a library's length with its program headers before it is mapped")
def truncated(bench: Bench) -> Outcome:
    bench.path("libnvidia-ml.so.1").write_bytes(bench.nvml.read_bytes()[: 64 * 1024])
    named, late = verdict_with(bench, bench.path("libnvidia-ml.so.1"), "")
    found = bench.diagnose(bench.target(), 1, env={"LD_LIBRARY_PATH": str(bench.folder)})
    for verdict in (named, found):
        expect("truncated" in not_seen(verdict, "nvml")["why"], "not said")
    return Outcome(not_seen(named, "nvml")["why"], late)


@fault("NVML hangs in its constructor", "a library is first loaded in a separate process, as a trial")
def constructor_hangs(bench: Bench) -> Outcome:
    verdict, late = verdict_with(bench, bench.nvml, "loading_hangs", 8)
    expect(verdict["seen"]["nvml"] == "hung", f"{verdict['seen']}")
    until("the end of the process on trial", lambda: not running("load-library:"))
    return Outcome(not_seen(verdict, "nvml")["why"], late)


@fault("NVML crashes in its constructor", "a library is first loaded in a separate process, as a trial")
def constructor_crashes(bench: Bench) -> Outcome:
    verdict, late = verdict_with(bench, bench.nvml, "loading_crashes")
    return Outcome(not_seen(verdict, "nvml")["why"], late)


@fault("NVML hangs in its initialization", "each source that may hang has its own thread, and exiting does not wait for it")
def initialization_hangs(bench: Bench) -> Outcome:
    verdict, late = verdict_with(bench, bench.nvml, "hang:nvmlInit_v2_60000", 5)
    expect(late < 5, f"the end took {late:.0f} s")
    return Outcome(verdict["summary"], late)
