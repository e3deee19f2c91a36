"""The environments: how a guest makes each one, which job runs there, and what trainmon should say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .machine import Boot

#: Seconds that trainmon watches: under emulation steps are slow and stacks take long.
WATCHED_S = 20
#: Seconds that it logs.
LOGGED_S = 12

#: The jobs, with which answers are right. Times are long beside what emulation adds to each step.
DECODE = (("decode", "--batch-ms", "200", "--step-ms", "40"), ("data-loader",), ("decode", "too-few-workers", "transform"))
PYTHON = (("python", "--batch-ms", "2", "--step-ms", "40", "--planted-ms", "200"), ("cpu",), ("main-thread",))
CHILD = (("child", "--batch-ms", "2", "--step-ms", "40", "--planted-ms", "200"), ("cpu",), ("waits-for-process",))
QUOTA = (("decode", "--batch-ms", "200", "--step-ms", "300", "--workers", "2"), ("cpu",), ("cgroup-throttled",))
#: Random reads of a file larger than the memory that the job's group may use.
CACHE = (
    ("cache", "--data", "/slow/samples", "--reads", "8", "--step-ms", "40"), ("io",),
    ("page-cache-miss", "memory-pressure", "disk-bandwidth"),
)  # fmt: skip
LIMITED = (("disk", "--data", "/data/samples", "--reads", "1", "--step-ms", "40"), ("io",), ("io-throttled",))
SWAPS = (("ballast", "--step-ms", "40", "--planted-ms", "10"), ("io",), ("memory-pressure",))
CROWD = (("decode", "--batch-ms", "400", "--step-ms", "40", "--workers", "3"), ("data-loader",), ("decode", "too-few-workers", "transform"))
DISK = (("disk", "--data", "/slow/samples", "--reads", "1", "--step-ms", "40"), ("io",), ("disk-bandwidth",))


ORDINARY = Boot("ordinary")
NEWER = Boot("newer", suite="trixie")
NO_PSI = Boot("no-psi", append="psi=0")
PAGES_16K = Boot("pages-16k", suite="trixie", kernel="arm64-16k", only="aarch64")
UNIT_TESTS = Boot("unit-tests", memory_mib=2048)
#: qemu shows no siblings on its ARM machine.
SIBLINGS = Boot("siblings", only="x86_64", cpus="8,sockets=1,cores=4,threads=2", memory_mib=1536)


@dataclass(frozen=True)
class Environment:
    """One row of the table."""

    name: str
    #: What differs from an ordinary machine, in words.
    what: str
    #: Arguments of the job; the classes and the causes that are right.
    job: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = DECODE
    boot: Boot = ORDINARY
    #: Whether job and trainmon run as the ordinary user, neither started by the other.
    user: bool = True
    switches: dict[str, Any] = field(default_factory=dict)
    #: A command that runs job and trainmon together, and one that runs the job alone, in namespaces of their own.
    inside: tuple[str, ...] = ()
    before_job: tuple[str, ...] = ()
    #: The job is started as `trainmon run` does: it gives its parent's children leave to attach.
    leave: bool = False
    #: Which PID the driver names: the job's own, that of the namespace that trainmon is in ("here"), or one that nobody has
    #: there ("elsewhere"). Drivers name those of the first namespace.
    owner: str = "own"
    #: What doctor should find: its state for a thing, and a part of its words where they matter.
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Trainmon may say that it does not know: what tells is hidden here.
    may_not_know: bool = False
    #: Options of trainmon.
    options: tuple[str, ...] = ()
    #: A function that the verdict must name, which only stacks tell.
    function: str | None = None
    #: The job is logged too, and the log must be filled.
    logged: bool = False
    #: The number of workers advised may not be above this.
    workers_at_most: int | None = None

    def plan(self) -> dict[str, Any]:
        """What the guest is told."""
        return {
            "name": self.name, "job": list(self.job[0]), "user": self.user, "switches": self.switches,
            "inside": list(self.inside), "before_job": list(self.before_job), "leave": self.leave, "owner": self.owner,
            "seconds": WATCHED_S, "options": list(self.options), "logged_s": LOGGED_S if self.logged else 0,
        }  # fmt: skip


HALF_A_CPU = {"group": {"cpu.max": "50000 100000"}}
SLOW_READS = {"group": {"io.max": "DISK rbps=1048576"}}
#: Less memory than the job walks through.
SHORT = {"memory.max": "40M", "memory.swap.max": "max"}
#: What Yama refuses an ordinary user.
DENIED: dict[str, tuple[str, ...]] = {"yama": ("limited",), "syscall": ("denied",)}

PID_NAMESPACE = ("unshare", "-p", "-f", "-m", "--mount-proc=/proc")

#: In the order of the table. Those of one boot run one after the other; what cannot be taken back is last.
ENVIRONMENTS = (
    Environment("base", "root, Linux 6.1, cgroup v2", user=False, seen={"rights": ("ok",), "pressure": ("ok",)}),
    Environment("base-python", "the same, another job", PYTHON, user=False, function="compute_metrics", logged=True),
    Environment("base-child", "the same, another job", CHILD, user=False, function="tokenize"),
    # What each thread waits for is then told by its system call alone.
    Environment("base-child-calls", "the same without stacks", CHILD, user=False, options=("--no-stacks",)),
    Environment("base-disk", "the same, another job; a disk of 4 MiB/s", DISK, user=False),
    Environment("scope-0", "ordinary user, ptrace_scope 0", switches={"ptrace_scope": 0}, seen={"yama": ("ok",)}),
    Environment("scope-1", "ordinary user, ptrace_scope 1", switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("scope-1-python", "the same, another job", PYTHON, switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("scope-1-child", "the same, another job", CHILD, switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("scope-1-disk", "the same, another job", DISK, switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("scope-1-run", "the same, a job started as by trainmon run", PYTHON, switches={"ptrace_scope": 1}, leave=True,
                seen={"yama": ("limited",), "syscall": ("ok",)}),
    Environment("scope-2", "ordinary user, ptrace_scope 2", switches={"ptrace_scope": 2}, seen=DENIED),
    Environment("cpu-max", "cgroup v2, cpu.max of half a CPU", QUOTA, switches=HALF_A_CPU),
    Environment("memory-max", "cgroup v2, memory.max below the data's size", CACHE, switches={"group": {"memory.max": "48M"}}),
    Environment("io-max", "cgroup v2, io.max of 1 MiB/s on a faster disk", LIMITED, switches=SLOW_READS),
    Environment("io-max-scope-1", "the same as ordinary user, ptrace_scope 1", LIMITED,
                switches={"ptrace_scope": 1, **SLOW_READS}),
    Environment("delays", "delay accounting on", DISK, switches={"delayacct": 1}),
    Environment("no-delays", "delay accounting off", DISK, switches={"delayacct": 0}),
    Environment("hidepid", "ordinary user, /proc with hidepid=2", switches={"hidepid": 2}),
    Environment("hidepid-scope-1", "the same and ptrace_scope 1", CHILD, switches={"hidepid": 2, "ptrace_scope": 1}),
    Environment("pid-inside", "job and trainmon in a PID namespace", CHILD, user=False, inside=PID_NAMESPACE, owner="elsewhere",
                may_not_know=True),
    Environment("pid-outside", "the job in a PID namespace, trainmon outside", CHILD, user=False, before_job=PID_NAMESPACE,
                owner="here"),
    Environment("overlay", "root on an overlay, by chroot", user=False, switches={"overlay": True}),
    Environment("swap", "cgroup v2, a job that swaps to a slow disk", SWAPS, switches={"swap": "/slow", "group": SHORT}),
    Environment("swap-fast", "the same to a disk that costs little but CPU", SWAPS, switches={"swap": "/data", "group": SHORT}),
    Environment("scope-3", "root, ptrace_scope 3", user=False, switches={"ptrace_scope": 3}),
    Environment("scope-3-user", "ordinary user, ptrace_scope 3", switches={"ptrace_scope": 3}, seen=DENIED),
    Environment("no-psi", "no pressure figures (psi=0)", DISK, boot=NO_PSI, seen={"pressure": ("absent",)}),
    Environment("no-psi-quota", "the same, cpu.max of half a CPU", QUOTA, boot=NO_PSI, switches=HALF_A_CPU),
    Environment("siblings", "8 CPUs on 4 cores", CROWD, boot=SIBLINGS, workers_at_most=4,
                seen={"host": ("ok", "4 cores, 8 CPUs")}),
    Environment("newer", "Linux 6.12, Python 3.13", boot=NEWER),
    Environment("newer-python", "the same, another job", PYTHON, boot=NEWER, function="compute_metrics", logged=True),
    Environment("newer-child", "the same, ptrace_scope 1", CHILD, boot=NEWER, switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("newer-cpu-max", "the same, cpu.max of half a CPU", QUOTA, boot=NEWER, switches=HALF_A_CPU),
    Environment("newer-io-max", "the same, io.max of 1 MiB/s", LIMITED, boot=NEWER, switches=SLOW_READS),
    Environment("pages-16k", "Linux 6.12 with pages of 16 KiB", boot=PAGES_16K),
    Environment("pages-16k-python", "the same, another job", PYTHON, boot=PAGES_16K, function="compute_metrics", logged=True),
    Environment("pages-16k-child", "the same, ptrace_scope 1", CHILD, boot=PAGES_16K, switches={"ptrace_scope": 1}, seen=DENIED),
    Environment("pages-16k-memory-max", "the same, memory.max below the data's size", CACHE, boot=PAGES_16K,
                switches={"group": {"memory.max": "48M"}}),
    Environment("pages-16k-io-max", "the same, io.max of 1 MiB/s", LIMITED, boot=PAGES_16K, switches=SLOW_READS),
)
