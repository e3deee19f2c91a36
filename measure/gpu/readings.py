"""Every NVML reading that trainmon shows, its field of nvidia-smi's, and how far the two may lie apart. Pure.

A reading agrees when the median distance over the pairs of looks of each phase (idle, working) lies within its tolerance.
Both take their looks when they can, so single pairs of what moves may differ; what does not move has no tolerance at all.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from measure.numbers import known, mean

from .smi import App, Row, number

AGREES, DIFFERS, NOT_OFFERED = "agrees", "differs", "not offered"
MIB = 1 << 20
#: Looks further apart than this are no pair, seconds: a sample a half second, and nvidia-smi's call takes up to as long.
NEAR_S = 0.6

Device = dict[str, Any]


def milli(device: Device, key: str) -> float | None:
    return None if device.get(key) is None else device[key] / 1e3


def mib(device: Device, key: str) -> float | None:
    return None if device.get(key) is None else device[key] / MIB


def text(raw: str | None) -> str | None:
    return raw


def enabled(raw: str | None) -> float | None:
    """A mode: Enabled or Disabled."""
    return {"enabled": 1.0, "disabled": 0.0}.get((raw or "").strip().lower())


@dataclass(frozen=True)
class Reading:
    """One reading. `names`: nvidia-smi's field, the newest name first; without one it has no counterpart there."""

    name: str
    unit: str
    names: tuple[str, ...]
    ours: Callable[[Device], float | str | None]
    #: What the two may differ by: the larger of a distance in the unit and a part of nvidia-smi's value.
    distance: float = 0.0
    part: float = 0.0
    theirs: Callable[[str | None], float | str | None] = number
    #: Why there is none in nvidia-smi.
    why: str = ""


def value_of(key: str) -> Callable[[Device], float | str | None]:
    return lambda device: float(device[key]) if isinstance(device.get(key), (int, float)) else device.get(key)


def points(device: Device) -> float | None:
    """Mean of the points of the samples buffer since the sample before."""
    return mean(point["pct"] for point in device.get("utilization_points") or [])


def gpm(device: Device) -> float | None:
    return (device.get("gpm") or {}).get("sm_active_pct")


NONE = "not among nvidia-smi's --query-gpu"

