"""Processes: ending them with their parent, finding descendants and session members, reading state and CPU time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
#: So many looks, of 30 ms, are left to who removes what the others shared.
TRACKER_TURNS = 40
_LIBC = ctypes.CDLL(None)


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends; to be called in the child."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills the process when the block is left, if it has not ended by then."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a session, and all of the session; returns when they are gone."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    # What it was just starting when it died may turn up late, so look again.
    for turn in range(100):
        left = members_of_session(process.pid)
        if not left:
            return
        for pid in left:
            if turn < TRACKER_TURNS and is_resource_tracker(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.03)


def is_resource_tracker(pid: int) -> bool:
    """Python's helper that removes named semaphores when all who use them are gone, and then ends by itself."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False


def members_of_session(session: int) -> list[int]:
    """Living processes of a session: all that a workload started, in whichever process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session and state(int(name)) not in "ZX":
                    found.append(int(name))
            except (ProcessLookupError, PermissionError):
                pass
    return found


def stat(pid: int) -> list[str]:
    """The fields of a process's stat file behind its name, its state first; none where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """The letter of its state (proc(5)); X for one that is gone."""
    return next(iter(stat(pid)), "X")


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
        except OSError:
            pass
    return found


def host_cpu_seconds() -> float:
    """CPU time that all processes of this machine have used (user, nice, system)."""
    with open("/proc/stat", "rb") as file:
        fields = file.readline().split()
    return sum(map(int, fields[1:4])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, children: bool = False) -> float | None:
    """User and system time of a process; with `children`, that of all it started that ended and was waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11 : 15 if children else 13])) / os.sysconf("SC_CLK_TCK")
