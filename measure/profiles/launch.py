"""Starts a program and measures it: `launch.py FD SECONDS BYTES PROGRAM…` writes a line of JSON to the file descriptor.

The kernel counts the memory of the process that starts a program towards that program's peak. So the process that does must be small,
and imports little.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def main(report: int, patience_s: float, most_bytes: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        os.execvp(command[0], command)
    ended = os.pidfd_open(child)
    in_time = bool(select.select([ended], [], [], patience_s)[0])
    # No effect if it has ended. Its status is not read yet, so the PID is still its own.
    signal.pidfd_send_signal(ended, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    wall_s = time.monotonic() - began
    told = (os.waitstatus_to_exitcode(status), wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, int(in_time))
    os.write(report, ("[" + ", ".join(map(str, told)) + "]\n").encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
