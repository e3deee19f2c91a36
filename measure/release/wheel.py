"""Reads and rewrites wheels: zip archives whose last file lists the others with their digests (PEP 427)."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import zipfile

#: Permissions that pip gives the program, and those of the rest.
PROGRAM_MODE, FILE_MODE = 0o755, 0o644


def read(path: str) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def one(files: dict[str, bytes], end: str) -> str:
    """The name of the only file that ends so."""
    [name] = [name for name in files if name.endswith(end)]
    return name


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(path: str, files: dict[str, bytes], epoch: int) -> None:
    """Writes a wheel anew: names in order, one time for all, the list of digests made again."""
    record = one(files, ".dist-info/RECORD")
    files = dict(sorted((name, content) for name, content in files.items() if name != record))
    lines = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    partial = path + ".partial"
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.create_system = 3  # Unix, wherever this runs: else the permissions are not read
            entry.external_attr = (0o100000 | (PROGRAM_MODE if ".data/scripts/" in name else FILE_MODE)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    os.replace(partial, path)


def settle(path: str, root: str, epoch: int) -> None:
    """Takes the place where it was built out of a wheel's list of components."""
    files = read(path)
    name = one(files, ".cyclonedx.json")
    files[name] = files[name].replace(f"file://{root}".encode(), b"file:///trainmon")
    write(path, files, epoch)


def with_version(path: str, version: str, folder: str) -> str:
    """A copy of a wheel that says it is another version: what an older or newer one looks like to pip."""
    files = read(path)
    metadata = one(files, ".dist-info/METADATA")
    before = metadata.split(".dist-info/")[0]
    old, after = before.removeprefix("trainmon-"), f"trainmon-{version}"
    files[metadata] = files[metadata].replace(f"\nVersion: {old}\n".encode(), f"\nVersion: {version}\n".encode(), 1)
    renamed = {name.replace(before, after, 1): content for name, content in files.items()}
    copy = os.path.join(folder, os.path.basename(path).replace(before, after, 1))
    write(copy, renamed, int(time.time()))
    return copy


def with_platform(path: str, platform: str, folder: str) -> str:
    """A copy of a wheel that says it is for another platform; pip reads that from its name."""
    begin = "-".join(os.path.basename(path).split("-")[:4])
    copy = os.path.join(folder, f"{begin}-{platform}.whl")
    with open(path, "rb") as source, open(copy, "wb") as target:
        target.write(source.read())
    return copy
