"""The owner's side of a simulated GPU: a file that describes a made-up device, written by a training-like program.

Work is an asynchronous queue in order, as on a CUDA stream. Launching work of length d at time t sets
`start = max(free_at, t); free_at = start + d; enqueued += d`, so the busy time up to now is exactly
`enqueued - max(0, free_at - now)` and nobody has to tick. Readers (the fake NVML library and trainmon's own
simulated device) poll the file; a sequence number in each record, odd while it is written, lets them see torn reads.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import functools
import mmap
import os
import threading
import time

MAGIC = b"TMSIMGPU"
VERSION = 1
RECORD_BYTES = 256
MAX_DEVICES = 16
FILE_BYTES = RECORD_BYTES * (1 + MAX_DEVICES)

GIB = 1 << 30

#: Offset in bytes of each u64 field inside a device's record.
FIELDS = {
    "sequence": 0,
    "enqueued_ns": 8,
    "free_at_ns": 16,
    "memory_used_bytes": 24,
    "memory_total_bytes": 32,
    "power_idle_mw": 40,
    "power_busy_mw": 48,
    "power_limit_mw": 56,
    "temperature_c": 64,
    "sm_clock_mhz": 72,
    "sm_clock_max_mhz": 80,
    "memory_busy_pct": 88,
    "clock_event_reasons": 96,
    "pcie_rx_kib_s": 104,
    "pcie_tx_kib_s": 112,
    "owner_pid": 120,
    "owner_memory_bytes": 128,
    "neighbour_pid": 136,
    "neighbour_enqueued_ns": 144,
    "neighbour_free_at_ns": 152,
    "neighbour_memory_bytes": 160,
    "lost": 216,
    "hang_ms": 224,
    "gpm_supported": 232,
    "sm_active_pct": 240,
    "dram_active_pct": 248,
}
NAME_OFFSET, NAME_BYTES = 168, 48

#: A device that is healthy and, while its queue runs, works hard.
DEFAULTS = {
    "memory_used_bytes": 21 * GIB,
    "memory_total_bytes": 80 * GIB,
    "power_idle_mw": 70_000,
    "power_busy_mw": 640_000,
    "power_limit_mw": 700_000,
    "temperature_c": 61,
    "sm_clock_mhz": 1_980,
    "sm_clock_max_mhz": 1_980,
    "memory_busy_pct": 45,
    "clock_event_reasons": 0,
    "pcie_rx_kib_s": 400 * 1024,
    "pcie_tx_kib_s": 40 * 1024,
    "owner_memory_bytes": 20 * GIB,
    "gpm_supported": 0,
    "sm_active_pct": 88,
    "dram_active_pct": 40,
}

#: Methods that the native library has as well.
BY_NATIVE_CODE = ("launch", "synchronize", "wait_until_ahead")

#: Launches that may be outstanding before the next one blocks; CUDA's launch queue holds about as many.
MAX_QUEUED_LAUNCHES = 1024


def create(path: str, name: str = "Simulated H200", devices: int = 1) -> None:
    """Writes a file with idle devices that nobody owns."""
    content = bytearray(FILE_BYTES)
    content[0:8] = MAGIC
    content[8:12] = VERSION.to_bytes(4, "little")
    content[12:16] = devices.to_bytes(4, "little")
    encoded = name.encode()[: NAME_BYTES - 1]
    for index in range(devices):
        record = RECORD_BYTES * (1 + index)
        for field, value in {**DEFAULTS, "owner_memory_bytes": 0, "memory_used_bytes": GIB}.items():
            at = record + FIELDS[field]
            content[at : at + 8] = value.to_bytes(8, "little")
        at = record + NAME_OFFSET
        content[at : at + len(encoded)] = encoded
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def owner(path: str, index: int = 0) -> int:
    """PID of the process that a device belongs to, as the driver names it; 0 for nobody."""
    with open(path, "rb") as file:
        file.seek(RECORD_BYTES * (1 + index) + FIELDS["owner_pid"])
        return int.from_bytes(file.read(8), "little")


def name_owner(path: str, pid: int, index: int = 0) -> None:
    """Has the driver name another PID for a device's process."""
    with open(path, "r+b") as file:
        file.seek(RECORD_BYTES * (1 + index) + FIELDS["owner_pid"])
        file.write(pid.to_bytes(8, "little"))


@functools.cache
def native(path: str) -> ctypes.CDLL:
    """The library of simulated_cuda.rs."""
    library = ctypes.CDLL(path)
    library.simulated_new.argtypes = [ctypes.c_void_p]
    library.simulated_new.restype = ctypes.c_void_p
    library.simulated_launch.argtypes = [ctypes.c_void_p, ctypes.c_double]
    library.simulated_synchronize.argtypes = [ctypes.c_void_p]
    library.simulated_wait_until_ahead.argtypes = [ctypes.c_void_p, ctypes.c_double]
    library.simulated_wait_until.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.simulated_waited.argtypes = [ctypes.c_void_p]
    library.simulated_waited.restype = ctypes.c_double
    for wait in (library.simulated_launch, library.simulated_synchronize, library.simulated_wait_until_ahead):
        wait.restype = None
    return library


