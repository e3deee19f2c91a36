"""Containers like those of Docker, with trainmon in the job's container, in another one next to it, or outside.

They are made of namespaces, cgroups and a filter of system calls: see enclose.py. What this machine does not allow raises
Unavailable.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from measure.monitor import Monitor
from measure.paths import BUILDS, MEASURE, ROOT, TESTS
from measure.text import markdown, show
from workloads.labels import Label, find
from workloads.launch import Launched
from workloads.limits import Unavailable
from workloads.processes import descendants
from workloads.simulated_gpu import MAX_DEVICES, name_owner, owner
from workloads.truth import Truth

from .scoring import Result, summarise

ENCLOSE = os.path.join(MEASURE, "evaluation/enclose.py")
#: Where the container has the programs, which differs from this machine.
INSIDE_TESTS, INSIDE_PYTHON = "/opt/tests", "/opt/python"
PLACES = ((TESTS, INSIDE_TESTS), (MEASURE, "/opt/measure"), (sys.prefix, INSIDE_PYTHON), (BUILDS, "/opt/builds"))
#: Docker's default capabilities, which do not include tracing: moby/oci/caps/defaults.go.
DOCKER_CAPABILITIES = (
    "chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service", "net_raw", "sys_chroot",
    "mknod", "audit_write", "setfcap",
)  # fmt: skip
INSIDE, BESIDE, OUTSIDE = "inside", "beside", "outside"
#: System calls that older engines and strict profiles refuse.
STRICT = ("ptrace", "process_vm_readv", "kcmp")
#: Files that gVisor and other sandboxes do not have.
BARE_PROC = ("/proc/diskstats", "/proc/vmstat", "/proc/pressure", "/proc/schedstat", "/proc/interrupts", "/proc/swaps")


@dataclass(frozen=True)
class Kind:
    """One kind of container, with the settings for enclose.py."""

    name: str
    what: str
    #: Where trainmon runs.
    watcher: str = INSIDE
    user_namespace: bool = False
    cgroup_namespace: bool = True
    read_only: bool = False
    masked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = DOCKER_CAPABILITIES
    #: The user of the job and of trainmon.
    user: int = 0
    shared_memory_mib: int = 64


KINDS = (
    Kind("docker", "Docker's defaults, trainmon by `docker exec`"),
    Kind("docker-outside", "Docker's defaults, trainmon on the host as root", watcher=OUTSIDE),
    Kind("docker-old", "the host's control groups in sight, as with Docker on version 1", cgroup_namespace=False),
    Kind("strict", "a filter that refuses ptrace and process_vm_readv", refused=STRICT),
    Kind("non-root", "user 1000 without capabilities, root read only (Kubernetes, restricted)", user=1000, capabilities=(), read_only=True),
    Kind("bare-proc", "the host's files in /proc masked", masked=BARE_PROC),
    Kind("sidecar", "trainmon in a container of its own, in the job's PID namespace", watcher=BESIDE),
    Kind("rootless", "a user namespace (Podman as a user, Apptainer), where no limits can be seen", user_namespace=True),
    Kind("rootless-outside", "the same, trainmon on the host as root", watcher=OUTSIDE, user_namespace=True),
)  # fmt: skip


#: Workloads for each kind, by default. Each source of trainmon matters in one of them.
WORKLOADS = (
    "too-few-workers", "compute-bound-block", "in-process-loading", "environments", "remote-metrics", "cgroup-throttled",
)  # fmt: skip


def by_name(name: str) -> Kind:
    return find("container", name, KINDS)


def namespaces(kind: Kind) -> list[str]:
    flags = ["--mount", "--ipc", "--uts"]
    flags += ["--cgroup"] if kind.cgroup_namespace else []
    flags += ["--user", "--map-root-user"] if kind.user_namespace else []
    return flags


def spec(kind: Kind, folder: str, data: str) -> str:
    """The settings for enclose.py. The program starts in `folder`, and shares only `data` with the outside."""
    binds = [*PLACES, (data, data)]
    return json.dumps({**asdict(kind), "folder": folder, "binds": binds, "hidden": ROOT})


def here(path: str) -> str:
    """The path inside the container of a file outside."""
    for outside, inside in PLACES:
        if path.startswith(outside + "/"):
            return inside + path[len(outside) :]
    return path


def check(kind: Kind) -> None:
    """Raises Unavailable if this machine or user cannot make such a container."""
    call = ["unshare", *namespaces(kind), "--pid", "--fork", "--kill-child", "mount", "-t", "proc", "proc", "/proc"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"{error.filename} not found; install util-linux") from error
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
        raise Unavailable(f"cannot make namespaces ({reason}); run as root")


class Contained(Launched):
    """A workload in a container. `pid` is the training process, as numbered outside."""

    def __init__(self, kind: Kind, label: Label, seconds: float = 120.0, data: str | None = None):
        super().__init__(label, seconds, data)
        self.kind = kind

    def job_command(self, command: list[str]) -> list[str]:
        if self.kind.user:
            os.chmod(self.data, 0o755)
            for path in (self.folder, *(os.path.join(self.folder, name) for name in os.listdir(self.folder))):
                os.chown(path, self.kind.user, self.kind.user)
        flags = [*namespaces(self.kind), "--pid", "--fork", "--kill-child"]
        inside = [here(word) for word in command]
        return [
            "unshare", *flags, sys.executable, ENCLOSE, "build",
            spec(self.kind, f"{INSIDE_TESTS}/workloads", self.data), f"{INSIDE_PYTHON}/bin/python", *inside,
        ]  # fmt: skip

    def job_environment(self) -> dict[str, str]:
        return {**{key: here(value) for key, value in super().job_environment().items()}, "TRAINMON_SIMULATED_NODES": "/dev/nvidia{index}"}

    @property
    def pid(self) -> int:
        """The first process of the namespace; waits for it."""
        first = super().pid
        children = descendants(first)
        return children[0] if children else first

    def wait_until_watchable(self, steps: int = 5, timeout: float = 90.0) -> None:
        super().wait_until_watchable(steps, timeout)
        if self.kind.watcher == OUTSIDE:
            name_owners(self.device, self._outer())

    def whole_truth_until(self, moment: float, steps: bool = True) -> Truth:
        truth = super().whole_truth_until(moment, steps)
        if self.kind.watcher == OUTSIDE:
            outer = self._outer()
            truth.stages = {outer.get(pid, pid): clock for pid, clock in truth.stages.items()}
            if truth.loop_tid is not None:
                truth.loop_tid = outer.get(truth.loop_tid, truth.loop_tid)
            beside = {companion.pid for companion in self._companions}
            for _moment, ends in truth.culprits:
                for end in ends:
                    if end.get("pid") not in beside:
                        end.update({key: outer.get(end[key], end[key]) for key in ("pid", "tid") if key in end})
        return truth

    def _outer(self) -> dict[int, int]:
        """Maps the number of each process and thread inside the namespace to its number outside."""
        found = {}
        for pid in descendants(super().pid):
            for tid in os.listdir(f"/proc/{pid}/task"):
                found[inner(pid, tid)] = int(tid)
        return found


def inner(pid: int, tid: int | str | None = None) -> int:
    """The number of a process or thread in its own namespace."""
    with open(f"/proc/{pid}/task/{tid or pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def name_owners(device: str, outer: dict[int, int]) -> None:
    """Has the driver name the devices' processes as it does: by their PIDs in the first namespace, where trainmon is in that."""
    for index in range(MAX_DEVICES):
        pid = owner(device, index)
        if pid in outer:
            name_owner(device, outer[pid], index)


