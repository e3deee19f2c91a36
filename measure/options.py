"""What all commands share: option parsing, signals, error messages, JSON output."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import Any

from measure.paths import FAKE_NVML, TRAINMON


def parser(about: str | None, name: str) -> argparse.ArgumentParser:
    """A parser that prints `about` unchanged and accepts no abbreviated options. `name` is the command as the user types it."""
    return argparse.ArgumentParser(
        prog=name, description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )


def add_monitor(options: argparse.ArgumentParser) -> None:
    """Adds the options that say which trainmon to run, with which NVML library, and where workloads keep their data."""
    options.add_argument("--trainmon", default=TRAINMON, help="the program")
    options.add_argument("--nvml-lib", default=FAKE_NVML, help="the fake NVML library; `none` means none")
    options.add_argument("--data", help="folder for generated data files (default: under the temporary folder)")


def end_as_interrupted() -> None:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, so that cleanup runs before the process ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def failed(name: str, message: object, status: int = 1) -> int:
    """Prints why a command failed and returns its exit status."""
    print(f"{name}: {message}", file=sys.stderr)
    return status


def write_json(path: str, content: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
