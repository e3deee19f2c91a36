"""How much of its time each process spends loading, decoding, transforming, collating and handing over.

Data sets mark stages (`with stages.TRANSFORM: …`); a loader of `common.loader` times the rest by itself. No frame
of this file is on the stack while something is timed, so that whoever looks at stacks sees the program as it would be
without: collating lasts from the end of the batch's last marked stage until the batch is queued, handing over from
the feeder thread's taking a batch out of its queue until it looks for the next one.

Each process appends lines to a file of its own, `PREFIX.PID`: CLOCK_MONOTONIC seconds, the seconds so far of each of
`NAMES`, and the stage that begins at this moment, or `-`. At most one line in `EVERY_S`, and one more where the stage
that began ends; never from a feeder thread, whose writes are counted from outside.
"""

from __future__ import annotations

import collections
import os
import time
from typing import Any

#: Names the prefix of the files; without it nothing is timed. In the environment, so that spawned workers have it too.
VARIABLE = "TRAINMON_WORKLOAD_STAGES"
NAMES = ("load", "decode", "transform", "collate", "hand_over")
#: Lines are at least this far apart.
EVERY_S = 0.1

_COLLATE, _HAND_OVER = NAMES.index("collate"), NAMES.index("hand_over")


class _Book:
    """What this process has counted so far."""

    def __init__(self) -> None:
        prefix = os.environ.get(VARIABLE)
        self.seconds = [0.0] * len(NAMES)
        #: The end of the last marked stage of the batch that is being made.
        self.made_until: float | None = None
        self._file: int | None = None
        self._written = 0.0
        #: Whether the last line says that a stage begins.
        self._open = False
        if prefix:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(f"{prefix}.{os.getpid()}", flags, 0o600)
            self.note(time.monotonic())

    def note(self, now: float, begins: str = "-") -> None:
        # A stage that was seen to begin must be seen to end, or it would seem to last for as long as nothing follows.
        if self._file is not None and (now - self._written >= EVERY_S or (self._open and begins == "-")):
            self._written, self._open = now, begins != "-"
            counted = " ".join(f"{seconds:.6f}" for seconds in self.seconds)
            os.write(self._file, f"{now:.6f} {counted} {begins}\n".encode())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


_book: _Book | None = None


def _this_book() -> _Book:
    global _book
    if _book is None:
        _book = _Book()
    return _book


def _forget() -> None:
    """A forked child keeps a book of its own."""
    global _book
    if _book is not None:
        _book.close()
    _book = None


os.register_at_fork(after_in_child=_forget)


class Stage:
    """`with` this, the time goes to one stage. Stages do not nest; only the thread that makes batches may use them."""

    __slots__ = ("_number", "_since")

    def __init__(self, name: str):
        self._number = NAMES.index(name)
        self._since = 0.0

    def __enter__(self) -> None:
        now = time.monotonic()
        (_book or _this_book()).note(now, NAMES[self._number])
        self._since = now

    def __exit__(self, *_error: object) -> None:
        now = time.monotonic()
        book = _book or _this_book()
        book.seconds[self._number] += now - self._since
        book.made_until = now
        book.note(now)


LOAD, DECODE, TRANSFORM = Stage("load"), Stage("decode"), Stage("transform")


def batch_made() -> None:
    """A batch is complete: what passed since its last marked stage was collating."""
    book = _book
    if book is not None and book.made_until is not None:
        now = time.monotonic()
        book.seconds[_COLLATE] += now - book.made_until
        book.made_until = None
        book.note(now)


class _TimedBuffer(collections.deque[object]):
    """The buffer between the thread that makes batches and the one that hands them over."""

    _since: float | None = None

    def append(self, batch: object) -> None:
        batch_made()
        super().append(batch)

    def popleft(self) -> object:
        if self._since is not None:
            _this_book().seconds[_HAND_OVER] += time.monotonic() - self._since
            self._since = None
        batch = super().popleft()
        self._since = time.monotonic()
        return batch


def time_worker(_worker_id: int) -> None:
    """For DataLoader's `worker_init_fn`: times collating and handing over in this worker."""
    if not os.environ.get(VARIABLE):
        return
    from multiprocessing import queues

    # Its private parts, which no types tell of.
    kind: Any = queues.Queue
    start = kind._start_thread

    def start_timed(queue: Any) -> None:
        queue._buffer = _TimedBuffer()
        start(queue)

    kind._start_thread = start_timed
    _this_book()
