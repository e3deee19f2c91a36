"""Runs a built or installed trainmon in an environment without any of our tools on PATH."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure.release.build import Failed, run

#: PATH of a login without anything activated.
PLAIN_PATH = "/usr/bin:/bin"
#: A function that takes nearly all of the time, and the right to be looked into even under Yama (prctl(2),
#: PR_SET_PTRACER with PR_SET_PTRACER_ANY; refused where there is no Yama, which does no harm).
TARGET = """\
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
def hot_function(end):
    while time.monotonic() < end: pass
print("ready", flush=True)
while True: hot_function(time.monotonic() + 0.09)
"""


def environment(home: str) -> dict[str, str]:
    """Without virtual environment, and with an empty folder for a home."""
    return {"PATH": PLAIN_PATH, "HOME": home, "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def target(home: str) -> Iterator[int]:
    """A small Python process that computes in `hot_function`; gives its PID."""
    # The interpreter itself, not the link in a virtual environment: beside it there may be another py-spy.
    python = os.path.realpath(sys.executable)
    path = os.path.join(home, "small.py")
    Path(path).write_text(TARGET, encoding="utf-8")
    process = subprocess.Popen([python, path], stdout=subprocess.PIPE, env=environment(home), text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise Failed(f"{python} did not start the small program to look at")
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def says_version(program: str, version: str, home: str) -> None:
    said = run(program, "--version", env=environment(home)).strip()
    if said != f"trainmon {version}":
        raise Failed(f"{program} --version says {said!r} and not trainmon {version}")


def doctor(program: str, home: str, *options: str) -> dict[str, dict[str, Any]]:
    """What `trainmon doctor` found: name → finding."""
    said = json.loads(run(program, "doctor", "--json", *options, env=environment(home)))
    return {finding["what"]: finding for finding in said["findings"]}


def diagnose(program: str, home: str, pid: int) -> dict[str, Any]:
    """The verdict on four seconds of a process, which must be of that process and say what was seen."""
    arguments = ["diagnose", "--json", "--duration", "4s", "--pid", str(pid)]
    verdict: dict[str, Any] = json.loads(run(program, *arguments, env=environment(home)))
    if verdict["pid"] != pid or "stacks" not in verdict["seen"]:
        raise Failed(f"{program} diagnose --pid {pid} speaks of {verdict['pid']} and has seen {verdict['seen']}")
    return verdict


def names_the_function(verdict: dict[str, Any]) -> bool:
    """Whether the chain names where the process computes, which only py-spy can tell."""
    return any("hot_function" in (node["at"] or "") for node in verdict["chain"])
