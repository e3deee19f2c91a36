"""Builds what is handed out (wheel, static tarball, .deb), prints the sizes, and tries each where nothing of ours is.

    python tests/dev.py package                    all three, and every check; leaves them in target/package
    python tests/dev.py package --only wheel       the wheel alone
    python tests/dev.py package --cpu aarch64      built for another CPU, and not run
    python tests/dev.py package --reproducible     built once more from a copy elsewhere: the same bytes?

Needs CPython 3.11 or later with its venv, rustup's cargo, and for the .deb dpkg. The rest (maturin, zig) it installs
into target/package/tools; the wheel's own check installs py-spy from PyPI.
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

from harness import options
from harness.paths import BUILDS, ROOT
from harness.release import archives, try_archives, try_wheel, wheel
from harness.release.build import Failed, Sources, run

NAME = "dev.py package"
KINDS = ("wheel", "tarball", "deb")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--only", choices=KINDS, help="one of them (default: all)")
    parser.add_argument("--cpu", choices=tuple(try_wheel.FOREIGN), default=platform.machine(), help="to build for")
    parser.add_argument("--out", default=os.path.join(BUILDS, "package"), help="where they go")
    parser.add_argument("--target-dir", default=BUILDS, help="Cargo's folder")
    parser.add_argument("--reproducible", action="store_true", help="build each twice, in different folders")
    return parser.parse_args(words)


def make(sources: Sources, kinds: tuple[str, ...], cpu: str, out: str) -> dict[str, str]:
    """Builds them: kind → path. The list of components and the .deb's program are the wheel's."""
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
    """Every check of what was made, each in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:

        def fresh(name: str) -> str:
            place = os.path.join(os.path.realpath(folder), name)
            os.mkdir(place)
            return place

        if path := made.get("wheel"):
            try_wheel.contents(path, version, ROOT)
            print("wheel: holds program, licences and list of components")
            if cpu != platform.machine():
                return
            print(f"wheel: installed and run: {try_wheel.runs(path, version, fresh('wheel'))}")
            try_wheel.two_versions(path, version, fresh("versions"))
            print("wheel: two versions side by side, and an upgrade leaves one")
            for line in try_wheel.refusals(path, cpu, fresh("refusals")):
                print(f"wheel: refused where it cannot run: {line}")
        if path := made.get("tarball"):
            print(f"tarball: unpacked and run: {try_archives.tarball(path, version, fresh('tarball'))}")
        if path := made.get("deb"):
            try_archives.deb(path, version, fresh("deb"))
            print(".deb: installed, run and removed, nothing left")


def again(sources: Sources, made: dict[str, str], cpu: str) -> None:
    """Builds the same sources from a copy in another folder, from the first line on, and compares the bytes."""
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
        raise Failed(f"built twice, other bytes: {', '.join(different)}")
    print("built twice, in different folders: the same bytes")


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
