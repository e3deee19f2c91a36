"""Takes the screenshots in README.md and docs/: runs `trainmon demo` in a pseudo-terminal, presses keys, and saves the screen
with the keys that a user would press (e, then s).

    python tests/dev.py screens [--trainmon target/release/trainmon] [NAME …]

The files go to assets/screens/ under the names that the pages use. They show real runs on this machine, so they differ
slightly each time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from harness import options
from harness.paths import ROOT, TRAINMON
from harness.terminal import Terminal

#: Columns and rows.
SIZE = (110, 34)
#: trainmon may take so long to leave at its key.
LEAVES_S = 5.0

#: name → (arguments, [(seconds to wait, keys)]): the screen is saved after the last wait.
SCREENS: dict[str, tuple[list[str], list[tuple[float, str]]]] = {
    "1-attached": (["demo", "--bottleneck", "io"], [(25, "")]),
    "2-io": (["demo", "--bottleneck", "io"], [(15, "4"), (6, "")]),
    "3-processes": (["demo", "--bottleneck", "io"], [(12, "5t"), (4, "")]),
    "4-findings": (["demo", "--bottleneck", "io"], [(15, "7"), (2, "")]),
    "5-fixed": (["demo", "--bottleneck", "io", "--workers", "8"], [(25, "")]),
    "6-cpu": (["demo"], [(15, "3"), (9, "")]),
    "7-gpu": (["demo", "--bottleneck", "gpu"], [(20, "2"), (6, "")]),
}


def make(name: str, trainmon: str) -> None:
    arguments, steps = SCREENS[name]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LANG": "C.UTF-8", "COLORTERM": "truecolor", "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
        environment.pop("NO_COLOR", None)
        with Terminal([trainmon, *arguments], environment, SIZE, folder) as terminal:
            with contextlib.suppress(RuntimeError):  # it has ended
                for seconds, keys in [*steps, (0, "es"), (1, "q"), (LEAVES_S, "")]:
                    terminal.watch(seconds)
                    for key in keys:
                        terminal.press(key)
                        terminal.watch(0.2)
            terminal.process.terminate()
            terminal.process.wait(LEAVES_S)
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
        parser.error(f"no screen is named {unknown[0]}; there are {', '.join(SCREENS)}")
    for name in arguments.names or SCREENS:
        make(name, str(Path(arguments.trainmon).resolve()))
    return 0
