"""Installs the wheel with pip into clean virtual environments, runs it there, and removes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from measure.release import programs, wheel
from measure.release.build import Failed, run

#: What a wheel must hold: the end of a file's name → something that it must contain.
INSIDE = {
    ".data/scripts/trainmon": b"\x7fELF",
    ".dist-info/licenses/LICENSE-MIT": b"MIT License",
    ".dist-info/licenses/LICENSE-APACHE": b"Apache License",
    ".dist-info/METADATA": b"Requires-Dist: py-spy>=",
    ".cyclonedx.json": b'"purl": "pkg:cargo/ratatui@',
}
#: A platform of another CPU, and one of a glibc that does not exist yet.
FOREIGN = {"x86_64": "manylinux_2_17_aarch64", "aarch64": "manylinux_2_17_x86_64"}
TOO_NEW = "manylinux_2_999_"
#: Older than `requires-python`.
OLD_PYTHON = "3.7"


def contents(path: str, version: str, root: str) -> None:
    """The wheel is complete, knows its version, and does not contain the path where it was built."""
    files = wheel.read(path)
    for end, content in INSIDE.items():
        if content not in files[wheel.one(files, end)]:
            raise Failed(f"{path}: {end} does not contain {content.decode(errors='replace')}")
    if f"\nVersion: {version}\n".encode() not in files[wheel.one(files, ".dist-info/METADATA")]:
        raise Failed(f"{path} does not have version {version} of Cargo.toml")
    for place in (root, os.path.expanduser("~/.cargo")):
        for name, content in files.items():
            if place.encode() + b"/" in content:
                raise Failed(f"{path}: {name} contains the path {place}, where it was built")


class Environment:
    """A virtual environment with only pip in it."""

    def __init__(self, folder: str):
        self.bin = os.path.join(folder, "bin")
        self.folder = folder
        run(sys.executable, "-m", "venv", folder)
        self.fresh = self.files()

    def pip(self, *arguments: str) -> str:
        return run(os.path.join(self.bin, "python"), "-m", "pip", "--disable-pip-version-check", *arguments)

    def program(self, name: str = "trainmon") -> str:
        return os.path.join(self.bin, name)

    def files(self) -> set[str]:
        """Every file except those that Python compiles for itself."""
        walk = os.walk(self.folder)
        return {os.path.join(at, name) for at, _, names in walk if "__pycache__" not in at for name in names}

    def refuses(self, says: str, *arguments: str) -> str:
        """Checks that pip refuses and leaves nothing behind; returns its message."""
        before = self.files()
        command = [os.path.join(self.bin, "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        line = next((line for line in done.stderr.splitlines() if says in line), None)
        if done.returncode == 0 or line is None:
            raise Failed(f"pip {' '.join(arguments)} ended with {done.returncode}, saying: {done.stderr}")
        if self.files() != before:
            raise Failed(f"pip {' '.join(arguments)} was refused and left {self.files() - before}")
        return line


def runs(path: str, version: str, folder: str) -> str:
    """Installs it, runs it, and checks that it finds the py-spy of its package; returns a line about that."""
    place, home = Environment(os.path.join(folder, "clean")), os.path.join(folder, "home")
    os.mkdir(home)
    place.pip("install", "--quiet", path)
    trainmon, py_spy = place.program(), place.program("py-spy")
    programs.says_version(trainmon, version, home)
    found = programs.doctor(trainmon, home)["py-spy"]
    if (found["state"], found["detail"]) != ("ok", py_spy):
        raise Failed(f"doctor found {found} instead of {py_spy}")
    with programs.target(home) as pid:
        found = programs.doctor(trainmon, home, "--pid", str(pid))["py-spy"]
        if found["state"] != "ok" or not found["detail"].startswith(py_spy + ","):
            raise Failed(f"doctor --pid found {found} instead of {py_spy}")
        verdict = programs.diagnose(trainmon, home, pid)
        if verdict["seen"]["stacks"] != "ok" or not programs.names_the_function(verdict):
            raise Failed(f"with {py_spy}, no function is named: {verdict['seen']}, {verdict['chain']}")
        # By a link, as pipx makes one.
        link = os.path.join(home, "trainmon")
        os.symlink(trainmon, link)
        if programs.doctor(link, home)["py-spy"]["detail"] != py_spy:
            raise Failed(f"through a link to {trainmon}, trainmon found another py-spy")
        # The proof that it was this py-spy: without it there is none.
        place.pip("uninstall", "--quiet", "--yes", "py-spy")
        without = programs.diagnose(trainmon, home, pid)
        if without["seen"]["stacks"] != "absent" or programs.names_the_function(without):
            raise Failed(f"without {py_spy} stacks are {without['seen']['stacks']}: which one was used?")
    place.pip("uninstall", "--quiet", "--yes", "trainmon")
    if place.files() != place.fresh:
        raise Failed(f"left behind after uninstalling: {sorted(place.files() ^ place.fresh)}")
    return f"{found['detail']}; class {verdict['class']}; uninstalled, nothing left"


def two_versions(path: str, version: str, folder: str) -> None:
    """Two versions in two environments are independent; an upgrade leaves only one."""
    older = wheel.with_version(path, "0.0.1", folder)
    first, second = (Environment(os.path.join(folder, name)) for name in ("first", "second"))
    first.pip("install", "--quiet", "--no-deps", path)
    second.pip("install", "--quiet", "--no-deps", older)

    def listed(place: Environment) -> list[str]:
        return re.findall(r"^trainmon==(.*)$", place.pip("freeze", "--exclude", "pip"), re.MULTILINE) or re.findall(
            r"^trainmon +(\S+)", place.pip("list"), re.MULTILINE
        )

    for place, wanted in ((first, version), (second, "0.0.1")):
        if listed(place) != [wanted] or not os.path.exists(place.program()):
            raise Failed(f"{place.folder} has trainmon {listed(place)} instead of {wanted}")
    second.pip("install", "--quiet", "--no-deps", path)
    if listed(second) != [version] or any("0.0.1" in name for name in second.files()):
        raise Failed(f"after the upgrade {second.folder} has trainmon {listed(second)}, and files of the older version")
    programs.says_version(second.program(), version, folder)


def refusals(path: str, cpu: str, folder: str) -> list[str]:
    """pip refuses a wheel that cannot run here; returns its message."""
    place = Environment(os.path.join(folder, "refusing"))
    foreign = [wheel.with_platform(path, platform, folder) for platform in (FOREIGN[cpu], TOO_NEW + cpu)]
    said = [place.refuses("is not a supported wheel on this platform", "install", copy) for copy in foreign]
    # Of these two only `download` looks at the Python that it is told to work for.
    old = ["--python-version", OLD_PYTHON, "--no-deps", "--only-binary=:all:", "--dest", place.folder]
    said.append(place.refuses("requires a different Python", "download", *old, path))
    return said