class SimulatedGpu:
    """A device of a file (the first, unless told otherwise), owned by this process.

    `sync` says how waiting for the device looks from outside: "block" sleeps in a futex (CUDA with blocking
    synchronisation), "spin" burns a core (CUDA's default); without it $TRAINMON_SIMULATED_SYNC decides, else "block". Where
    $TRAINMON_SIMULATED_CUDA names libsimulated_cuda.so, a device that spins launches and waits in native code without the
    interpreter lock, as CUDA does. Not safe to use from several threads.
    """

    def __init__(self, path: str, sync: str | None = None, index: int = 0, **fields: int):
        sync = sync or os.environ.get("TRAINMON_SIMULATED_SYNC", "block")
        if sync not in ("block", "spin"):
            raise ValueError(f"sync is {sync!r}; it must be 'block' or 'spin'")
        if not os.path.exists(path):
            create(path)
        self.sync = sync
        self._waited_s = 0.0
        self._file = open(path, "r+b")
        # Where there are files that stand for a driver's, they are held open, as by CUDA and ROCm.
        nodes = os.environ.get("TRAINMON_SIMULATED_NODES", "").format(index=index, render=128 + index)
        self._nodes = [open(node, "rb") for node in nodes.split(",") if os.path.exists(node)]
        self._map = mmap.mmap(self._file.fileno(), FILE_BYTES)
        record_at = RECORD_BYTES * (1 + index)
        record = memoryview(self._map)[record_at : record_at + RECORD_BYTES]
        # A typed view stores eight bytes at once, which struct.pack_into does not.
        self._words = record.cast("Q")
        self._enqueued = 0
        self._free_at = 0
        self._queue: collections.deque[int] = collections.deque()
        self._neighbour_share = 0.0
        self._pending: list[int] = []
        self._never = threading.Event()
        self._pid = os.getpid()
        self.set(enqueued_ns=0, free_at_ns=0, owner_pid=self._pid, **{**DEFAULTS, **fields})
        atexit.register(self._release)
        library = os.environ.get("TRAINMON_SIMULATED_CUDA")
        self._native = native(library) if library and sync == "spin" else None
        if self._native is not None:
            # Of these types a call leaves no frame of Python's.
            address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._map, record_at))
            self._queue_of = ctypes.c_void_p(self._native.simulated_new(address))
            for name in BY_NATIVE_CODE:
                self.__dict__[name] = functools.partial(getattr(self._native, f"simulated_{name}"), self._queue_of)

    @property
    def synced_s(self) -> float:
        """Seconds spent waiting for the device so far."""
        return self._waited_s + (self._native.simulated_waited(self._queue_of) if self._native else 0.0)

    def set(self, **fields: int) -> None:
        """Writes fields of the record by name, as one update."""
        self._words[0] += 1
        for field, value in fields.items():
            self._words[FIELDS[field] // 8] = value
        self._words[0] += 1

    def share_with(self, pid: int, share: float) -> None:
        """Lets another process hold the device for `share` of the time: before each piece of ours, one of its own.

        Launches are then kept back until the next synchronisation, so the loop must synchronise at each step.
        """
        self._neighbour_share = share
        for name in BY_NATIVE_CODE:
            self.__dict__.pop(name, None)
        self.set(neighbour_pid=pid, neighbour_memory_bytes=24 * GIB, memory_used_bytes=45 * GIB)

    def launch(self, seconds: float) -> None:
        """Queues work; returns at once unless the launch queue is full."""
        length = int(seconds * 1e9)
        if self._neighbour_share:
            self._pending.append(length)
            return
        self._enqueue(length)

    def _enqueue(self, length: int) -> None:
        now = time.monotonic_ns()
        queue = self._queue
        while len(queue) >= MAX_QUEUED_LAUNCHES:
            self._wait_until(queue[0])
            now = time.monotonic_ns()
            while queue and queue[0] <= now:
                queue.popleft()
        self._enqueued += length
        self._free_at = max(self._free_at, now) + length
        queue.append(self._free_at)
        words = self._words
        words[0] += 1
        words[1] = self._enqueued
        words[2] = self._free_at
        words[0] += 1

    def synchronize(self) -> None:
        """Waits until the queue is empty."""
        for length in self._pending:
            self._neighbours_turn(length)
            self._enqueue(length)
            self._wait_until(self._free_at)
        self._pending.clear()
        self._wait_until(self._free_at)

    def wait_until_ahead(self, seconds: float) -> None:
        """Waits until at most this much work is queued, as reading the loss of an earlier step does."""
        self._wait_until(self._free_at - int(seconds * 1e9))

    def _neighbours_turn(self, length: int) -> None:
        now = time.monotonic_ns()
        turn = int(length * self._neighbour_share / (1.0 - self._neighbour_share))
        enqueued = self._words[FIELDS["neighbour_enqueued_ns"] // 8] + turn
        self.set(neighbour_enqueued_ns=enqueued, neighbour_free_at_ns=now + turn)
        self._wait_until(now + turn)

    def _wait_until(self, moment_ns: int) -> None:
        began = time.monotonic_ns()
        left = moment_ns - began
        if left <= 0:
            return
        if self._native:
            self._native.simulated_wait_until(self._queue_of, moment_ns)
            return
        if self.sync == "block":
            self._never.wait(left / 1e9)
        else:
            while time.monotonic_ns() < moment_ns:
                pass
        self._waited_s += (time.monotonic_ns() - began) / 1e9

    def busy_s(self) -> float:
        """Seconds that the device has worked for us so far."""
        return (self._words[1] - max(0, self._words[2] - time.monotonic_ns())) / 1e9

    def _release(self) -> None:
        if os.getpid() == self._pid:
            self.set(owner_pid=0, owner_memory_bytes=0, memory_used_bytes=GIB)
