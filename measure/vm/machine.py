"""One guest in qemu, without KVM: from its files to the marked lines that its runner prints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import text

from .cpus import Cpu
from .packages import CLOUD, Unavailable

#: As guest/runner.py marks its lines.
MARK = "trainmon-vm:"
#: Bytes a second that the slow disk gives.
SLOW_BYTES_S = 4 << 20
#: A line longer than this comes from no runner.
LONGEST_LINE = 200_000


@dataclass(frozen=True)
class Boot:
    """How to start a guest: everything that cannot change while it runs."""

    name: str
    suite: str = "bookworm"
    #: Which kernel of Debian's: see packages.Release.
    kernel: str = CLOUD
    #: The only CPU that has this kernel.
    only: str | None = None
    #: As `-smp` wants it.
    cpus: str = "2"
    memory_mib: int = 1024
    #: More on the kernel's command line.
    append: str = ""


def qemu(cpu: Cpu) -> str:
    """The path of qemu for a CPU; installs it if possible. Raises Unavailable otherwise."""
    install = ["apt-get", "install", "--no-install-recommends", cpu.emulator_package]
    if shutil.which(cpu.emulator) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = [*install, "-y", "-q"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = shutil.which(cpu.emulator)
    if found is None:
        raise Unavailable(f"{cpu.emulator} not found; install it: sudo {' '.join(install)}")
    return found


def command(
    program: str, cpu: Cpu, boot: Boot, kernel: Path, initramfs: Path, root: Path, slow: Path, work: Path
) -> list[str]:  # fmt: skip
    """The call of qemu. Emulated, with a thread for each CPU; what is written to the disks is thrown away."""
    line = f"console={cpu.console} quiet panic=-1 {boot.append}".strip()
    return [
        *(["nice", "-n", "10"] if shutil.which("nice") else []), program,
        "-accel", "tcg,thread=multi", *cpu.machine, "-smp", boot.cpus, "-m", str(boot.memory_mib),
        "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", f"file:{work / 'console'}",
        # A port that every machine has, /dev/hvc0.
        "-device", "virtio-serial-pci", "-chardev", f"file,id=results,path={work / 'results'}", "-device", "virtconsole,chardev=results",
        "-kernel", str(kernel), "-initrd", str(initramfs), "-append", line,
        "-drive", f"file={root},format=raw,if=virtio,snapshot=on",
        "-drive", f"file={slow},format=raw,if=virtio,snapshot=on,throttling.bps-read={SLOW_BYTES_S}",
    ]  # fmt: skip


def parsed(printed: str) -> list[dict[str, Any]]:
    """The objects on marked lines. Whatever else a guest prints is passed over, and so is a line that is cut short."""
    found = []
    for line in printed.splitlines():
        mark, _, rest = line.partition(" ")
        if mark != MARK or len(line) > LONGEST_LINE:
            continue
        try:
            value = json.loads(rest)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def run(call: list[str], work: Path, limit_s: float) -> tuple[list[dict[str, Any]], str | None]:
    """Boots, waits for the end, and gives what the runner printed, and why it is not all where it is not.

    qemu never outlives this call.
    """
    (work / "results").write_bytes(b"")
    why = None
    null = subprocess.DEVNULL
    with subprocess.Popen(
        call, stdin=null, stdout=null, stderr=subprocess.PIPE, start_new_session=True
    ) as machine:  # fmt: skip
        try:
            _, errors = machine.communicate(timeout=limit_s)
            if machine.returncode:
                why = f"qemu failed: {errors.decode(errors='replace').strip()[-300:] or machine.returncode}"
        except subprocess.TimeoutExpired:
            why = f"not done after {limit_s:g} s"
        finally:
            if machine.poll() is None:
                os.killpg(machine.pid, signal.SIGKILL)
    lines = parsed((work / "results").read_text(encoding="ascii", errors="replace"))
    if why is None and not any(line.get("done") for line in lines):
        console = (work / "console").read_text(encoding="ascii", errors="replace") if (work / "console").exists() else ""
        said = [printable(line) for line in console.splitlines() if line.strip()]
        telling = [line for line in said if "panic" in line.lower()][:1] or said[-1:]
        why = f"the guest stopped early; on its console: {telling[0] if telling else 'nothing'}"
    return lines, why


def printable(said: str, longest: int = 160) -> str:
    """A guest's text for a terminal: without control characters, and not endless."""
    clean = text.printable(said)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def elapsed(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"
