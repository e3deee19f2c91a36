"""A py-spy that hangs, floods, crashes or starts others, and what is left of it."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time

from workloads.processes import state

from .bench import COMPUTES, Bench, Outcome, expect, fault, not_seen, running, until
from .rights import compile_c

# What it does is compiled in; it answers for its version as py-spy does.
STAND_IN = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "--version")) { puts("py-spy 0.4.3"); return 0; }
    %s
}
"""
HANGS = "for (;;) pause();"
STARTS = """
    for (int i = 0; i < 3; i++) if (!fork()) {
        if (i > 0) setsid();
        if (i > 1 && fork()) _exit(0);
        signal(SIGTERM, SIG_IGN); signal(SIGHUP, SIG_IGN);
        execlp("sleep", "sleep", "%s", NULL);
    }
    for (;;) pause();
"""
CRASHES = "abort();"
FLOODS = 'for (;;) write(2, words, 4096), write(1, words, 4096);'


def stand_in(bench: Bench, what: str) -> pathlib.Path:
    return compile_c(bench, STAND_IN % what, bench.path("stand-in/py-spy"))


def watched(bench: Bench, number: str) -> tuple[subprocess.Popen[bytes], int]:
    """A log of a job, once its py-spy has started three others that sleep for this long; and the job."""
    spy = stand_in(bench, STARTS % number)
    pid = bench.python(COMPUTES)
    watching = bench.start("--pid", pid, "--log", "x.csv", "-i", "200ms", "--py-spy", spy)
    until("what py-spy has started", lambda: len(running(number)) == 3)
    return watching, pid


@fault("py-spy hangs, detaches others", "processes that py-spy starts end with its time slot")
def detaches(bench: Bench) -> Outcome:
    number = f"7{os.getpid()}1"
    watching, _ = watched(bench, number)
    watching.terminate()
    began = time.monotonic()
    bench.end(watching)
    until("the end of what py-spy has started", lambda: not running(number))
    return Outcome("the log ends; no process is left", time.monotonic() - began)


@fault("trainmon killed with -9 while py-spy runs", "the kernel tells the process above py-spy that trainmon has ended")
def killed(bench: Bench) -> Outcome:
    number = f"7{os.getpid()}2"
    watching, pid = watched(bench, number)
    watching.kill()
    began = time.monotonic()
    until("the end of py-spy", lambda: not running(f"--pid\0{pid}"))
    until("the end of what py-spy has started", lambda: not running(number))
    expect(os.path.exists(f"/proc/{pid}"), "the job is gone")
    return Outcome("no process is left; the job keeps running", time.monotonic() - began)


@fault("py-spy crashes", "the verdict works without stacks")
def crashes(bench: Bench) -> Outcome:
    verdict = bench.diagnose(bench.python(COMPUTES), 3, "--py-spy", stand_in(bench, CRASHES))
    return Outcome(not_seen(verdict, "stacks")["why"])


@fault("py-spy floods its output", "its output is limited")
def floods(bench: Bench) -> Outcome:
    watching = bench.start("diagnose", "--json", "--pid", bench.python(COMPUTES), "--duration", "4s", "--py-spy",
                           stand_in(bench, FLOODS))  # fmt: skip
    verdict = bench.end(watching).json()
    expect(verdict["self"]["rss_mib"] < 64, f"{verdict['self']['rss_mib']} MiB")
    return Outcome(not_seen(verdict, "stacks")["why"])


@fault("py-spy hangs", "each run of py-spy has a time limit, and the verdict does not wait for it")
def hangs(bench: Bench) -> Outcome:
    began = time.monotonic()
    verdict = bench.diagnose(bench.python(COMPUTES), 3, "--py-spy", stand_in(bench, HANGS))
    seconds = time.monotonic() - began
    expect(seconds < 10, f"the verdict took {seconds:.0f} s")
    return Outcome(verdict["summary"], seconds - 3)


@fault("py-spy is stopped", "watching never stops the job")
def stopped(bench: Bench) -> Outcome:
    pid = bench.python(COMPUTES)
    spy = stand_in(bench, "raise(SIGSTOP); return 0;")
    bench.diagnose(pid, 3, "--py-spy", spy)
    until("the end of py-spy", lambda: not running(f"--pid\0{pid}"))
    expect(state(pid) in "RS", "the job does not run")
    os.kill(pid, signal.SIGCONT)
    return Outcome("the verdict, without stacks")
