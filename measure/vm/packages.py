"""Debian's packages for a guest, unpacked into a folder. Nothing is installed on this machine.

Each release has its own folder with apt's lists, the kernel and the tree of programs. Later runs use it again.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from measure.paths import TESTS

from .cpus import Cpu

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: The kernel for virtual machines: small, with virtio, cgroup v2, Yama, PSI and delay accounting. `{}` is what Debian calls the CPU.
CLOUD = "cloud-{}"
#: What the guest's programs come from; the packages that these depend on come along.
PROGRAMS = ("python3-minimal", "libpython3-stdlib", "libgcc-s1")
#: What they depend on only to be installed, or for documents.
LEFT_OUT = re.compile(r"^(dpkg|tar|perl.*|libperl.*|mailcap|media-types|mime-support|install-info|gcc-\d+-base|debconf.*)$")
#: Seconds for one call of apt.
PATIENCE_S = 300


class Unavailable(Exception):
    """A requirement is missing. The message is one line and says how to fix that."""


@dataclass(frozen=True)
class Release:
    """A release of Debian for one CPU: its kernel, its C library and its Python."""

    suite: str
    cpu: Cpu
    #: Which of its kernels, as the name of the package says it after `linux-image-`.
    flavour: str = CLOUD

    @property
    def kernel(self) -> str:
        """The flavor for this CPU."""
        return self.flavour.format(self.cpu.debian)

    @property
    def folder(self) -> str:
        """Where the cache has it."""
        return f"{self.suite}-{self.kernel}"


def called(command: list[str], folder: Path | None = None) -> str:
    """The output of a command. Raises Unavailable with its last line if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} not found; this needs Debian or Ubuntu, with apt and dpkg") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took longer than {PATIENCE_S} s; try again") from error
    if done.returncode:
        why = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Unavailable(f"{' '.join(command[:1] + command[-2:])} failed: {why}")
    return done.stdout


class Archive:
    """apt with its own lists and cache, for one release."""

    def __init__(self, release: Release, cache: Path, mirror: str):
        if not os.path.exists(KEYRING):
            raise Unavailable(f"{KEYRING} not found; install it: sudo apt-get install debian-archive-keyring")
        self.folder = cache / release.folder
        for name in ("apt/lists/partial", "apt/cache/archives/partial", "packages"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        apt = (self.folder / "apt").resolve()
        (apt / "status").touch()
        (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {release.suite} main\n")
        settings = {
            "APT::Architecture": release.cpu.debian,
            "APT::Architectures": release.cpu.debian,
            # apt's own user may not read a folder in a home.
            "APT::Sandbox::User": "root",
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": apt / "lists",
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
        }
        self.options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]

    def update(self) -> None:
        called(["apt-get", *self.options, "-q", "update"])

    def depends(self, *packages: str) -> list[str]:
        """The packages and what they depend on."""
        kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        options = [*self.options, "--recurse", *(f"--no-{kind}" for kind in kinds)]
        text = called(["apt-cache", "depends", *options, *packages])
        return sorted({name for name in text.splitlines() if re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)})

    def unpack(self, packages: list[str], into: Path) -> None:
        """Fetches the packages and unpacks them."""
        into.mkdir(parents=True, exist_ok=True)
        fetched = self.folder / "packages"
        called(["apt-get", *self.options, "-q", "download", *packages], fetched)
        for package in packages:
            for file in fetched.glob(f"{package}_*.deb"):
                # Through tar, which follows the links of a tree with /usr alone where dpkg-deb would replace them.
                with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as source:
                    tar = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(into)]
                    done = subprocess.run(tar, stdin=source.stdout, timeout=PATIENCE_S, check=False)
                if done.returncode or source.returncode:
                    raise Unavailable(f"cannot unpack {file}; remove {self.folder} and try again")
                file.unlink()


