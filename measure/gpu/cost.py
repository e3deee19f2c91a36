"""How long each of trainmon's NVML calls takes. Runs in a separate process, because a call may hang with the driver.

    python cost.py libnvidia-ml.so.1        prints [[call, median, longest], …] as JSON

Run it while a GPU works, because some calls wait for the driver's lock. The median is over several calls of each.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

#: How often each is called, and the most seconds that go to one.
CALLS, MOST_S = 30, 1.0
PATIENCE_S = 45.0
#: Room for 256 entries of the largest struct that is listed (nvmlProcessInfo_t and samples are 24 bytes, with spare).
ENTRIES = 256
Make = Callable[[ctypes.CDLL, ctypes.c_void_p], int]


def one(name: str, *given: int) -> tuple[str, Make]:
    """A call that fills one out parameter, of whatever size."""
    room = ctypes.create_string_buffer(256)
    return name, lambda library, device: getattr(library, name)(device, *given, room)


def two(name: str) -> tuple[str, Make]:
    first, second = ctypes.c_uint(), ctypes.c_uint()
    return name, lambda library, device: getattr(library, name)(device, ctypes.byref(first), ctypes.byref(second))


def listed(name: str) -> tuple[str, Make]:
    room = ctypes.create_string_buffer(64 * ENTRIES)

    def call(library: ctypes.CDLL, device: ctypes.c_void_p) -> int:
        return int(getattr(library, name)(device, ctypes.byref(ctypes.c_uint(ENTRIES)), room))

    return name, call


def process_utilisation() -> tuple[str, Make]:
    name, room = "nvmlDeviceGetProcessUtilization", ctypes.create_string_buffer(64 * ENTRIES)

    def call(library: ctypes.CDLL, device: ctypes.c_void_p) -> int:
        since = ctypes.c_ulonglong(int((time.time() - 1.0) * 1e6))
        return int(getattr(library, name)(device, room, ctypes.byref(ctypes.c_uint(ENTRIES)), since))

    return name, call


def samples() -> tuple[str, Make]:
    name, room = "nvmlDeviceGetSamples", ctypes.create_string_buffer(64 * ENTRIES)
    kind, count = ctypes.c_uint(), ctypes.c_uint(ENTRIES)

    def call(library: ctypes.CDLL, device: ctypes.c_void_p) -> int:
        count.value = ENTRIES
        since = ctypes.c_ulonglong(int((time.time() - 1.0) * 1e6))
        # NVML_GPU_UTILIZATION_SAMPLES is 1.
        return int(getattr(library, name)(device, 1, since, ctypes.byref(kind), ctypes.byref(count), room))

    return name, call


#: Clock 1 is the SM's, temperature sensor 0 the core's, PCIe counters 0 and 1 sent and received (nvml.h).
MADE: tuple[tuple[str, Make], ...] = (
    one("nvmlDeviceGetUtilizationRates"),
    one("nvmlDeviceGetMemoryInfo"),
    one("nvmlDeviceGetPowerUsage"),
    one("nvmlDeviceGetTotalEnergyConsumption"),
    one("nvmlDeviceGetClockInfo", 1),
    one("nvmlDeviceGetCurrentClocksEventReasons"),
    one("nvmlDeviceGetTemperature", 0),
    one("nvmlDeviceGetEnforcedPowerLimit"),
    one("nvmlDeviceGetPcieThroughput", 0),
    one("nvmlDeviceGetCurrPcieLinkGeneration"),
    two("nvmlDeviceGetEncoderUtilization"),
    samples(),
    process_utilisation(),
    listed("nvmlDeviceGetComputeRunningProcesses_v3"),
    listed("nvmlDeviceGetGraphicsRunningProcesses_v3"),
    listed("nvmlDeviceGetMPSComputeRunningProcesses_v3"),
)


def duration(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def measured(library: ctypes.CDLL, device: ctypes.c_void_p) -> list[tuple[str, str, str]]:
    rows = []
    for name, call in MADE:
        if not hasattr(library, name):
            rows.append((name, "–", "this library has none"))
            continue
        took: list[float] = []
        began, answer = time.monotonic(), 0
        while len(took) < CALLS and time.monotonic() - began < MOST_S:
            before = time.perf_counter()
            answer = call(library, device)
            took.append(time.perf_counter() - before)
        # Not supported is quick, and no cost that anybody pays.
        more = duration(max(took)) if answer == 0 else f"answers {answer}"
        rows.append((name, duration(statistics.median(took)), more))
    return rows


def beside(library: str, environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The table, measured in a process of its own. Raises RuntimeError with a line about it."""
    try:
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), library], env=environment, capture_output=True, text=True,
            timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"a call of NVML gave no answer within {PATIENCE_S:.0f} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(f"cannot time NVML: {said[-1] if said else f'exit {done.returncode}'}")
    return [tuple(row) for row in json.loads(done.stdout)]


def main() -> int:
    library = ctypes.CDLL(sys.argv[1])
    answer = library.nvmlInit_v2()
    device = ctypes.c_void_p()
    answer = answer or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    if answer:
        raise SystemExit(f"NVML answers {answer}")
    print(json.dumps(measured(library, device)))
    library.nvmlShutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
