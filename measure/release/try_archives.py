"""Unpacks the tarball, installs the .deb into its own folder, and runs the programs in them."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import tarfile
from pathlib import Path

from measure.release import programs
from measure.release.archives import COMPLETIONS
from measure.release.build import Failed, run

#: `e_phoff`, `e_phentsize` and `e_phnum` of a 64-bit ELF header, and the type of the header that names a dynamic linker
#: (elf(5), PT_INTERP).
ELF_HEADERS, ELF_SIZES, PT_INTERP = 32, 54, 3


def is_static(path: str) -> bool:
    """Whether a 64-bit little-endian ELF program needs no dynamic linker."""
    content = Path(path).read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise Failed(f"{path} is not a 64-bit program")
    (at,) = struct.unpack_from("<Q", content, ELF_HEADERS)
    size, count = struct.unpack_from("<HH", content, ELF_SIZES)
    kinds = [struct.unpack_from("<I", content, at + number * size)[0] for number in range(count)]
    return PT_INTERP not in kinds


def tarball(path: str, version: str, folder: str) -> str:
    """The static program runs, and says that it cannot load NVML; returns that message."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
        [top] = {name.split("/")[0] for name in archive.getnames()}
    place, home = os.path.join(folder, top), os.path.join(folder, "home")
    os.mkdir(home)
    program = os.path.join(place, "trainmon")
    if not is_static(program):
        raise Failed(f"{program} needs a dynamic linker")
    for file in ("LICENSE-MIT", "LICENSE-APACHE", "trainmon.cyclonedx.json", "man/trainmon.1", "completions/bash"):
        if not os.path.getsize(os.path.join(place, file)):
            raise Failed(f"{path}: {file} is empty")
    programs.says_version(program, version, home)
    # Any file: a static program must not even try.
    nvml = programs.doctor(program, home, "--nvml-lib", program)["nvml"]
    if nvml["state"] != "denied" or "linked statically" not in nvml["detail"] or not nvml["fix"]:
        raise Failed(f"the static program says about NVML: {nvml}")
    with programs.target(home) as pid:
        verdict = programs.diagnose(program, home, pid)
    return f"{nvml['detail']}; class {verdict['class']}"


def deb(path: str, version: str, folder: str) -> None:
    """dpkg installs it into a folder, it runs there, its manual pages are complete, and dpkg removes all of it."""
    root, home = os.path.join(folder, "root"), os.path.join(folder, "home")
    for place in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log"):
        os.makedirs(os.path.join(root, place))
    os.makedirs(home)
    open(os.path.join(root, "var/lib/dpkg/status"), "w").close()
    # The folder has no libc6, and this may run without root.
    options = [f"--root={root}", f"--log={os.path.join(folder, 'log')}", "--force-depends", "--force-not-root"]
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
    run("dpkg", *options, "--force-script-chrootless", "--install", path, env=environment)
    programs.says_version(os.path.join(root, "usr/bin/trainmon"), version, home)
    for page in ("trainmon", "trainmon-diagnose", "trainmon-doctor"):
        with gzip.open(os.path.join(root, f"usr/share/man/man1/{page}.1.gz"), "rt") as file:
            if f".TH {page} 1" not in file.read():
                raise Failed(f"{path}: {page} is not a manual page")
    for shell, place in COMPLETIONS.items():
        with open(os.path.join(root, place), encoding="utf-8") as file:
            if "diagnose" not in file.read():
                raise Failed(f"{path}: the completions of {shell} do not know diagnose")
        if shutil.which(shell) and shell != "zsh":
            run(shell, "-n", os.path.join(root, place))
    run("dpkg", *options, "--force-script-chrootless", "--purge", "trainmon", env=environment)
    usr = os.path.join(root, "usr")
    left = [os.path.join(at, name) for at, _, names in os.walk(usr) for name in names]
    if left:
        raise Failed(f"left behind after removal: {left}")
