"""In a guest: what an environment changes on the machine, put in force and, where the kernel lets it, taken back."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

GROUPS = "/sys/fs/cgroup"
SWAP_MIB = 44


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def device_of(path: str) -> str:
    """MAJOR:MINOR of the disk under a folder."""
    number = os.stat(path).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


@contextlib.contextmanager
def sysctl(name: str, value: Any) -> Iterator[None]:
    path = "/proc/sys/" + name.replace(".", "/")
    before = read(path)
    write(path, str(value))
    if read(path) != str(value):
        raise OSError(f"{name} stayed {read(path)}")
    try:
        yield
    finally:
        # Yama's highest scope cannot be lowered again.
        with contextlib.suppress(OSError):
            write(path, before)


@contextlib.contextmanager
def hidepid(value: Any) -> Iterator[None]:
    call("mount", "-o", f"remount,hidepid={value}", "/proc")
    try:
        yield
    finally:
        call("mount", "-o", "remount,hidepid=0", "/proc")


@contextlib.contextmanager
def control_group(environment: dict[str, Any], limits: dict[str, str]) -> Iterator[None]:
    """A group for the job. `DISK` in a limit stands for the disk under /opt, `SLOW` for the one under /slow."""
    group = f"{GROUPS}/{environment['name']}"
    os.mkdir(group)
    for name, value in limits.items():
        write(f"{group}/{name}", value.replace("DISK", device_of("/opt")).replace("SLOW", device_of("/slow")))
    environment["group"] = group
    try:
        yield
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break


@contextlib.contextmanager
def swap(folder: str) -> Iterator[None]:
    path = f"{folder}/swapfile"
    with open(path, "wb") as file:
        for _ in range(SWAP_MIB):
            file.write(bytes(1 << 20))
        os.fsync(file.fileno())
    os.chmod(path, 0o600)
    call("mkswap", path)
    call("swapon", path)
    try:
        yield
    finally:
        call("swapoff", path)
        os.unlink(path)


@contextlib.contextmanager
def overlay(environment: dict[str, Any], _value: Any) -> Iterator[None]:
    """A root as containers have it: an overlay over this one, with /proc, /sys, /dev and /tmp of this one."""
    call("mount", "-t", "tmpfs", "over", "/mnt")
    for name in ("upper", "work", "root"):
        os.mkdir(f"/mnt/{name}")
    call("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work", "/mnt/root")
    mounted = ["/mnt", "/mnt/root"]
    for name in ("proc", "sys", "dev", "tmp", "slow"):
        call("mount", "--bind", f"/{name}", f"/mnt/root/{name}")
        mounted.append(f"/mnt/root/{name}")
    call("mount", "--bind", "/sys/fs/cgroup", "/mnt/root/sys/fs/cgroup")
    mounted.append("/mnt/root/sys/fs/cgroup")
    environment["inside"] = ["chroot", "/mnt/root"]
    try:
        yield
    finally:
        for path in reversed(mounted):
            subprocess.run(["umount", "-l", path], check=False)


#: Every switch by its name in the plan; each is given the environment and the value.
SWITCHES: dict[str, Callable[[dict[str, Any], Any], contextlib.AbstractContextManager[None]]] = {
    "ptrace_scope": lambda _environment, value: sysctl("kernel.yama.ptrace_scope", value),
    "delayacct": lambda _environment, value: sysctl("kernel.task_delayacct", value),
    "hidepid": lambda _environment, value: hidepid(value),
    "group": control_group,
    "swap": lambda _environment, value: swap(value),
    "overlay": overlay,
}


@contextlib.contextmanager
def in_force(environment: dict[str, Any]) -> Iterator[str | None]:
    """Puts the environment's switches in force. Gives why not, where this kernel does not have one of them."""
    with contextlib.ExitStack() as stack:
        missing = None
        for name, value in environment.get("switches", {}).items():
            try:
                stack.enter_context(SWITCHES[name](environment, value))
            except (OSError, subprocess.CalledProcessError) as error:
                missing = f"{name}: {error} {getattr(error, 'stderr', '') or ''}".strip()
                break
        yield missing
