"""Runs the compilers: maturin for the wheel, cargo-zigbuild for the static program. The same sources always give the same bytes,
wherever they are.

So nothing that differs between machines gets in: absolute paths in the program (`--remap-path-prefix`), the time
(`SOURCE_DATE_EPOCH`, that of the last commit), and paths in the list of components (see wheel.py).
"""

from __future__ import annotations

import functools
import glob
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass

from measure.paths import MEASURE

#: Earliest time in a zip archive, 1980-01-01: used if there is no commit to take the time from.
EPOCH_OF_ZIP = 315532800
#: Between flags in `CARGO_ENCODED_RUSTFLAGS`, so that a path may hold blanks (the Cargo book, "Environment Variables").
FLAG_SEPARATOR = "\x1f"
#: Cargo's profile for packages (Cargo.toml).
PROFILE = "dist"


class Failed(Exception):
    """One line: what failed, and what to do about it."""


def run(*command: str, cwd: str | None = None, env: dict[str, str] | None = None) -> str:
    """Runs a program and returns its output.

    Raises Failed with the end of its output if it fails.
    """
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, env=env
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return done.stdout


@dataclass(frozen=True)
class Sources:
    """A checkout of trainmon, and the folder for its builds."""

    root: str
    #: Cargo's target folder.
    target: str
    #: Folder of the virtual environment that has maturin, cargo-zigbuild and zig.
    tools: str

    @property
    def version(self) -> str:
        with open(os.path.join(self.root, "Cargo.toml"), "rb") as file:
            return str(tomllib.load(file)["workspace"]["package"]["version"])

    @functools.cached_property
    def epoch(self) -> int:
        """The time of the build in seconds since 1970."""
        given = os.environ.get("SOURCE_DATE_EPOCH")
        if given:
            return int(given)
        try:
            return int(run("git", "-C", self.root, "log", "-1", "--format=%ct"))
        except (Failed, FileNotFoundError, ValueError):
            return EPOCH_OF_ZIP

    def environment(self) -> dict[str, str]:
        cargo = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
        # The last match wins: the target folder is usually inside the root.
        places = {cargo: "/cargo", self.root: "/trainmon", self.target: "/target"}
        flags = [f"--remap-path-prefix={place}={name}" for place, name in places.items()]
        return {
            **os.environ,
            "PATH": os.pathsep.join([os.path.join(self.tools, "bin"), os.environ["PATH"]]),
            "SOURCE_DATE_EPOCH": str(self.epoch),
            "CARGO_ENCODED_RUSTFLAGS": FLAG_SEPARATOR.join(flags),
        }

    def install_tools(self) -> None:
        python = os.path.join(self.tools, "bin", "python")
        if not os.path.exists(python):
            run(sys.executable, "-m", "venv", self.tools)
        wanted = os.path.join(MEASURE, "requirements-package.txt")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted)

    def need_target(self, triple: str) -> None:
        """Installs the standard library of a target with rustup, if rustup installed Rust."""
        library = os.path.join(run("rustc", "--print", "sysroot", cwd=self.root).strip(), "lib/rustlib", triple)
        if os.path.isdir(library):
            return
        try:
            run("rustup", "target", "add", triple, cwd=self.root)
        except FileNotFoundError:
            raise Failed(f"Rust's standard library for {triple} is missing; install Rust from rustup.rs") from None

    def wheel(self, cpu: str, folder: str) -> str:
        """Builds the wheel for `cpu` (x86_64, aarch64) into `folder`; returns its path."""
        triple = f"{cpu}-unknown-linux-gnu"
        self.need_target(triple)
        os.makedirs(folder, exist_ok=True)
        for old in glob.glob(os.path.join(folder, f"*_{cpu}.whl")):
            os.unlink(old)
        maturin = os.path.join(self.tools, "bin", "maturin")
        options = ["--profile", PROFILE, "--locked", "--zig", "--target", triple, "--target-dir", self.target, "--out", folder]
        run(maturin, "build", *options, cwd=self.root, env=self.environment())
        [made] = glob.glob(os.path.join(folder, f"*_{cpu}.whl"))
        return made

    def static_program(self, cpu: str) -> str:
        """Builds the statically linked program; returns its path."""
        triple = f"{cpu}-unknown-linux-musl"
        self.need_target(triple)
        zigbuild = os.path.join(self.tools, "bin", "cargo-zigbuild")
        options = ["--profile", PROFILE, "--locked", "--bin", "trainmon", "--target", triple, "--target-dir", self.target]
        run(zigbuild, "zigbuild", *options, cwd=self.root, env=self.environment())
        return os.path.join(self.target, triple, PROFILE, "trainmon")
