"""Drives inject_job.py, and plays trainmon's part for the script of `trainmon profile --inject`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure.paths import MEASURE, ROOT

JOB = os.path.join(MEASURE, "inject_job.py")
SCRIPT = os.path.join(ROOT, "crates/profiling/assets/inject/profile.py")
#: The line that trainmon replaces.
PLACE = "PARAMETERS = {}  # trainmon writes them here\n"
#: Seconds that anything may take.
PATIENCE_S = 60.0


def wait_until(true: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)


class InjectJob:
    """A running inject_job.py; `with` ends it."""

    def __init__(self, *options: str, python: str = sys.executable, environment: dict[str, str] | None = None) -> None:
        self.options = options
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            # This folder has modules whose names are those of the standard library.
            [python, "-P", JOB, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.output,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> InjectJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.output.close()

    def pause(self) -> None:
        """Has it take no steps until `go_on`; its workers come to rest once they are ahead of it."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the job ended with {self.process.wait()}: {self.said()}")
        return json.loads(line)

    def ask(self, command: str) -> Any:
        self.tell(command)
        return self.answer()

    def said(self) -> str:
        """What it has printed to standard error."""
        self.output.seek(0)
        return self.output.read()

    def steps_between(self, begin: float, end: float) -> list[tuple[float, float, float]]:
        return [tuple(step) for step in self.ask("steps") if begin <= step[0] and step[2] <= end]

    def has_thread(self) -> bool:
        return "trainmon" in self.ask("state")["threads"]

    def train(self, steps: int = 20) -> None:
        """Waits until it has taken so many more steps."""
        before = self.ask("count")
        wait_until(lambda: self.ask("count") >= before + steps)


class Waiting:
    """What trainmon does for a script: its folder, and the lock while it waits."""

    def __init__(self, folder: str, job: InjectJob, **parameters: Any) -> None:
        self.folder = Path(folder, "trainmon")
        self.folder.mkdir()
        self.lock = open(self.folder / "lock", "w")  # noqa: SIM115
        fcntl.lockf(self.lock, fcntl.LOCK_EX)
        (self.folder / "status").write_text(" " * 512)
        self.script = self.folder / "script.py"
        given = {"folder": str(self.folder), "pid": job.pid, "seconds": 1.0, "steps": 0, "stacks": 0, "late": 10.0}
        text = Path(SCRIPT).read_text(encoding="utf-8")
        assert PLACE in text
        self.script.write_text(text.replace(PLACE, f"PARAMETERS = {json.dumps({**given, **parameters})}\n"), encoding="utf-8")

    def status(self) -> dict[str, Any]:
        text = (self.folder / "status").read_text(encoding="ascii")
        return dict(json.loads(text)) if text.strip() else {"state": None}

    def ends_as(self, state: str) -> dict[str, Any]:
        """Waits for the end of the profile, which must be this one."""
        wait_until(lambda: self.status()["state"] not in (None, "began"))
        status = self.status()
        if status["state"] != state:
            raise AssertionError(status)
        return status

    def gone(self) -> None:
        """Gives up, as when trainmon is killed."""
        self.lock.close()

    def left(self) -> list[str]:
        """The files that are there."""
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []
