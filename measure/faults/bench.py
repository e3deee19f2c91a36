"""What each fault gets: its own folder, processes that end with it, and the program, run within a time limit."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from measure.terminal import END_OF_FRAME, Terminal

NOBODY = 65534
#: The system's Python, which every user may execute; otherwise this one.
SYSTEM_PYTHON = "/usr/bin/python3"
PYTHON = SYSTEM_PYTHON if os.path.exists(SYSTEM_PYTHON) else sys.executable
ROOT = os.geteuid() == 0
#: A Python program that prints a line when it runs, then computes.
COMPUTES = "print(flush=True)\nwhile True: sum(range(10000))"

T = TypeVar("T")
Run = Callable[["Bench"], "Outcome"]
Verdict = dict[str, Any]


class Wrong(Exception):
    """The program did not keep the promise of the fault's guard."""


class Skipped(Exception):
    """This machine cannot cause the fault."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What the user sees, and the seconds from the fault to full recovery."""

    seen: str
    recovery_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    guard: str
    run: Run
    # It fills the machine, so nothing else may run meanwhile.
    alone: bool = False


FAULTS: list[Fault] = []


def fault(name: str, guard: str, alone: bool = False) -> Callable[[Run], Run]:
    """Adds a function to the table: the fault that it causes, and the guard that it proves."""

    def add(run: Run) -> Run:
        FAULTS.append(Fault(name, guard, run, alone))
        return run

    return add


def needs_root() -> None:
    if not ROOT:
        raise Skipped("needs root")


def needs_python_of_others() -> None:
    """A Python that every user may execute."""
    if PYTHON != SYSTEM_PYTHON:
        raise Skipped(f"{SYSTEM_PYTHON} not found")


@dataclasses.dataclass(frozen=True)
class Done:
    status: int
    out: bytes
    err: str
    seconds: float

    @property
    def line(self) -> str:
        """The message on standard error, which must be one line."""
        lines = self.err.splitlines()
        if len(lines) != 1:
            raise Wrong(f"{len(lines)} lines instead of one: {self.err!r}")
        return lines[0].removeprefix("trainmon: ")

    def json(self) -> Verdict:
        found: Verdict = json.loads(self.out)
        return found


class Bench:
    def __init__(self, trainmon: pathlib.Path, examples: pathlib.Path):
        self.trainmon, self.examples = trainmon, examples
        self.nvml = examples / "libfake_nvml.so"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        self.folder.chmod(0o755)
        self.started: list[subprocess.Popen[bytes]] = []
        self.closing = contextlib.ExitStack()

    def close(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        with contextlib.suppress(OSError, Wrong):
            self.closing.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name: str) -> pathlib.Path:
        return self.folder / name

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", "LANG": "C.UTF-8"} | (more or {})

    def process(self, command: list[Any], **more: Any) -> subprocess.Popen[bytes]:
        """Starts a process in its own group, with nothing of the caller's environment: its VIRTUAL_ENV may have a py-spy."""
        more.setdefault("env", self.environment())
        for stream in ("stdin", "stdout", "stderr"):
            more.setdefault(stream, subprocess.DEVNULL)
        more.setdefault("start_new_session", True)
        process: subprocess.Popen[bytes] = subprocess.Popen([str(part) for part in command], **more)
        self.started.append(process)
        return process

    def ready(self, command: list[Any], **more: Any) -> tuple[int, bytes]:
        """Starts a process that prints a line when it is ready; returns its PID and the line."""
        process = self.process(command, stdout=subprocess.PIPE, **more)
        assert process.stdout is not None
        return process.pid, process.stdout.readline()

    def target(self) -> int:
        """A process to attach to."""
        return self.process(["sleep", "600"]).pid

    def python(self, code: str, *arguments: str, **more: Any) -> int:
        """Starts a Python program to attach to, and waits until it has printed a line."""
        return self.ready([PYTHON, "-c", code, *arguments], **more)[0]

    def start(
        self, *arguments: Any, env: dict[str, str] | None = None, program: Any = None, **more: Any
    ) -> subprocess.Popen[bytes]:
        """Starts trainmon, or another program instead."""
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        more.setdefault("cwd", self.folder)
        return self.process([program or self.trainmon, *arguments], env=self.environment(env), **more)

    def end(self, process: subprocess.Popen[bytes], within_s: float = 30.0) -> Done:
        began = time.monotonic()
        try:
            out, err = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            raise Wrong(f"it did not end within {within_s:.0f} s") from None
        said = (err or b"").decode(errors="replace")
        if "panicked" in said:
            raise Wrong(f"a panic: {said}")
        return Done(process.returncode, out or b"", said, time.monotonic() - began)

    def finish(self, *arguments: Any, status: int | None = 0, within_s: float = 30.0, **more: Any) -> Done:
        """Runs trainmon until it ends."""
        done = self.end(self.start(*arguments, **more), within_s)
        if status is not None and done.status != status:
            raise Wrong(f"status {done.status} instead of {status}: {done.err}")
        return done

    def output(self, *command: Any, **more: Any) -> Done:
        """Runs another program instead of trainmon until it ends."""
        return self.end(self.start(*command[1:], program=command[0], **more))

    def log(self) -> bytes:
        """The content of x.csv so far."""
        return read(self.path("x.csv"))

    def until_lines(self, count: int) -> None:
        """Waits until x.csv has this many lines, including the header."""
        until("rows", lambda: self.log().count(b"\n") >= count)

    def logged(self, pid: int, count: int, interval: str, **more: Any) -> list[dict[str, str]]:
        """Logs a process and returns its rows; there must be this many."""
        self.finish("--pid", pid, "--log", "x.csv", "--force", "-i", interval, "-n", count, **more)
        found = rows(self.log())
        expect(len(found) == count, f"{len(found)} of {count} rows")
        return found

    def diagnose(self, pid: int, seconds: float = 2, *arguments: Any, **more: Any) -> Verdict:
        options = ["--json", "-i", "200ms", "--duration", f"{seconds}s", "--pid", str(pid)]
        return self.finish("diagnose", *options, *arguments, **more).json()


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def not_seen(verdict: Verdict, what: str) -> dict[str, str]:
    """What a verdict says it could not read."""
    found: list[dict[str, str]] = [one for one in verdict["not_seen"] if one["what"] == what]
    expect(found, f"{what} is not among what was not seen: {verdict['not_seen']}")
    return found[0]


