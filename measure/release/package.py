"""Builds the packages (wheel, static tarball, .deb), prints their sizes, and tries each one in an empty environment.

    python measure package                    builds and checks all three; leaves them in target/package
    python measure package --only wheel       only the wheel
    python measure package --cpu aarch64      for another CPU; does not run them
    python measure package --reproducible     builds again from a copy elsewhere: the same bytes?

Needs CPython 3.11 or later with venv, cargo from rustup, and dpkg for the .deb. It installs everything else (maturin, zig) into
target/package/tools. The check of the wheel installs py-spy from PyPI.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from measure import options
from measure.paths import BUILDS, ROOT
from measure.release import archives, try_archives, try_wheel, wheel
from measure.release.build import Failed, Sources, run

NAME = "measure package"
KINDS = ("wheel", "tarball", "deb")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--only", choices=KINDS, help="build only this one (default: all)")
    parser.add_argument("--cpu", choices=tuple(try_wheel.FOREIGN), default=platform.machine(), help="the CPU to build for")
    parser.add_argument("--out", default=os.path.join(BUILDS, "package"), help="folder for the packages")
    parser.add_argument("--target-dir", default=BUILDS, help="Cargo's target folder")
    parser.add_argument("--reproducible", action="store_true", help="build each package twice, in different folders")
    return parser.parse_args(words)


def make(sources: Sources, kinds: tuple[str, ...], cpu: str, out: str) -> dict[str, str]:
    """Builds the packages: kind → path. The .deb takes its program and list of components from the wheel."""
    made = {"wheel": sources.wheel(cpu, out)}
    wheel.settle(made["wheel"], sources.root, sources.epoch)
    files = wheel.read(made["wheel"])
    sbom = files[wheel.one(files, ".cyclonedx.json")]
    if cpu != platform.machine():
        return made  # the others need the program's own words for manual pages and completions
    if "tarball" in kinds:
        made["tarball"] = archives.tarball(sources, sources.static_program(cpu), cpu, sbom, out)
    if "deb" in kinds:
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "trainmon")
            Path(program).write_bytes(files[wheel.one(files, ".data/scripts/trainmon")])
            os.chmod(program, 0o755)
            made["deb"] = archives.deb(sources, program, cpu, sbom, out)
    return {kind: path for kind, path in made.items() if kind in kinds}


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(made: dict[str, str], version: str, cpu: str) -> None:
    """Checks every package, each in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:

        def fresh(name: str) -> str:
            place = os.path.join(os.path.realpath(folder), name)
            os.mkdir(place)
            return place

        if path := made.get("wheel"):
            try_wheel.contents(path, version, ROOT)
            print("wheel: has the program, licenses and list of components")
            if cpu != platform.machine():
                return
            print(f"wheel: installed and run: {try_wheel.runs(path, version, fresh('wheel'))}")
            try_wheel.two_versions(path, version, fresh("versions"))
            print("wheel: two versions side by side, and an upgrade leaves only one")
            for line in try_wheel.refusals(path, cpu, fresh("refusals")):
                print(f"wheel: refused where it cannot run: {line}")
        if path := made.get("tarball"):
            print(f"tarball: unpacked and run: {try_archives.tarball(path, version, fresh('tarball'))}")
        if path := made.get("deb"):
            try_archives.deb(path, version, fresh("deb"))
            print(".deb: installed, run and removed; nothing left")


def again(sources: Sources, made: dict[str, str], cpu: str) -> None:
    """Builds the same sources from a copy in another folder, from scratch, and compares the bytes."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(os.path.realpath(folder), "elsewhere")
        listed = run("git", "-C", sources.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            place = os.path.join(root, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copy2(os.path.join(sources.root, name), place)
        os.environ["SOURCE_DATE_EPOCH"] = str(sources.epoch)
        copy = Sources(root, os.path.join(root, "target"), sources.tools)
        twice = make(copy, tuple(made), cpu, os.path.join(root, "out"))
        different = [kind for kind, path in made.items() if digest(path) != digest(twice[kind])]
    if different:
        raise Failed(f"two builds differ: {', '.join(different)}")
    print("two builds in different folders have the same bytes")


def main(words: list[str]) -> int:
    args = arguments(words)
    out = os.path.abspath(args.out)
    os.makedirs(out, exist_ok=True)
    sources = Sources(ROOT, os.path.abspath(args.target_dir), os.path.join(out, "tools"))
    kinds = (args.only,) if args.only else KINDS
    try:
        sources.install_tools()
        made = make(sources, kinds, args.cpu, out)
        for kind, path in made.items():
            print(f"{kind}: {os.path.relpath(path)}, {os.path.getsize(path) / 2**20:.1f} MiB, sha256 {digest(path)}")
        check(made, sources.version, args.cpu)
        if args.reproducible:
            again(sources, made, args.cpu)
    except (Failed, OSError, subprocess.SubprocessError) as failure:
        return options.failed(NAME, failure)
    return 0
