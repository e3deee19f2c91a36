"""A program in a pseudo-terminal: types keys, and keeps its output with the time of each piece."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from typing import Any

from workloads.processes import die_with_parent

from .monitor import Monitor

#: Ends a synchronized update: the frame is complete.
END_OF_FRAME = b"\x1b[?2026l"
#: Queries that a program may send its terminal, with the answers of a plain terminal.
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c"}


class Terminal:
    """`with Terminal(…) as terminal:` runs the program, and ends it whenever the block ends."""

    def __init__(
        self, command: list[str], environment: dict[str, str], size: tuple[int, int] = (120, 40), folder: str | None = None
    ):
        self.arrivals: list[tuple[float, bytes]] = []
        self._outer, inner = pty.openpty()
        columns, rows = size
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.first_modes = self.modes()
        parent = os.getpid()

        def prepare() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            die_with_parent(parent)

        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=prepare,
            env={**environment, "TERM": "xterm-256color"},
            cwd=folder,
        )
        os.close(inner)

    @classmethod
    def of_monitor(
        cls, monitor: Monitor, device: str, *arguments: str, given: dict[str, str] | None = None
    ) -> Terminal:
        """trainmon's screen, with these arguments and additions to the environment."""
        return cls(monitor.command(*arguments), {**monitor.environment(device), **(given or {})})

    def __enter__(self) -> Terminal:
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    def modes(self) -> list[Any]:
        """The terminal's modes, as the program has set them."""
        return termios.tcgetattr(self._outer)[:4]

    def read(self, until: float) -> bytes | None:
        """The next bytes; None if there were none until that time of the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._outer], [], [], left)
            if ready:
                try:
                    piece = os.read(self._outer, 1 << 16)
                except OSError:
                    piece = b""
                if not piece:
                    raise RuntimeError(f"the screen ended: {self.tail()}")
                self.arrivals.append((time.monotonic(), piece))
                for question, answer in ANSWERS.items():
                    if question in piece:
                        os.write(self._outer, answer)
                return piece
        return None

    def watch(self, seconds: float) -> None:
        """Reads all output for this many seconds."""
        until = time.monotonic() + seconds
        while self.read(until) is not None:
            pass

    def press(self, key: str) -> None:
        os.write(self._outer, key.encode())

    def frame_after(self, key: str, patience: float = 10.0) -> float:
        """Presses a key, and returns the seconds until a complete frame has arrived."""
        self.press(key)
        pressed, seen = time.monotonic(), b""
        while END_OF_FRAME not in seen:
            piece = self.read(pressed + patience)
            if piece is None:
                raise RuntimeError(f"no frame within {patience:.0f} s after {key!r}")
            seen += piece
        return self.arrivals[-1][0] - pressed

    def tail(self) -> str:
        """The end of the output, for a message."""
        return b"".join(piece for _, piece in self.arrivals)[-200:].decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the program, if it has not ended."""
        self.process.kill()
        self.process.wait()
        os.close(self._outer)

    def __exit__(self, *_error: object) -> None:
        self.close()