#: Tolerances. Utilisation covers the last 1/6 to 1 s of two looks up to 0.6 s apart; power is an average over 1 s on Ampere and
#: newer (nvmlDeviceGetPowerUsage); clocks, temperature and memory move between looks; limits, totals and maxima do not.
READINGS: tuple[Reading, ...] = (
    Reading("UUID", "", ("uuid",), value_of("uuid"), theirs=text),
    Reading("name", "", ("name",), value_of("name"), theirs=text),
    Reading("driver", "", ("driver_version",), value_of("driver"), theirs=text),
    Reading("utilisation", "%", ("utilization.gpu",), value_of("utilization_pct"), distance=10),
    Reading("utilisation, mean of points", "%", ("utilization.gpu",), points, distance=10),
    Reading("memory utilisation", "%", ("utilization.memory",), value_of("memory_utilization_pct"), distance=8),
    Reading("memory used", "MiB", ("memory.used",), lambda d: mib(d, "memory_used_bytes"), distance=64, part=0.01),
    Reading("memory fitted", "MiB", ("memory.total",), lambda d: mib(d, "memory_total_bytes"), distance=1),
    Reading("power", "W", ("power.draw",), lambda d: milli(d, "power_mw"), distance=5, part=0.10),
    Reading("power, from the energy counter", "W", ("power.draw",), value_of("energy_w"), distance=8, part=0.15),
    Reading("power limit", "W", ("enforced.power.limit",), lambda d: milli(d, "power_limit_mw"), distance=0.1),
    Reading("temperature", "°C", ("temperature.gpu",), value_of("temperature_c"), distance=3),
    Reading("SM clock", "MHz", ("clocks.sm",), value_of("sm_clock_mhz"), distance=30, part=0.05),
    Reading("SM clock, maximum", "MHz", ("clocks.max.sm",), value_of("sm_clock_max_mhz")),
    Reading("memory clock", "MHz", ("clocks.mem",), value_of("memory_clock_mhz"), part=0.02),
    Reading("memory clock, maximum", "MHz", ("clocks.max.mem",), value_of("memory_clock_max_mhz")),
    Reading(
        "clock event reasons", "mask", ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
        value_of("clock_event_reasons"),
    ),
    Reading("PCIe generation", "", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current"), value_of("pcie_generation")),
    Reading("PCIe generation, maximum", "", ("pcie.link.gen.max",), value_of("pcie_generation_max")),
    Reading("PCIe width", "lanes", ("pcie.link.width.current",), value_of("pcie_width")),
    Reading("PCIe width, maximum", "lanes", ("pcie.link.width.max",), value_of("pcie_width_max")),
    Reading("encoder", "%", ("utilization.encoder",), value_of("encoder_pct"), distance=5),
    Reading("decoder", "%", ("utilization.decoder",), value_of("decoder_pct"), distance=5),
    Reading("MIG", "on", ("mig.mode.current",), value_of("mig"), theirs=enabled),
    Reading("ECC errors, uncorrected", "", ("ecc.errors.uncorrected.volatile.total",), value_of("ecc_uncorrected")),
    Reading("PCIe received", "KiB/s", (), value_of("pcie_rx_kib_s"), why=NONE),
    Reading("PCIe sent", "KiB/s", (), value_of("pcie_tx_kib_s"), why=NONE),
    Reading("SMs active (GPM)", "%", (), gpm, why=NONE),
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """nvidia-smi's answers at a moment, seconds since 1970, in a phase ("idle", "working")."""

    phase: str
    moment: float
    rows: list[Row]
    apps: list[App]


@dataclass(frozen=True)
class Sampled:
    """The devices of one of trainmon's samples, when they were read."""

    phase: str
    moment: float
    devices: list[Device]


@dataclass
class Compared:
    """A row of the table: one reading of one device."""

    reading: str
    device: str
    ours: str
    theirs: str
    outcome: str
    note: str = ""
    pairs: int = 0
    #: Median distance by phase, in the reading's unit; for text and sets, share of the pairs that differ.
    distances: dict[str, float] = field(default_factory=dict)


def pairs(looks: Iterable[Look], samples: list[Sampled]) -> list[tuple[Look, Sampled]]:
    """Each look with the sample nearest to it in the same phase, if there is one near."""
    found = []
    for look in looks:
        same = [sampled for sampled in samples if sampled.phase == look.phase]
        nearest = min(same, key=lambda sampled: abs(sampled.moment - look.moment), default=None)
        if nearest is not None and abs(nearest.moment - look.moment) <= NEAR_S:
            found.append((look, nearest))
    return found


def shown(value: Any, unit: str) -> str:
    """A value for the table; – where there is none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if unit == "on":
        return "on" if value else "off"
    if unit == "mask":
        return f"0x{int(value):x}"
    return f"{value:.0f} {unit}".strip() if value == round(value) else f"{value:.1f} {unit}".strip()


def distance(ours: float | str, theirs: float | str) -> float:
    """How far apart two values are; of text, and of a number and text, 1 where they differ."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return float(str(ours).strip() != str(theirs).strip())
    return abs(ours - theirs)


def compare(
    reading: Reading, known_as: str | None, index: int, of_phases: list[tuple[Look, Sampled]]
) -> Compared | None:
    """One reading of one device over all pairs; None where neither has the device."""
    ours: Any = None
    theirs: Any = None
    missing = {"ours": 0, "theirs": 0}
    apart: dict[str, list[float]] = {}
    allowed: dict[str, list[float]] = {}
    seen = 0
    for look, sampled in of_phases:
        row = next((row for row in look.rows if number(row.get("index")) == index), None)
        device = next((device for device in sampled.devices if device.get("index") == index), None)
        if row is None and device is None:
            continue
        seen += 1
        left = reading.ours(device) if device is not None else None
        right = reading.theirs(row.get(known_as)) if row is not None and known_as else None
        ours, theirs = (ours if left is None else left), (theirs if right is None else right)
        missing["ours"] += left is None
        missing["theirs"] += right is None
        if left is None or right is None:
            continue
        mask = reading.unit == "mask"
        apart.setdefault(look.phase, []).append(float(left != right) if mask else distance(left, right))
        share = abs(right) * reading.part if isinstance(right, float) else 0.0
        allowed.setdefault(look.phase, []).append(max(reading.distance, share))
    if not seen:
        return None
    result = Compared(reading.name, str(index), shown(ours, reading.unit), shown(theirs, reading.unit), NOT_OFFERED, pairs=seen)
    result.distances = {phase: round(statistics.median(found), 3) for phase, found in apart.items()}
    if not reading.names:
        result.note = reading.why
    elif known_as is None:
        result.note = "this nvidia-smi does not know the field"
    elif ours is None and theirs is None:
        result.note = "neither"
    elif ours is None or theirs is None:
        result.outcome = DIFFERS
        result.note = f"{'trainmon' if ours is None else 'nvidia-smi'} has none"
    elif not apart:
        result.outcome, result.note = DIFFERS, "never both at the same time"
    else:
        far = [phase for phase, found in apart.items() if statistics.median(found) > statistics.median(allowed[phase])]
        result.outcome = DIFFERS if far else AGREES
        result.note = f"apart while {' and '.join(far)}" if far else ""
        # A part of the looks without a value is told, for a value that comes and goes may be a lost reading.
        lost = {who: count for who, count in missing.items() if 2 * count > seen}
        if lost and not far:
            result.note = f"{' and '.join(lost)} missing in more than half of the looks"
    return result


def processes(index: int, of_phases: list[tuple[Look, Sampled]]) -> list[Compared]:
    """The compute processes of a device, and the memory each holds: by PID, in the looks of both."""
    sets: list[bool] = []
    apart: list[bool] = []
    ours: dict[int, float | None] = {}
    theirs: dict[int, float | None] = {}
    there = False
    for look, sampled in of_phases:
        device = next((device for device in sampled.devices if device.get("index") == index), None)
        row = next((row for row in look.rows if number(row.get("index")) == index), None)
        if device is None or row is None:
            continue
        there = True
        left = {one["pid"]: mib(one, "memory_bytes") for one in device.get("processes") or [] if one.get("compute")}
        right = {app.pid: app.memory_mib for app in look.apps if app.uuid and app.uuid == row.get("uuid")}
        sets.append(left.keys() == right.keys())
        for pid in left.keys() & right.keys():
            one, other = left[pid], right[pid]
            if one is None or other is None:
                apart.append(one is not other)
            else:
                apart.append(abs(one - other) > max(64.0, 0.01 * other))
        ours.update(left)
        theirs.update(right)
    if not there:
        return []

    def result(name: str, wrong: list[bool], words: Callable[[dict[int, float | None]], str]) -> Compared:
        share = sum(wrong) / len(wrong) if wrong else 0.0
        outcome = NOT_OFFERED if not wrong else DIFFERS if share > 0.5 else AGREES
        note = f"differs in {share:.0%} of the looks" if share else ""
        return Compared(name, str(index), words(ours), words(theirs), outcome, note, len(sets), {"all": round(share, 3)})

    def pids(held: dict[int, float | None]) -> str:
        return f"{len(held)}"

    def memory(held: dict[int, float | None]) -> str:
        measured = known(held.values())
        return shown(sum(measured), "MiB") if measured else "–"

    return [
        result("compute processes", [not same for same in sets], pids),
        result("memory of processes", apart, memory),
    ]


def with_energy(samples: list[Sampled]) -> None:
    """Adds to each device the mean power since the sample before, from its energy counter: `energy_w`."""
    for before, after in itertools.pairwise(samples):
        if before.phase != after.phase:
            continue
        for device in after.devices:
            earlier = next((one for one in before.devices if one.get("index") == device.get("index")), {})
            first, last = earlier.get("energy_mj"), device.get("energy_mj")
            seconds = after.moment - before.moment
            if first is not None and last is not None and last > first and seconds > 0.1:
                device["energy_w"] = (last - first) / 1e3 / seconds


def all_rows(looks: list[Look], samples: list[Sampled], names: dict[tuple[str, ...], str | None]) -> list[Compared]:
    """The whole table, device by device."""
    with_energy(samples)
    of_phases = pairs(looks, samples)
    indices = sorted({int(index) for look in looks for row in look.rows if (index := number(row.get("index"))) is not None})
    rows = []
    for index in indices:
        rows += known(compare(one, names.get(one.names) if one.names else None, index, of_phases) for one in READINGS)
        rows += processes(index, of_phases)
    return rows