def kernel_package(meta_depends: list[str], kernel: str) -> str:
    """The package that holds the kernel, of those that the meta-package depends on."""
    names = [name for name in meta_depends if re.fullmatch(rf"linux-image-\d[\w.+]*(-\d+)?-{kernel}", name)]
    if not names:
        raise Unavailable(f"the archive's linux-image-{kernel} depends on no kernel package; try another --mirror")
    return names[-1]


@dataclass(frozen=True)
class Unpacked:
    """What a guest of one release is made of."""

    release: Release
    kernel: Path
    modules: Path
    programs: Path


def unpacked(release: Release, cache: Path, mirror: str) -> Unpacked:
    """The kernel and the programs of a release, fetched where the cache does not have them."""
    folder = cache / release.folder
    ready = folder / "complete"
    if not ready.exists():
        archive = Archive(release, cache, mirror)
        archive.update()
        for name in ("kernel", "programs"):
            shutil.rmtree(folder / name, ignore_errors=True)
        meta_depends = archive.depends(f"linux-image-{release.kernel}")
        archive.unpack([kernel_package(meta_depends, release.kernel)], folder / "kernel")
        merged_usr(folder / "programs")
        names = [name for name in archive.depends(*PROGRAMS) if not LEFT_OUT.match(name)]
        archive.unpack(names, folder / "programs")
        archive.unpack(["busybox-static"], folder / "programs")
        shutil.rmtree(folder / "apt")
        ready.touch()
    kernels = sorted((folder / "kernel/boot").glob("vmlinuz-*"))
    modules = sorted(path.parent for path in (folder / "kernel").glob("**/kernel") if path.parent.parent.name == "modules")
    if not kernels or not modules:
        raise Unavailable(f"no kernel in {folder}; remove that folder and try again")
    return Unpacked(release, kernels[-1], modules[-1], folder / "programs")


def merged_usr(root: Path) -> None:
    """The links that Debian's base-files makes: /bin, /lib, … lie in /usr."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")


def module(modules: Path, name: str) -> bytes | None:
    """A module of the kernel, not compressed; none where it is built in."""
    found = [*modules.glob(f"kernel/**/{name}.ko"), *modules.glob(f"kernel/**/{name}.ko.xz")]
    if not found:
        return None
    content = found[0].read_bytes()
    return lzma.decompress(content) if found[0].suffix == ".xz" else content


def with_dependencies(modules: Path, names: list[str]) -> dict[str, bytes]:
    """The modules and those that they need, in an order in which they load. Names are as in files."""
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        for spelled in (name, name.replace("_", "-"), name.replace("-", "_")):
            content = module(modules, spelled)
            if content is not None and spelled not in ordered:
                for needed in dependencies(content):
                    add(needed)
                ordered[spelled] = content
            if content is not None:
                return

    for name in names:
        add(name)
    return ordered


def dependencies(content: bytes) -> list[str]:
    """The modules that this one names in its `depends=` (and soft ones in `softdep=pre:`)."""
    found = re.search(rb"\0depends=([^\0]*)\0", b"\0" + content)
    soft = re.findall(rb"\0softdep=pre: ([^\0]*)\0", content)
    names = found[1].decode().split(",") if found else []
    return [name for name in names + [word for text in soft for word in text.decode().split()] if name]


def py_spy(cpu: Cpu, cache: Path) -> Path:
    """py-spy for another CPU than this machine's: from the wheel of the version that the tests use."""
    program = cache / f"py-spy-{cpu.name}"
    if not program.exists():
        wheels = cache / "wheels"
        wanted = next(line for line in Path(TESTS, "requirements-quick.txt").read_text().splitlines() if line.startswith("py-spy=="))
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        called([*pip, "--platform", f"manylinux2014_{cpu.name}", "--dest", str(wheels), wanted])
        [wheel] = wheels.glob(f"py_spy-*{cpu.name}*.whl")
        with zipfile.ZipFile(wheel) as files:
            name = next(name for name in files.namelist() if name.endswith("/scripts/py-spy"))
            program.write_bytes(files.read(name))
        shutil.rmtree(wheels)
    return program
