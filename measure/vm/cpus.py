"""The CPUs that guests have, and what differs with them."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from measure import paths


@dataclass(frozen=True)
class Cpu:
    """One kind of CPU."""

    #: As `uname -m` says.
    name: str
    #: What Debian calls it.
    debian: str
    #: The program that emulates it, and Debian's package of that program.
    emulator: str
    emulator_package: str
    #: The machine and its CPU, as options of the emulator.
    machine: tuple[str, ...]
    #: The kernel's name of the first serial port.
    console: str

    @property
    def strip(self) -> list[str]:
        """The program that takes symbols out of its programs."""
        return ["strip" if platform.machine() == self.name else f"{self.name}-linux-gnu-strip"]

    @property
    def builds(self) -> Path:
        """The folder of the release build for it."""
        cross = platform.machine() != self.name
        return Path(paths.BUILDS, f"{self.name}-unknown-linux-gnu/release") if cross else Path(paths.RELEASE)

    @property
    def build(self) -> str:
        """The command that builds trainmon for it."""
        if platform.machine() == self.name:
            return "cargo build --release --bins --examples"
        triple = f"{self.name}-unknown-linux-gnu"
        linker = f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER={self.name}-linux-gnu-gcc"
        return f"{linker} cargo build --release --bins --examples --target {triple}"


CPUS = {
    cpu.name: cpu
    for cpu in (
        # Intel's, since its siblings are told to the kernel. Without cmpxchg16b: Linux 6.12 dies of a double fault in the emulated
        # one of qemu 7.2 (in slub, at once).
        Cpu("x86_64", "amd64", "qemu-system-x86_64", "qemu-system-x86", ("-cpu", "max,vendor=GenuineIntel,cx16=off"), "ttyS0"),
        # Neoverse N1 knows pages of 16 KiB, and has no pointer authentication, which is slow to emulate.
        Cpu("aarch64", "arm64", "qemu-system-aarch64", "qemu-system-arm", ("-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"), "ttyAMA0"),
    )
}  # fmt: skip