@dataclass(frozen=True)
class EnclosedMonitor(Monitor):
    """trainmon, started where this kind of container wants it, and its jobs in such a container."""

    kind: Kind = KINDS[0]

    def launch(self, label: Label, seconds: float, data: str | None) -> Contained:
        return Contained(self.kind, label, seconds, data)

    def beside(self, job: Launched) -> tuple[Monitor, int]:
        first = job.pid
        if self.kind.watcher == OUTSIDE:
            # The trainer's own, which would be found by where its Python lies, lies elsewhere on this side.
            py_spy = ("--py-spy", os.path.join(sys.prefix, "bin/py-spy"))
            return Monitor(self.program, self.nvml_lib, (*self.options, *py_spy)), first
        enter = ["nsenter", "--target", str(first), "--pid"]
        text = spec(self.kind, job.folder, job.data)
        if self.kind.watcher == INSIDE:
            enter += ["--mount", "--ipc", "--uts"]
            enter += ["--cgroup"] if self.kind.cgroup_namespace else []
            enter += ["--user"] if self.kind.user_namespace else []
            prefix = [*enter, "--", f"{INSIDE_PYTHON}/bin/python", here(ENCLOSE), "enter", text]
        else:
            own = ["unshare", *namespaces(self.kind), sys.executable, ENCLOSE, "build", text]
            prefix = [*enter, "--", *own]
        if not self.program.startswith(BUILDS + "/"):
            raise Unavailable(f"{self.program} is not under {BUILDS}, the only folder that the container shows")
        # A driver reports PIDs of the first namespace, which match no process in here.
        prefix += ["env", "FAKE_NVML_FAIL=other_pids"]
        options = (*self.options, "--py-spy", f"{INSIDE_PYTHON}/bin/py-spy")
        return Monitor(here(self.program), here(self.nvml_lib) if self.nvml_lib else None, options, tuple(prefix)), inner(first)


@dataclass(frozen=True)
class Row:
    """The result for one kind of container."""

    cells: tuple[str, ...]
    all_right: bool


def row(kind: Kind, results: list[Result]) -> Row:
    sums = summarise(results) if results else {}
    wrong = [
        f"{result.workload}: {result.seen_class}/{result.seen_cause or '–'} {result.confidence or 0:.2f}"
        for result in results
        if not result.class_right
    ]
    class_right, cause_right = (show(sums.get(f"{what}_accuracy"), ".0%", "–") for what in ("class", "cause"))
    cells = (
        f"`{kind.name}`: {kind.what}", str(len(results)), class_right, cause_right,
        f"{sums.get('culprit_right', 0)} of {sums.get('culprit_scored', 0)}", "; ".join(wrong) or "–",
    )  # fmt: skip
    return Row(cells, bool(results) and not wrong)


def table(rows: list[Row]) -> str:
    """The results as a Markdown table."""
    head = ("container", "runs", "class right", "cause right", "chain's end right", "wrong")
    return "\n".join(markdown(head, (row.cells for row in rows)))
