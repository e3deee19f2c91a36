"""Is trainmon right on other kernels, and under other rights and limits? Tests that in virtual machines.

    python measure vm                          every environment; prints a table
    python measure vm --list                   lists the environments
    python measure vm --only base,scope-1      only some of them
    python measure vm --keep DIR               keeps the output of the guests
    python measure vm --cpu aarch64            on another CPU
    python measure vm --cpu aarch64 --unit-tests   the unit tests instead of the environments

Boots Debian's kernels in qemu. It needs no KVM, so the guests' CPU is slow. Needs Debian or Ubuntu, qemu-system-x86 or qemu-system-arm,
`cargo build --release --bins --examples` for that CPU, and py-spy. Debian's packages are downloaded once and unpacked into $TRAINMON_VM_CACHE
(target/vm). It installs only qemu, and only as root.

Exit status: 0 every verdict was right, 1 a verdict was wrong or missing, 2 bad usage, 3 a requirement is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import options, paths
from measure.vm import image, machine, packages, results, unit_tests
from measure.vm.cpus import CPUS
from measure.vm.environments import ENVIRONMENTS, UNIT_TESTS, WATCHED_S, Environment

NAME = "measure vm"
MIRROR = "http://deb.debian.org/debian"
#: What a boot, and what each environment may take beside the time watched, seconds.
BOOT_S, ENVIRONMENT_S = 180, 300


def booted(
    boot: machine.Boot, plan: list[dict[str, Any]], limit_s: float, args: argparse.Namespace, more: Callable[[Path], None] | None = None
) -> tuple[dict[str, dict[str, Any]], str | None]:  # fmt: skip
    """Boots once for a plan. Gives what the guest printed, by name, and why it is not all where it is not."""
    cpu = CPUS[args.cpu]
    unpacked = packages.unpacked(packages.Release(boot.suite, cpu, boot.kernel), args.cache, args.mirror)
    programs = image.tools(args.binary, args.py_spy or packages.py_spy(cpu, args.cache), args.nvml, cpu.build)
    program = machine.qemu(cpu)
    with tempfile.TemporaryDirectory(dir=args.cache, prefix=f"{boot.name}-") as folder:
        work = Path(folder)
        root = image.root_image(unpacked, programs, plan, work, more)
        slow, initramfs = image.slow_image(work), image.initramfs(unpacked, work)
        call = machine.command(program, cpu, boot, unpacked.kernel, initramfs, root, slow, work)
        began = time.monotonic()
        lines, why = machine.run(call, work, BOOT_S + limit_s)
        started = next((line for line in lines if "booted" in line), {})
        kernel = machine.printable(str(started.get("booted", "did not boot")))
        took = f"{len(plan)} done in {machine.elapsed(began)}"
        print("; ".join([f"{boot.name}: Linux {kernel} on {cpu.name}", took, *([why] if why else [])]), flush=True)
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"{boot.name}.json").write_text(json.dumps(lines, indent=1), encoding="utf-8")
            if (work / "console").exists():
                shutil.copy(work / "console", args.keep / f"{boot.name}.console")
    return {str(line.get("environment")): line for line in lines}, why


def in_boot(boot: machine.Boot, chosen: list[Environment], args: argparse.Namespace) -> list[results.Row]:
    """Boots once, for all environments that share a boot."""
    by_name, why = booted(boot, [one.plan() for one in chosen], len(chosen) * (WATCHED_S + ENVIRONMENT_S), args)
    return [results.row(one, by_name.get(one.name), why) for one in chosen]


def test_crates(args: argparse.Namespace) -> int:
    """Runs the unit tests in a guest; returns the exit status."""
    cpu, began = CPUS[args.cpu], time.monotonic()
    programs = unit_tests.built(cpu, args.only.split(",") if args.only else [])
    plan = unit_tests.plan(programs)
    by_name, why = booted(
        UNIT_TESTS, plan, len(plan) * unit_tests.CRATE_S, args, lambda tree: unit_tests.install(cpu, programs, args.nvml.parent, tree)
    )  # fmt: skip
    passed = failed = 0
    for one in plan:
        more_passed, more_failed, texts = unit_tests.reported(by_name.get(one["name"]), one["name"], why)
        passed, failed = passed + more_passed, failed + more_failed
        print("\n".join(texts))
    print(f"{passed} tests passed, {failed} failed, in {machine.elapsed(began)}")
    return 1 if failed else 0


def chosen_by(names: str | None, cpu: str) -> list[Environment]:
    """The environments with these names that the CPU has. Exits with a message for an unknown name."""
    here = [one for one in ENVIRONMENTS if one.boot.only in (None, cpu)]
    if names is None:
        return here
    wanted = names.split(",")
    unknown = set(wanted) - {one.name for one in here}
    if unknown:
        sys.exit(options.failed(NAME, f"no environment {', '.join(sorted(unknown))} on {cpu}; see them with --list", 2))
    return [one for one in here if one.name in wanted]


def parsed(words: list[str]) -> argparse.Namespace:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--list", action="store_true", help="list the environments and exit")
    parser.add_argument("--only", metavar="NAME,…", help="only these environments, or these crates")
    parser.add_argument("--unit-tests", action="store_true", help="run the unit tests of trainmon's crates in a guest instead")
    parser.add_argument("--cpu", choices=tuple(CPUS), default=platform.machine(), help="the guests' CPU (default: this machine's)")
    parser.add_argument("--binary", type=Path, metavar="FILE", help="trainmon for that CPU (default: the release build)")
    parser.add_argument("--nvml", type=Path, metavar="FILE", help="the fake NVML library for that CPU")
    parser.add_argument("--py-spy", type=Path, metavar="FILE", help="py-spy for that CPU (default: this machine's, or from PyPI)")
    parser.add_argument("--mirror", default=MIRROR, help="Debian's archive")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the output of the guests in this folder")
    args = parser.parse_args(words)
    builds = CPUS[args.cpu].builds
    args.binary = args.binary or builds / "trainmon"
    args.nvml = args.nvml or builds / "examples/libfake_nvml.so"
    if args.cpu == platform.machine():
        args.py_spy = args.py_spy or Path(paths.py_spy() or f"{paths.ROOT}/.venv/bin/py-spy")
    args.cache = Path(os.environ.get("TRAINMON_VM_CACHE") or f"{paths.BUILDS}/vm").resolve()
    return args


def main(words: list[str]) -> int:
    args = parsed(words)
    chosen = chosen_by(None if args.unit_tests else args.only, args.cpu)
    if args.list:
        for one in chosen:
            print(f"{one.name:<20} {one.what}")
        return 0
    args.cache.mkdir(parents=True, exist_ok=True)
    # Ended by a signal, the machine that runs is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return test_crates(args) if args.unit_tests else judged(chosen, args)
    except packages.Unavailable as error:
        return options.failed(NAME, error, 3)


def judged(chosen: list[Environment], args: argparse.Namespace) -> int:
    """Runs the environments and prints their table; returns the exit status."""
    boots: dict[machine.Boot, list[Environment]] = {}
    for one in chosen:
        boots.setdefault(one.boot, []).append(one)
    began = time.monotonic()
    rows: list[results.Row] = []
    try:
        for boot, sharing in boots.items():
            rows += in_boot(boot, sharing, args)
    finally:
        if rows:
            print(results.table(rows))
    wrong = [row for row in rows if not row.right]
    print(f"{len(rows) - len(wrong)} of {len(rows)} right, in {machine.elapsed(began)}")
    return 1 if wrong else 0
