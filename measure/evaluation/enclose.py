"""Runs a program in a container, without a container engine: with its own root, its own /proc, and fewer rights.

    enclose.py build SPEC COMMAND...   in namespaces just made by `unshare`: makes the root, gives up rights, runs the command
    enclose.py enter SPEC COMMAND...   in an existing container (by `nsenter`): gives up the same rights, runs the command

SPEC is JSON with the fields of `containers.Kind`, plus `binds`, pairs of a folder outside and its path inside, and `hidden`, a
folder that is not visible inside. Standard library only; util-linux's `mount` makes the mounts.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import subprocess
import sys
from typing import Any

# This file runs as a program, both outside and inside a container.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests"))

from workloads.limits import mounts

#: Numbers of the system calls that engines' filters refuse: asm/unistd.h.
NUMBERS = {
    "x86_64": {"ptrace": 101, "process_vm_readv": 310, "kcmp": 312},
    "aarch64": {"ptrace": 117, "process_vm_readv": 270, "kcmp": 272},
}
#: linux/audit.h
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: linux/prctl.h, linux/seccomp.h and linux/filter.h
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
#: Where seccomp_data holds the number of the call, and the architecture.
NUMBER_AT, ARCHITECTURE_AT = 0, 4
#: Files in /proc and /sys that Docker hides, and those that it makes read-only: moby/oci/defaults.go.
HIDDEN = (
    "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/interrupts",
    "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
)  # fmt: skip
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys")
SCRATCH = "/mnt"


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, stdin=subprocess.DEVNULL)


def groups_here() -> dict[str, str]:
    """The control group of this process by controller ("" for version 2)."""
    found = {}
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _number, controllers, path = line.rstrip("\n").split(":", 2)
            for name in controllers.split(","):
                found[name] = path
    return found


def make_root(spec: dict[str, Any]) -> None:
    """Makes a root, an overlay on this machine's that hides what a container does not have, and moves into it."""
    mount("--make-rprivate", "/")
    hierarchies, here = [one for one in mounts() if one[1] in ("cgroup", "cgroup2")], groups_here()
    mount("-t", "tmpfs", "scratch", SCRATCH)
    root, upper, work = (f"{SCRATCH}/{name}" for name in ("root", "upper", "work"))
    for folder in (root, upper, work):
        os.mkdir(folder)
    if spec["user_namespace"]:
        # An overlay may not uncover what is mounted below; the places for what is bound are made in a folder that is nobody's.
        mount("--rbind", "/", root)
        mount("-t", "tmpfs", "opt", root + "/opt")
    else:
        mount("-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay", root)
    mount("-t", "tmpfs", "hidden", root + spec["hidden"])
    mount("-t", "tmpfs", "-o", "mode=1777", "tmp", root + "/tmp")
    for outside, inside in spec["binds"]:
        os.makedirs(root + inside, exist_ok=True)
        mount("--bind", outside, root + inside)
    make_devices(root + "/dev", spec["shared_memory_mib"])
    mount("-t", "proc", "proc", root + "/proc")
    mount("--rbind", "/sys", root + "/sys")
    if hierarchies and not spec["user_namespace"]:
        mount("-t", "tmpfs", "cgroup", root + "/sys/fs/cgroup")
        for point, kind, options in hierarchies:
            place = root + point
            os.makedirs(place, exist_ok=True)
            names = [name for name in options.split(",") if kind == "cgroup" and name not in ("rw", "relatime", "ro", "nosuid", "nodev", "noexec")]
            if spec["cgroup_namespace"]:
                mount("-t", kind, *(("-o", ",".join(names)) if names else ()), "cgroup", place)
            else:
                controller = names[0] if names else ""
                mount("--bind", point + here.get(controller, "/"), place)
    for path in READ_ONLY:
        if os.path.exists(root + path):
            if path != "/sys":
                mount("--bind", root + path, root + path)
            mount("-o", "remount,bind,ro,nosuid,nodev,noexec", root + path)
    hide(root, (*HIDDEN, *spec["masked"]))
    if spec["read_only"]:
        mount("-o", "remount,bind,ro", root)
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    subprocess.run(["umount", "-l", "."], check=True)
    os.chdir("/")


def make_devices(place: str, shared_memory_mib: int) -> None:
    """Makes the few devices that a container has, and stand-ins for the files of a GPU's driver."""
    mount("-t", "tmpfs", "-o", "mode=755", "dev", place)
    stand_ins = dict.fromkeys(("nvidia0", "nvidiactl", "nvidia-uvm"), "null")
    for name, device in {**{name: name for name in ("null", "zero", "full", "random", "urandom", "tty")}, **stand_ins}.items():
        with open(f"{place}/{name}", "w", encoding="ascii"):
            pass
        mount("--bind", f"/dev/{device}", f"{place}/{name}")
    os.symlink("/proc/self/fd", f"{place}/fd")
    os.mkdir(f"{place}/shm")
    mount("-t", "tmpfs", "-o", f"mode=1777,size={shared_memory_mib}m", "shm", f"{place}/shm")


def hide(root: str, paths: tuple[str, ...]) -> None:
    """Hides these files and folders, if they exist."""
    for path in paths:
        if os.path.isdir(root + path):
            mount("-t", "tmpfs", "-o", "ro,size=0", "masked", root + path)
        elif os.path.exists(root + path):
            mount("--bind", "/dev/null", root + path)


def refuse(names: tuple[str, ...]) -> None:
    """Makes the kernel refuse these system calls to this process and all processes that it starts."""
    machine = platform.machine()
    if not names or machine not in NUMBERS:
        return
    numbers = [NUMBERS[machine][name] for name in names]
    program = [(LOAD_WORD, 0, 0, ARCHITECTURE_AT), (JUMP_IF_EQUAL, 1, 0, ARCHITECTURES[machine]), (RETURN, 0, 0, ALLOW)]
    program.append((LOAD_WORD, 0, 0, NUMBER_AT))
    for index, number in enumerate(numbers):
        program.append((JUMP_IF_EQUAL, len(numbers) - index, 0, number))
    program += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    instructions = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a count, and a pointer to the instructions.
    filter_ = struct.pack("HxxxxxxP", len(program), ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    # Without the right to administer the system this must be promised first.
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def give_up(spec: dict[str, Any]) -> list[str]:
    """The command prefix that drops capabilities and switches to the container's user."""
    kept = ",".join(["-all", *(f"+{name}" for name in spec["capabilities"])])
    command = ["setpriv", f"--bounding-set={kept}", "--inh-caps=-all", "--no-new-privs"]
    if spec["user"]:
        user = str(spec["user"])
        command += ["--reuid", user, "--regid", user, "--clear-groups"]
    return [*command, "--"]


def main() -> None:
    what, text, *command = sys.argv[1:]
    spec = json.loads(text)
    if what == "build":
        make_root(spec)
        os.chdir(spec["folder"])
    refuse(tuple(spec["refused"]))
    command = [*give_up(spec), *command]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
