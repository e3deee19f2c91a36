"""Recordings of `trainmon record`, cut short: what would trainmon have said at an earlier moment?

Only one process watches a live run. Its recording gives the verdict, and each prefix of it gives the verdict of that moment,
because replaying is exact.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import unpack

from .monitor import Monitor, MonitorFailed

#: Replaying takes milliseconds; a machine busy with other things makes it more.
REPLAY_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Watched:
    """The verdicts of one recording."""

    #: CLOCK_MONOTONIC seconds of the first and the last sample.
    begin: float
    end: float
    #: The verdict of the whole.
    verdict: dict[str, Any]
    #: (moment of the newest sample, class), one for each sample.
    classes: list[tuple[float, str]]


def lines_of(path: str) -> list[bytes]:
    """The lines of a recording: the header, then a sample each."""
    with open(path, "rb") as file:
        return [line for line in unpack.unpacked(file.read()).split(b"\n") if line]


def watched(monitor: Monitor, device: str, path: str, every: bool = True) -> Watched:
    """Replays a recording, and with `every` each of its prefixes. Raises MonitorFailed if it has no samples."""
    header, *samples = lines_of(path)
    if not samples:
        raise MonitorFailed("the recording holds no samples")
    moments = [json.loads(sample)["monotonic_ns"] / 1e9 for sample in samples]
    verdict = replayed(monitor, device, path)
    classes = []
    folder = tempfile.TemporaryDirectory()
    cut = os.path.join(folder.name, "beginning.tmz")
    for number, moment in enumerate(moments[:-1] if every else [], start=1):
        # Here, so that who asks for no beginnings needs no package.
        import zstandard

        Path(cut).write_bytes(zstandard.compress(b"\n".join([header, *samples[:number], b""]), 1))
        classes.append((moment, str(replayed(monitor, device, cut).get("class"))))
    folder.cleanup()
    classes.append((moments[-1], str(verdict.get("class"))))
    return Watched(moments[0], moments[-1], verdict, classes)


def without_stacks(path: str, out: str) -> str:
    """Writes the same recording without stacks to `out`, and gives that path."""
    import zstandard

    header, *samples = lines_of(path)
    bare = [{**json.loads(sample), "stacks": None} for sample in samples]
    lines = [header, *(json.dumps(sample, separators=(",", ":")).encode() for sample in bare), b""]
    Path(out).write_bytes(zstandard.compress(b"\n".join(lines), 1))
    return out


def replayed(monitor: Monitor, device: str, path: str) -> dict[str, Any]:
    verdict: dict[str, Any] = json.loads(monitor.run(device, "diagnose", "--replay", path, "--json", timeout=REPLAY_PATIENCE_S))
    return verdict