def until(what: str, holds: Callable[[], T], within_s: float = 20.0) -> T:
    """Waits until something is true, and returns it."""
    end = time.monotonic() + within_s
    while not (found := holds()):
        if time.monotonic() > end:
            raise Wrong(f"{what}: not within {within_s:.0f} s")
        time.sleep(0.02)
    return found


def rows(text: bytes) -> list[dict[str, str]]:
    """The rows of a log, all of them complete."""
    expect(not text or text.endswith(b"\r\n"), f"a torn row: {text[-80:]!r}")
    expect(b"\0" not in text, "NUL bytes in the log")
    lines = list(csv.reader(text.decode().splitlines()))
    if not lines:
        return []
    expect(all(len(line) == len(lines[0]) for line in lines), "a row with other columns than the header")
    return [dict(zip(lines[0], line)) for line in lines[1:] if line != lines[0]]


def slowest(found: list[dict[str, str]]) -> float:
    """The longest time between two rows of a log, seconds."""
    elapsed = [float(row["elapsed_s"]) for row in found]
    return max(later - earlier for earlier, later in itertools.pairwise(elapsed))


def control_group(bench: Bench, *files: str) -> pathlib.Path:
    """Makes a cgroup that has one of these files, and returns the file."""
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/freezer"):
        if not os.path.exists(f"{place}/cgroup.procs"):
            continue
        group = pathlib.Path(f"{place}/faults-{os.getpid()}-{bench.folder.name}")
        with contextlib.suppress(OSError):
            group.mkdir()
            bench.closing.callback(until, "an empty group", lambda group=group: not try_rmdir(group), 5)
            for file in files:
                if (group / file).exists():
                    return group / file
    raise Skipped("cannot make a cgroup here")


def try_rmdir(group: pathlib.Path) -> bool:
    """Whether it is still there."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return group.exists()


def read(path: pathlib.Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def running(word: str) -> list[int]:
    """Processes with this among their arguments."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


class Screen(Terminal):
    """trainmon in a pseudo terminal, as the leader of its session."""

    def __init__(self, bench: Bench, *arguments: Any, size: tuple[int, int] = (80, 24), program: Any = None):
        command = [str(part) for part in (program or bench.trainmon, *arguments)]
        super().__init__(command, bench.environment(), size, str(bench.folder))
        bench.started.append(self.process)
        bench.closing.callback(self.close)
        # Read all output, or the program would block.
        threading.Thread(target=self.read_all, daemon=True).start()

    def read_all(self) -> None:
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # it has ended, or the terminal is closed
            while True:
                self.watch(60.0)

    @property
    def written(self) -> bytes:
        return b"".join(piece for _, piece in self.arrivals)

    def up(self) -> None:
        until("the screen", lambda: b"\x1b[?1049h" in self.written and self.written.endswith(END_OF_FRAME))

    def end(self, within_s: float = 15.0) -> int:
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Wrong(f"it did not end within {within_s:.0f} s") from None

    def restored(self) -> bool:
        """The program has left the alternate screen and restored the terminal's modes."""
        left = self.written.rfind(b"\x1b[?1049l") > self.written.rfind(b"\x1b[?1049h")
        return left and self.modes() == self.first_modes
