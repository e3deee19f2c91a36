"""The unit tests of trainmon's crates in a guest, for a CPU that this machine does not have.

Emulating the programs alone (qemu-user) shows them this machine's /proc and its own open files, so some tests need a kernel of their own.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from measure.paths import ROOT

from .cpus import Cpu
from .machine import printable
from .packages import Unavailable, called

#: Seconds for the tests of one crate.
CRATE_S = 900
#: Where guests have the test programs.
FOLDER = "opt/vm/programs"
#: What the tests call and Debian's Python does not bring: programs of busybox, and files of the repository, at the path that they have here.
BUSYBOX = ["cat", "env", "false", "kill", "ln", "ls", "mkfifo", "rm", "sed", "sleep", "touch", "true"]
#: An example that they start; they look for it beside their folder, where Cargo has it.
SUPERVISOR = "py_spy_supervisor"
FILES = ("tests/support/fake_py_spy.sh",)


def built(cpu: Cpu, names: list[str]) -> dict[str, Path]:
    """Builds the test programs of these crates, of all without names; returns them by the folder of their crate.

    Raises Unavailable if that fails.
    """
    packages = [word for name in names for word in ("-p", "trainmon" if name == "trainmon" else f"trainmon-{name}")]
    triple = f"{cpu.name}-unknown-linux-gnu"
    target, environment = [], {**os.environ}
    if cpu.name != platform.machine():
        target = ["--target", triple]
        environment.setdefault(f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER", f"{cpu.name}-linux-gnu-gcc")
    command = ["cargo", "test", *(packages or ["--workspace"]), "--lib", "--no-run", "--message-format=json", *target]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"the unit tests cannot be built for {cpu.name}; see why: {' '.join(command)}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    tests = [one for one in messages if one.get("executable") and one["profile"]["test"]]
    return {os.path.dirname(one["manifest_path"]): Path(one["executable"]) for one in tests}


def name_of(crate: str) -> str:
    """What a crate is called, by its folder."""
    return "trainmon" if crate == ROOT else os.path.basename(crate)


def plan(programs: dict[str, Path]) -> list[dict[str, Any]]:
    """What the guest is told, an entry for each crate."""
    return [
        {"name": name_of(crate), "crate": crate, "program": f"/{FOLDER}/{program.name}", "seconds": CRATE_S}
        for crate, program in programs.items()
    ]


def install(cpu: Cpu, programs: dict[str, Path], examples: Path, tree: Path) -> None:
    """Puts the programs, and what they need, into the tree of a guest."""
    (tree / FOLDER).mkdir(parents=True)
    (tree / FOLDER).with_name("examples").mkdir()
    shutil.copy(examples / SUPERVISOR, tree / FOLDER / "../examples")
    for crate, program in programs.items():
        called([*cpu.strip, "-o", str(tree / FOLDER / program.name), str(program)])
        (tree / crate.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for file in FILES:
        copy = tree / ROOT.lstrip("/") / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(ROOT, file), copy)
    for name in BUSYBOX:
        if not (tree / "usr/bin" / name).exists():
            (tree / "usr/bin" / name).symlink_to("busybox")


def reported(line: dict[str, Any] | None, crate: str, why: str | None) -> tuple[int, int, list[str]]:
    """How many tests of a crate passed and failed, and what to print of it."""
    if line is None or "passed" not in line:
        reason = printable(str((line or {}).get("error") or why or "nothing came back").strip().splitlines()[-1])
        return 0, 1, [f"{crate:<12} not done: {reason}"]
    failed: dict[str, str] = line["failed"]
    texts = [f"{crate:<12} {line['passed']} passed, {len(failed)} failed, {line['ignored']} ignored, {line['took_s']:.0f} s"]
    return line["passed"], len(failed), texts + [printable(f"    {name}: {said}", 300) for name, said in failed.items()]
