"""Makes the screens of README.md and docs/: runs `trainmon demo` in a pseudo terminal, presses keys, and saves screens
by the key that people save them with (e, then s).

    python tests/dev.py screens [--trainmon target/release/trainmon] [NAME …]

The files go to assets/screens/; the pages name them, so the pages themselves do not change (docs.rs holds that each is
shown). They are of a real run on this machine, so they differ from time to time.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import tempfile
import termios
import time
from pathlib import Path

from harness import options
from harness.paths import ROOT, TRAINMON

SIZE = (34, 110)

#: name → (arguments, [(seconds to wait, keys)]): the screen is saved after the last wait.
SCREENS = {
    "1-attached": (["demo", "--bottleneck", "io"], [(25, b"")]),
    "2-io": (["demo", "--bottleneck", "io"], [(15, b"4"), (6, b"")]),
    "3-processes": (["demo", "--bottleneck", "io"], [(12, b"5t"), (4, b"")]),
    "4-findings": (["demo", "--bottleneck", "io"], [(15, b"7"), (2, b"")]),
    "5-fixed": (["demo", "--bottleneck", "io", "--workers", "8"], [(25, b"")]),
    "6-cpu": (["demo"], [(15, b"3"), (9, b"")]),
    "7-gpu": (["demo", "--bottleneck", "gpu"], [(20, b"2"), (6, b"")]),
}


class Screen:
    """trainmon in a pseudo terminal; what it writes is read and thrown away."""

    def __init__(self, trainmon: str, arguments: list[str], folder: str):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLORTERM": "truecolor"}
            environment.update(XDG_CONFIG_HOME=folder, XDG_STATE_HOME=folder)
            environment.pop("NO_COLOR", None)
            os.execve(trainmon, [trainmon, *arguments], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:  # it has ended
                    return

    def press(self, keys: bytes) -> None:
        for key in keys:
            os.write(self.master, bytes([key]))
            self.wait(0.2)

    def quit(self) -> None:
        self.press(b"q")
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            self.wait(0.05)
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def make(name: str, trainmon: str) -> None:
    arguments, steps = SCREENS[name]
    with tempfile.TemporaryDirectory() as folder:
        screen = Screen(trainmon, arguments, folder)
        try:
            for seconds, keys in steps:
                screen.wait(seconds)
                screen.press(keys)
            screen.press(b"es")
            screen.wait(1)
        finally:
            screen.quit()
        saved = list(Path(folder).glob("trainmon-*.svg"))
        if len(saved) != 1:
            raise SystemExit(f"{name}: no screen was saved; does `{trainmon} {' '.join(arguments)}` work in a terminal?")
        target = Path(ROOT, "assets/screens", f"{name}.svg")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(saved[0].read_bytes())
        print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, "dev.py screens")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.names if name not in SCREENS]
    if unknown:
        parser.error(f"no screen is called {unknown[0]}: there are {', '.join(SCREENS)}")
    for name in arguments.names or SCREENS:
        make(name, str(Path(arguments.trainmon).resolve()))
    return 0
