"""Stands in for nvidia-smi where the device is simulated: answers from the state file that the fake NVML library reads.

    TRAINMON_SIMULATED_DEVICE=device.bin python fake_smi.py --query-gpu=index,name --format=csv,noheader,nounits

For `measure gpu --fake` only. It shares no code with trainmon or the fake library: what both say of one file is compared. What
is no part of the file (link, driver version, memory clock) are the constants of tests/support/fake_nvml.rs.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests"))

from workloads.simulated_gpu import FIELDS, NAME_BYTES, NAME_OFFSET, RECORD_BYTES

#: A utilisation point covers so long, seconds.
PERIOD_S = 0.167
MIB = 1 << 20


#: A device's fields by name; `name` and `uuid` are text, `busy` a share.
Record = dict[str, Any]


def records(path: str) -> list[Record]:
    """Each device's fields and its name."""
    content = Path(path).read_bytes()
    found = []
    for index in range(int.from_bytes(content[12:16], "little")):
        record = content[RECORD_BYTES * (1 + index) :][:RECORD_BYTES]
        device: Record = {name: struct.unpack_from("<Q", record, at)[0] for name, at in FIELDS.items()}
        device["name"] = record[NAME_OFFSET:][:NAME_BYTES].rstrip(b"\0").decode()
        for who in ("owner", "neighbour"):
            if not os.path.exists(f"/proc/{device[f'{who}_pid']}"):
                device[f"{who}_pid"] = 0
        found.append({**device, "index": index, "uuid": f"GPU-51a1a7ed-0000-4000-8000-{index:012}"})
    return found


def busy_ns(device: Record, now: int, prefix: str = "") -> float:
    """Time for which a queue has worked up to now: see simulated_gpu.py."""
    return float(device[f"{prefix}enqueued_ns"] - max(0, device[f"{prefix}free_at_ns"] - now))


def utilisation(before: Record, then: int, after: Record, now: int) -> float:
    """Share of the time in which the device worked for either process."""
    parts = (("", "owner_pid"), ("neighbour_", "neighbour_pid"))
    worked = sum(busy_ns(after, now, prefix) - busy_ns(before, then, prefix) for prefix, pid in parts if after[pid])
    return min(1.0, max(0.0, worked / max(1, now - then)))


def power_w(device: Record) -> float:
    idle, busy = float(device["power_idle_mw"]), float(device["power_busy_mw"])
    return (idle + (busy - idle) * float(device["busy"])) / 1e3


ANSWERS: dict[str, Callable[[Record], object]] = {
    "index": lambda device: device["index"],
    "uuid": lambda device: device["uuid"],
    "name": lambda device: device["name"],
    "driver_version": lambda _device: "580.95.05",
    "utilization.gpu": lambda device: round(device["busy"] * 100),
    "utilization.memory": lambda device: round(device["busy"] * device["memory_busy_pct"]),
    "memory.used": lambda device: device["memory_used_bytes"] // MIB,
    "memory.total": lambda device: device["memory_total_bytes"] // MIB,
    "power.draw": lambda device: f"{power_w(device):.2f}",
    "enforced.power.limit": lambda device: f"{device['power_limit_mw'] / 1e3:.2f}",
    "temperature.gpu": lambda device: device["temperature_c"],
    "clocks.sm": lambda device: device["sm_clock_mhz"],
    "clocks.max.sm": lambda device: device["sm_clock_max_mhz"],
    "clocks.mem": lambda _device: 6251,
    "clocks.max.mem": lambda _device: 6251,
    "clocks_event_reasons.active": lambda device: f"0x{device['clock_event_reasons']:016X}",
    "pcie.link.gen.current": lambda _device: 3,
    "pcie.link.gen.max": lambda _device: 4,
    "pcie.link.width.current": lambda _device: 8,
    "pcie.link.width.max": lambda _device: 16,
    "utilization.encoder": lambda _device: 0,
    "utilization.decoder": lambda _device: 0,
    "mig.mode.current": lambda _device: "Disabled",
    "ecc.errors.uncorrected.volatile.total": lambda _device: 0,
}


def query(path: str, fields: list[str]) -> int:
    """One line a device. A field that is not known fails the whole call, as nvidia-smi's do."""
    for field in fields:
        if field not in ANSWERS:
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    before, then = records(path), time.monotonic_ns()
    if any(field.startswith(("utilization", "power")) for field in fields):
        time.sleep(PERIOD_S)
    for old, device in zip(before, records(path)):
        device["busy"] = utilisation(old, then, device, time.monotonic_ns())
        print(", ".join(str(ANSWERS[field](device)) for field in fields))
    return 0


def compute_apps(path: str) -> int:
    for device in records(path):
        for who in ("owner", "neighbour"):
            if device[f"{who}_pid"]:
                print(f"{device[f'{who}_pid']}, {device['uuid']}, {device[f'{who}_memory_bytes'] // MIB}")
    return 0


def main() -> int:
    path = os.environ["TRAINMON_SIMULATED_DEVICE"]
    for argument in sys.argv[1:]:
        if argument.startswith("--query-gpu="):
            return query(path, argument.partition("=")[2].split(","))
        if argument.startswith("--query-compute-apps="):
            return compute_apps(path)
    print("fake_smi.py: ask with --query-gpu=… or --query-compute-apps=…", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
