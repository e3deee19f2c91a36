"""Control groups that hold a job back, version 1 or 2, made for one run and removed after it."""

from __future__ import annotations

import os
import time

PREFIX = "trainmon-workload-"
PERIOD_US = 100_000


class Unavailable(Exception):
    """This machine or user cannot do what a workload needs; the message says what and why."""


def mounts() -> list[tuple[str, str, str]]:
    """(mount point, type, options) of each mount."""
    with open("/proc/mounts", encoding="utf-8") as file:
        return [(part[1], part[2], part[3]) for part in map(str.split, file)]


def disk_of(path: str) -> str:
    """"major:minor" of the whole disk that `path` lies on."""
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        raise Unavailable(f"{path} lies on no block device; choose another folder with --data")
    real = os.path.realpath(link)
    if os.path.exists(os.path.join(real, "partition")):
        real = os.path.dirname(real)
    with open(os.path.join(real, "dev"), encoding="utf-8") as file:
        return file.read().strip()


class Group:
    """One control group of one controller, in the place that the machine's version of cgroups has for it.

    Its limit holds from the start, or with `later` from `impose` on.
    """

    def __init__(self, controller: str, v1_files: dict[str, str], v2_files: dict[str, str], later: bool = False):
        self.path = ""
        self._files: dict[str, str] = {}
        try:
            parent, files = self._place(controller, v1_files, v2_files)
            remove_stale(parent)
            path = os.path.join(parent, f"{PREFIX}{os.getpid()}-{controller}")
            os.mkdir(path)
            self.path = path
            self._files = files
            if not later:
                self.impose()
        except OSError as error:
            self.remove()
            raise Unavailable(f"cannot limit {controller} by a control group ({error}); run as root") from error

    @staticmethod
    def _place(controller: str, v1_files: dict[str, str], v2_files: dict[str, str]) -> tuple[str, dict[str, str]]:
        for point, kind, options in mounts():
            if kind == "cgroup" and controller in options.split(","):
                return point, v1_files
        v2_name = "io" if controller == "blkio" else controller
        for point, kind, _options in mounts():
            if kind != "cgroup2":
                continue
            with open(os.path.join(point, "cgroup.controllers"), encoding="utf-8") as file:
                if v2_name not in file.read().split():
                    continue
            with open(os.path.join(point, "cgroup.subtree_control"), "r+", encoding="utf-8") as file:
                if v2_name not in file.read().split():
                    file.seek(0)
                    file.write(f"+{v2_name}")
            return point, v2_files
        raise Unavailable(f"no control group hierarchy with {controller} is mounted")

    def impose(self) -> bool:
        """Lets the limit hold from now on; whether it did not before."""
        new = bool(self._files)
        for name, value in self._files.items():
            with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
                file.write(value)
        self._files = {}
        return new

    def join(self) -> None:
        """Puts the calling process in; to be called in the child, before exec."""
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))

    def remove(self) -> None:
        """Removes the group; waits a moment for its last processes to be gone."""
        for _ in range(50):
            if not self.path:
                return
            try:
                os.rmdir(self.path)
                self.path = ""
            except FileNotFoundError:
                self.path = ""
            except OSError:
                time.sleep(0.1)


def remove_stale(parent: str) -> None:
    """Removes groups of runs that were killed."""
    for name in os.listdir(parent):
        if name.startswith(PREFIX):
            pid = name[len(PREFIX) :].split("-")[0]
            if not os.path.exists(f"/proc/{pid}"):
                try:
                    os.rmdir(os.path.join(parent, name))
                except OSError:
                    pass


def cpu_quota(cores: float) -> Group:
    quota = int(cores * PERIOD_US)
    return Group(
        "cpu",
        {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)},
        {"cpu.max": f"{quota} {PERIOD_US}"},
    )


def read_limit(bytes_s: int, path: str) -> Group:
    """To be imposed once the job steps: with libraries out of the page cache, its imports alone would take minutes."""
    disk = disk_of(path)
    v1 = {"blkio.throttle.read_bps_device": f"{disk} {bytes_s}"}
    return Group("blkio", v1, {"io.max": f"{disk} rbps={bytes_s}"}, later=True)


def memory_limit(limit_bytes: int) -> Group:
    return Group("memory", {"memory.limit_in_bytes": str(limit_bytes)}, {"memory.max": str(limit_bytes)})
