"""The environments: how each is made in a guest, which job runs there, and what trainmon should see and say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .machine import Boot

#: Seconds that trainmon watches: under emulation steps are slow and stacks take long.
WATCHED_S = 20

#: The jobs, with which answers are right. Times are long beside what emulation adds to each step.
DECODE = (("decode", "--batch-ms", "200", "--step-ms", "40"), ("data-loader",), ("decode", "too-few-workers", "transform"))
PYTHON = (("python", "--batch-ms", "2", "--step-ms", "40", "--planted-ms", "200"), ("cpu",), ("main-thread",))
CHILD = (("child", "--batch-ms", "2", "--step-ms", "40", "--planted-ms", "200"), ("cpu",), ("waits-for-process",))
DISK = (("disk", "--data", "/slow/samples", "--reads", "1", "--step-ms", "40"), ("io",), ("disk-bandwidth",))


@dataclass(frozen=True)
class Environment:
    """One row of the table."""

    name: str
    #: What differs from an ordinary machine, in words.
    what: str
    #: Arguments of the job; the classes and the causes that are right.
    job: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = DECODE
    boot: Boot = Boot("ordinary")
    #: Whether job and trainmon run as the ordinary user, neither started by the other.
    user: bool = True
    switches: dict[str, Any] = field(default_factory=dict)
    #: A command that runs job and trainmon together, and one that runs the job alone, in namespaces of their own.
    inside: tuple[str, ...] = ()
    before_job: tuple[str, ...] = ()
    #: What doctor should find: its state for a thing, and a part of its words where they matter.
    seen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Trainmon may say that it does not know: what tells is hidden here.
    may_not_know: bool = False
    #: The number of workers advised may not be above this.
    workers_at_most: int | None = None

    def plan(self) -> dict[str, Any]:
        """What the guest is told."""
        return {
            "name": self.name, "job": list(self.job[0]), "user": self.user, "switches": self.switches,
            "inside": list(self.inside), "before_job": list(self.before_job), "seconds": WATCHED_S,
        }  # fmt: skip


ORDINARY = Boot("ordinary")
NEWER = Boot("newer", suite="trixie")
NO_PSI = Boot("no-psi", append="psi=0")
SIBLINGS = Boot("siblings", cpus="8,sockets=1,cores=4,threads=2", memory_mib=1536)

PID_NAMESPACE = ("unshare", "-p", "-f", "-m", "--mount-proc=/proc")

#: In the order of the table. Those of one boot run one after the other; what cannot be taken back is last.
ENVIRONMENTS = (
    Environment("base", "root, Linux 6.1, cgroup v2", user=False, seen={"rights": ("ok",), "pressure": ("ok",)}),
    Environment("base-python", "the same, another job", PYTHON, user=False),
    Environment("base-child", "the same, another job", CHILD, user=False),
    Environment("base-disk", "the same, another job; a disk of 4 MiB/s", DISK, user=False),
)
