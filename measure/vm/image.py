"""The files that a guest boots from: an ext4 image with Debian's Python, trainmon and the jobs, a slow disk with data, an initramfs.

None of this needs root, and the same input gives the same image. Nothing is written back to either disk.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure.paths import ROOT

from .packages import Unavailable, Unpacked, called, with_dependencies

#: What runs in a guest: under /opt/vm it has the same names. Python looks for modules there and in its tests/.
GUEST = "measure/vm/guest"
IN_GUEST = (
    f"{GUEST}/start", f"{GUEST}/runner.py", f"{GUEST}/switches.py", "measure/vm/jobs/train.py", "tests/workloads/simulated_gpu.py",
    "tests/workloads/stages.py", "tests/workloads/truth.py",
)  # fmt: skip
#: Modules for the disks, the port of the results and the overlay, and what other machines load when the ends of sockets are asked for;
#: what is built into a kernel is left out.
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "crc32c_generic", "ext4", "overlay", "unix_diag", "tcp_diag")
#: What the start and the switches call of busybox.
BUSYBOX = ["sh", "mount", "umount", "ip", "poweroff", "mkdir", "chmod", "mkswap", "swapon", "swapoff", "chroot", "unshare"]
#: Sizes of the images, MiB, sparse; and of the data file on each.
ROOT_MIB, SLOW_MIB, DATA_MIB = 768, 160, 96


def tools(binary: Path, py_spy: Path, nvml: Path, build: str) -> dict[str, Path]:
    """The programs under /opt/vm/bin. Raises Unavailable with the first one that is missing."""
    wanted = {
        "trainmon": (binary, build),
        "py-spy": (py_spy, "pip install -r tests/requirements.txt"),
        "libfake_nvml.so": (nvml, build),
    }
    for path, fix in wanted.values():
        if not path.is_file():
            raise Unavailable(f"{path} not found; fix it: {fix}")
    return {name: path for name, (path, _fix) in wanted.items()}


def link_tree(source: Path, target: Path) -> None:
    """The same tree with hard links where the file system lets it, else copies."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other, follow_symlinks=False)
        except OSError:
            shutil.copy2(one, other, follow_symlinks=False)

    shutil.copytree(source, target, symlinks=True, copy_function=link)


def random_file(path: Path, mebibytes: int) -> None:
    """Data that no file system stores as a hole."""
    noise = random.Random(0)
    with open(path, "wb") as file:
        for _ in range(mebibytes):
            file.write(noise.randbytes(1 << 20))


def ext4(tree: Path, image: Path, mebibytes: int) -> None:
    """An ext4 image with the tree's files, which belong to root there."""
    image.unlink(missing_ok=True)
    with open(image, "wb") as file:
        file.truncate(mebibytes << 20)
    options = ["-q", "-F", "-O", "^has_journal", "-E", "root_owner=0:0,lazy_itable_init=1", "-d", str(tree)]
    called([shutil.which("mkfs.ext4") or "/sbin/mkfs.ext4", *options, str(image)])


def root_image(
    unpacked: Unpacked, programs: dict[str, Path], plan: list[dict[str, Any]], work: Path, more: Callable[[Path], None] | None = None
) -> Path:  # fmt: skip
    """The image of /, with the plan of what to do there, and what `more` puts into its tree."""
    tree = work / "root"
    link_tree(unpacked.programs, tree)
    for name in ("proc", "sys", "dev", "tmp", "mnt", "etc", "root", "opt/vm/bin", "data"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    write(tree / "etc/passwd", "root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/tmp:/bin/sh\n")
    write(tree / "etc/group", "root:x:0:\nu:x:1000:\n")
    for name, path in programs.items():
        shutil.copy(path, tree / "opt/vm/bin" / name)
        (tree / "opt/vm/bin" / name).chmod(0o755)
    for file in IN_GUEST:
        (tree / "opt/vm" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(ROOT, file), tree / "opt/vm" / file)
    write(tree / "opt/vm/plan.json", json.dumps(plan))
    busybox_links(tree)
    random_file(tree / "data/samples", DATA_MIB)
    if more is not None:
        more(tree)
    image = work / "root.ext4"
    ext4(tree, image, ROOT_MIB)
    return image


def busybox_links(tree: Path) -> None:
    """busybox under the names of its programs, in the place of Debian's where it brought one."""
    for name in BUSYBOX:
        for folder in ("bin", "sbin"):
            (tree / "usr" / folder / name).unlink(missing_ok=True)
        (tree / "usr/bin" / name).symlink_to("busybox")


def write(path: Path, text: str) -> None:
    # A file that may be linked to the cache is replaced, not changed.
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def slow_image(work: Path) -> Path:
    """The data disk, whose speed the machine limits."""
    tree = work / "slow"
    tree.mkdir()
    random_file(tree / "samples", DATA_MIB)
    image = work / "slow.ext4"
    ext4(tree, image, SLOW_MIB)
    return image


def initramfs(unpacked: Unpacked, work: Path) -> Path:
    """busybox, the modules of the disks, and the first process."""
    busybox = next((unpacked.programs / name for name in ("usr/bin/busybox", "bin/busybox")), None)
    if busybox is None or not busybox.is_file():
        raise Unavailable(f"no busybox in {unpacked.programs}; remove its parent folder and try again")
    modules = with_dependencies(unpacked.modules, list(MODULES))
    folders = ("bin", "proc", "sys", "dev", "modules")
    entries: list[tuple[str, int, bytes]] = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes()))
    entries.append(("init", stat.S_IFREG | 0o755, Path(ROOT, GUEST, "init").read_bytes()))
    entries.append(("modules/order", stat.S_IFREG | 0o644, "".join(f"{name}.ko\n" for name in modules).encode()))
    entries += [(f"modules/{name}.ko", stat.S_IFREG | 0o644, content) for name, content in modules.items()]
    path = work / "initramfs"
    path.write_bytes(gzip.compress(cpio(entries), 1))
    return path


def cpio(entries: list[tuple[str, int, bytes]]) -> bytes:
    """An archive as the kernel unpacks it: `newc`, see Documentation/driver-api/early-userspace/buffer-format.rst."""
    parts = []
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        parts += [padded(head), padded(content)]
    return b"".join(parts)


def padded(part: bytes) -> bytes:
    """Filled up to a multiple of four bytes."""
    return part + b"\0" * (-len(part) % 4)
