"""What the commands have in common: how they take options, end, and fail."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import Any

from harness.paths import FAKE_NVML, TRAINMON


def parser(about: str | None, name: str) -> argparse.ArgumentParser:
    """Prints `about` as it stands, and takes no abbreviated options. `name`: how the command is called."""
    return argparse.ArgumentParser(
        prog=name, description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )


def add_monitor(options: argparse.ArgumentParser) -> None:
    """Which program is measured, on which devices, and where its data goes."""
    options.add_argument("--trainmon", default=TRAINMON, help="the program")
    options.add_argument("--nvml-lib", default=FAKE_NVML, help="the fake NVML library; `none` passes none on")
    options.add_argument("--data", help="folder for generated data files (default: under the temporary folder)")


def end_as_interrupted() -> None:
    """A signal that ends this process raises KeyboardInterrupt first, so that what it started is ended too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def failed(name: str, message: object, status: int = 1) -> int:
    """Says in one line why a command failed; its exit status."""
    print(f"{name}: {message}", file=sys.stderr)
    return status


def write_json(path: str, content: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
