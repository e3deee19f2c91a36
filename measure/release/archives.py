"""Makes the tarball and the .deb from built programs: program, manual pages, completions, licenses and list of components. The same
program always gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

from measure.release.build import Failed, Sources, run

#: License files, next to the program in the tarball, and in the documents of the .deb.
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")
#: Shell → where Debian's package of that shell looks for completions.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/trainmon",
    "zsh": "usr/share/zsh/vendor-completions/_trainmon",
    "fish": "usr/share/fish/vendor_completions.d/trainmon.fish",
}
#: The glibc version that the wheel's program needs (manylinux2014).
GLIBC = "2.17"
#: CPU → its name in Debian.
DEBIAN_CPU = {"x86_64": "amd64", "aarch64": "arm64"}

CONTROL = """\
Package: trainmon
Version: {version}
Architecture: {cpu}
Maintainer: The trainmon authors <trainmon@localhost>
Installed-Size: {size_kib}
Depends: libc6 (>= {glibc})
Suggests: python3-pip
Section: utils
Priority: optional
Description: says what holds a training job back: CPU, GPU, IO or data-loader
 It attaches from outside, without a restart and without a change to the job's code,
 and says why, what to do first, and how much that can bring at most.
 .
 With py-spy (pip install py-spy) it also names functions and source lines.
"""

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: trainmon

Files: *
Copyright: {copyright}
License: MIT or Apache-2.0
 Both texts are in /usr/share/doc/trainmon: LICENSE-MIT and LICENSE-APACHE. What
 the program is linked from, with its licences, is in trainmon.cyclonedx.json.
"""


def manual_pages(program: str) -> dict[str, bytes]:
    """File name → manual page, as the program prints them: its own, and one of each command."""
    said = run(program, "--help")
    commands = said.split("Commands:\n")[1].split("\n\n")[0]
    words = re.findall(r"^  ([a-z]+) ", commands, re.MULTILINE)
    pages = {f"trainmon-{word}.1": run(program, "man", word).encode() for word in words if word != "help"}
    return {"trainmon.1": run(program, "man").encode(), **pages}


def completions(program: str) -> dict[str, bytes]:
    """Shell → completion script, as the program prints it."""
    return {shell: run(program, "completions", shell).encode() for shell in COMPLETIONS}


def tarball(sources: Sources, program: str, cpu: str, sbom: bytes, folder: str) -> str:
    """Packs the static program; gives back the path."""
    name = f"trainmon-{sources.version}-{cpu}-linux-musl"
    files = {"trainmon": _content(program), "trainmon.cyclonedx.json": sbom}
    files |= {f"man/{page}": text for page, text in manual_pages(program).items()}
    files |= {f"completions/{shell}": text for shell, text in completions(program).items()}
    files |= {file: _content(os.path.join(sources.root, file)) for file in (*LICENCES, "CHANGELOG.md")}
    path = os.path.join(folder, f"{name}.tar.gz")
    with (
        open(path, "wb") as out,
        gzip.GzipFile("", "wb", 9, out, mtime=sources.epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime, entry.mode = len(content), sources.epoch, _mode(file)
            archive.addfile(entry, io.BytesIO(content))
    return path


def deb(sources: Sources, program: str, cpu: str, sbom: bytes, folder: str) -> str:
    """Packs the wheel's program for Debian and Ubuntu; gives back the path."""
    if not shutil.which("dpkg-deb"):
        raise Failed("dpkg-deb not found, so no .deb is made; install with: sudo apt-get install dpkg")
    share = "usr/share/doc/trainmon"
    files = {"usr/bin/trainmon": _content(program), f"{share}/trainmon.cyclonedx.json": sbom}
    for page, text in manual_pages(program).items():
        files[f"usr/share/man/man1/{page}.gz"] = gzip.compress(text, 9, mtime=0)
    files |= {COMPLETIONS[shell]: text for shell, text in completions(program).items()}
    files |= {f"{share}/{file}": _content(os.path.join(sources.root, file)) for file in LICENCES}
    owner = re.search(rb"^Copyright (.*)$", files[f"{share}/LICENSE-MIT"], re.MULTILINE)
    holder = owner[1].decode() if owner else "see LICENSE-MIT"
    files[f"{share}/copyright"] = COPYRIGHT.format(copyright=holder).encode()
    changes = _content(os.path.join(sources.root, "CHANGELOG.md"))
    files[f"{share}/changelog.gz"] = gzip.compress(changes, 9, mtime=0)
    files["DEBIAN/control"] = CONTROL.format(
        version=sources.version,
        cpu=DEBIAN_CPU[cpu],
        size_kib=sum(map(len, files.values())) // 1024,
        glibc=GLIBC,
    ).encode()
    path = os.path.join(folder, f"trainmon_{sources.version}_{DEBIAN_CPU[cpu]}.deb")
    with tempfile.TemporaryDirectory() as stage:
        os.chmod(stage, 0o755)
        for file, content in files.items():
            place = os.path.join(stage, file)
            _make_folders(stage, os.path.dirname(file))
            with open(place, "wb") as out:
                out.write(content)
            os.chmod(place, _mode(file))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(sources.epoch)}
        options = ["--root-owner-group", "-Zxz", "--build"]
        run("dpkg-deb", *options, stage, path, env=environment)
    return path


def _make_folders(stage: str, folder: str) -> None:
    """As `makedirs`, with the permissions that a package has, whatever the umask."""
    place = stage
    for part in folder.split("/"):
        place = os.path.join(place, part)
        if not os.path.isdir(place):
            os.mkdir(place)
            os.chmod(place, 0o755)


def _mode(file: str) -> int:
    return 0o755 if os.path.basename(file) == "trainmon" and "completions" not in file else 0o644


def _content(path: str) -> bytes:
    return Path(path).read_bytes()
