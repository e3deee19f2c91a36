"""What a program really does, written by itself where `python measure uses` can read it: units done, and seconds in its parts.

The file that $TALLY names has a slot of `SLOT` for each process that counts, so nothing is locked. Without $TALLY nothing happens.
Only the standard library: any program can import it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

#: PID, units, monotonic seconds of the last unit; then for each part its name, the seconds in it, and since when it is in it now (or 0).
HEAD, PART, PARTS, SLOTS = struct.Struct("QQd"), struct.Struct("24sdd"), 4, 64
SLOT = HEAD.size + PARTS * PART.size

#: True where the program is to follow the advice that is right for it.
fixed = os.environ.get("TALLY_FIXED") == "1"

#: The parts of the advice that the program is to follow, by their names with commas between them.
_fixes = frozenset(os.environ.get("TALLY_FIXES", "").split(",")) - {""}


def fixes(name: str) -> bool:
    """Whether the program is to do what makes this part short, as its plan says."""
    return name in _fixes


class _Slot:
    """This process's part of the file."""

    def __init__(self, path: str):
        self.pid = os.getpid()
        # Each thread adds to its own number: += on a shared one would lose some.
        self.counts: dict[int, int] = {}
        self.parts: dict[str, int] = {}
        with open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.map = mmap.mmap(file.fileno(), SLOTS * SLOT)
            self.at = next(at for at in range(0, SLOTS * SLOT, SLOT) if not HEAD.unpack_from(self.map, at)[0])
            HEAD.pack_into(self.map, self.at, self.pid, 0, 0.0)
            # The map keeps the file open, and so the lock.
            fcntl.flock(file, fcntl.LOCK_UN)

    def part(self, name: str) -> int:
        return self.at + HEAD.size + PART.size * self.parts.setdefault(name, len(self.parts))


_path = os.environ.get("TALLY")
_slot: _Slot | None = None


def _mine() -> _Slot | None:
    """The slot of this process, which may have been forked from one that has another."""
    global _slot
    if _path and (_slot is None or _slot.pid != os.getpid()):
        _slot = _Slot(_path)
    return _slot


def units(n: int = 1) -> None:
    """Counts what was done."""
    if slot := _mine():
        thread = threading.get_ident()
        slot.counts[thread] = slot.counts.get(thread, 0) + n
        HEAD.pack_into(slot.map, slot.at, slot.pid, sum(slot.counts.values()), time.monotonic())


@contextlib.contextmanager
def part(name: str) -> Iterator[None]:
    """Adds the seconds until it is left to those of this part; one thread at a time."""
    slot = _mine()
    if not slot:
        yield
        return
    at, began = slot.part(name), time.monotonic()
    _, seconds, _ = PART.unpack_from(slot.map, at)
    PART.pack_into(slot.map, at, name.encode(), seconds, began)
    try:
        yield
    finally:
        PART.pack_into(slot.map, at, name.encode(), seconds + time.monotonic() - began, 0.0)


@dataclass
class Reading:
    """All of the file at one moment, in monotonic seconds."""

    at: float
    units: int = 0
    last: float = 0.0
    #: The process that has counted most.
    counting: int | None = None
    parts: dict[str, float] = field(default_factory=dict)


def create(path: str) -> None:
    with open(path, "wb") as file:
        file.truncate(SLOTS * SLOT)


def read(path: str) -> Reading:
    with open(path, "rb") as file:
        content = file.read()
    found, most = Reading(time.monotonic()), 0
    for at in range(0, SLOTS * SLOT, SLOT):
        pid, count, last = HEAD.unpack_from(content, at)
        found.units += count
        found.last = max(found.last, last)
        if count > most:
            found.counting, most = pid, count
        for number in range(PARTS):
            name, seconds, since = PART.unpack_from(content, at + HEAD.size + number * PART.size)
            if name := name.rstrip(b"\0").decode():
                seconds += found.at - since if since else 0.0
                found.parts[name] = found.parts.get(name, 0.0) + seconds
    return found
