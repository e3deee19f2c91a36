"""Starts a workload with everything around it, and takes all of it away again, however the run ends.

`with Launched(label, …) as job:` makes a temporary folder, the simulated device's file, the control groups and the
companions that the label asks for, and starts `train.py` in a process group of its own that dies with its parent.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from workloads import dataset_files, limits, simulated_gpu
from workloads.labels import Label
from workloads.limits import Unavailable
from workloads.truth import Truth

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_PDEATHSIG = 1
#: So many looks, of 30 ms, are left to who removes what the others shared.
TRACKER_TURNS = 40
_LIBC = ctypes.CDLL(None)


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends; to be called in the child."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class WorkloadFailed(Exception):
    """The workload ended, or did not start stepping in time; the message holds the end of its output."""


class Launched:
    """A running workload. `pid` is the training process."""

    #: The program that runs one workload.
    program = os.path.join(HERE, "train.py")

    def __init__(
        self, label: Label, seconds: float = 120.0, data: str | None = None, given: dict[str, str] | None = None
    ):
        self.label, self.seconds, self.given = label, seconds, given or {}
        self.data = os.path.abspath(data) if data else dataset_files.default_folder()
        self.folder = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._companions: list[subprocess.Popen[bytes]] = []
        self._groups: list[limits.Group] = []

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def device(self) -> str:
        return os.path.join(self.folder, "device.bin")

    def __enter__(self) -> Launched:
        # A checkpoint must reach a disk: the folder lies beside the data where they lie on one.
        try:
            os.makedirs(self.data, exist_ok=True)
            remove_stale(self.data)
            self.folder = tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=self.data)
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        simulated_gpu.create(self.device)
        given = [word for key, value in self.given.items() for word in ("--given", f"{key}={value}")]
        for need in self.label.needs:
            self._groups.extend(self._meet(need))
        for role in self.label.companions:
            companion = self._spawn([sys.executable, *self.companion(role)], [], subprocess.PIPE)
            self._companions.append(companion)
            assert companion.stdout is not None
            ready = companion.stdout.readline().decode()
            if not ready:
                raise WorkloadFailed(f"{role} ended before it was ready")
            given += ["--given", f"{role}={ready.strip()}"]
            given += ["--given", f"{role}.pid={companion.pid}"]
        command = [self.program, self.label.name, "--seconds", str(self.seconds)]
        command += ["--entry", self.label.entry]
        if self._groups:
            # The libraries come from the page cache then: what is imported later is cheap under the limit too.
            subprocess.run([sys.executable, "-c", "import PIL.Image, numpy, torch"], check=True, cwd=HERE)
        command += ["--truth", self.truth_path, "--device", self.device, "--data", self.data, *given]
        argv, env = self.job_command(command), self.job_environment()
        with open(self._output_path, "wb") as output:
            if "slow-output" in self.label.needs:
                self.process = self._spawn_into_pipe(argv, env, output)
            else:
                self.process = self._spawn(argv, self._groups, output, env=env)

    def companion(self, role: str) -> list[str]:
        """The arguments of Python that start one of the processes beside the job; it prints one line when it is ready."""
        return [os.path.join(HERE, "companions.py"), role, self.folder]

    def _spawn_into_pipe(self, argv: list[str], env: dict[str, str], output) -> subprocess.Popen[bytes]:
        """Starts the job with its output in a pipe, as in `train | collector`: the reader is slow, and no child of it."""
        reads, writes = os.pipe()
        try:
            companion = [sys.executable, os.path.join(HERE, "companions.py"), "log-collector"]
            collector = self._spawn(companion, [], output, stdin=reads)
            self._companions.append(collector)
            return self._spawn([*argv, "--given", f"log-collector.pid={collector.pid}"], self._groups, writes, env=env)
        finally:
            os.close(reads)
            os.close(writes)

    def _meet(self, need: str) -> list[limits.Group]:
        what, _, value = need.partition("=")
        if what == "real-disk":
            limits.disk_of(self.data)
            # Made outside of the limits that follow.
            subprocess.run([sys.executable, os.path.join(HERE, "dataset_files.py"), self.data], check=True)
            return []
        if what == "cpu-quota":
            return [limits.cpu_quota(float(value))]
        if what == "read-limit":
            return [limits.read_limit(int(value), self.data)]
        if what == "memory-limit":
            return [limits.memory_limit(int(value))]
        if what == "slow-output":
            return []
        if what == "package":
            if importlib.util.find_spec(value) is None:
                raise Unavailable(f"{value} not found; pip install -r tests/requirements-frameworks.txt")
            return []
        if what == "compiler":
            if not (shutil.which("g++") or shutil.which("c++")):
                raise Unavailable("no C++ compiler found; install g++")
            return []
        if what == "cpus":
            if len(os.sched_getaffinity(0)) < int(value):
                raise Unavailable(f"needs {value} CPUs")
            return []
        raise ValueError(f"{self.label.name} needs {need!r}, which launch.py does not know")

    def job_command(self, command: list[str]) -> list[str]:
        """The whole command that starts the job, of Python's arguments."""
        return [sys.executable, *command]

    def job_environment(self) -> dict[str, str]:
        return {**os.environ, "TRAINMON_SIMULATED_CUDA": simulated_cuda() or "", **self.label.env}

    def _spawn(
        self, argv: list[str], groups: list[limits.Group], output, stdin=subprocess.DEVNULL, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent(parent)
            for group in groups:
                group.join()

        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.DEVNULL if output == subprocess.PIPE else subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
            env=env or Launched.job_environment(self),
            cwd=HERE,
        )

    @property
    def truth_path(self) -> str:
        return os.path.join(self.folder, "truth.jsonl")

    @property
    def _output_path(self) -> str:
        return os.path.join(self.folder, "output.txt")

    def truth(self) -> Truth:
        """What the workload has written so far."""
        return Truth.read(self.truth_path)

    def whole_truth_until(self, moment: float, steps: bool = True) -> Truth:
        """The truth once it reaches `moment`, with each process's stages. `steps`: whether the loop still steps."""
        truth = self.truth_until(moment) if steps else self.truth()
        truth.read_stages(self.truth_path)
        return truth

    def cpu_used(self) -> dict[int, float]:
        """CPU seconds of the whole machine (key 0) and of each process of the job."""
        family = [self.pid, *descendants(self.pid)]
        return {0: host_cpu_seconds(), **{pid: cpu_seconds(pid) or 0.0 for pid in family}}

    def output(self) -> str:
        """The last lines of what the workload printed."""
        with open(self._output_path, "rb") as file:
            return "\n".join(file.read().decode(errors="replace").splitlines()[-12:])

    def wait_until_watchable(self, steps: int = 5, timeout: float = 90.0) -> None:
        """Waits until the loop steps, or until the moment that the label names."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                raise WorkloadFailed(f"{self.label.name} ended with {self.process.returncode}:\n{self.output()}")
            truth = self.truth()
            if (
                self.label.start == "started"
                or (self.label.start == "ready" and "ready" in truth.events)
                or (self.label.start == "stepping" and len(truth.steps) >= steps)
            ):
                if not any([group.impose() for group in self._groups]):
                    return
                # What was ready before the limit is used up first.
                steps += len(truth.steps)
            time.sleep(0.1)
        raise WorkloadFailed(f"{self.label.name} is not stepping after {timeout:.0f} s:\n{self.output()}")

    def truth_until(self, moment: float, patience: float = 6.0) -> Truth:
        """The truth once it reaches `moment`, or what there is of it after `patience` seconds."""
        until = time.monotonic() + patience
        while True:
            truth = self.truth()
            if (truth.steps and truth.steps[-1].done >= moment) or time.monotonic() >= until:
                return truth
            time.sleep(0.1)

    def __exit__(self, *_error) -> None:
        for process in [self.process, *self._companions]:
            if process is not None:
                end_group(process)
        for group in self._groups:
            group.remove()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def simulated_cuda() -> str | None:
    """The device's native calls: the library that the environment names, or that of a release build of the repository."""
    built = os.path.join(os.path.dirname(os.path.dirname(HERE)), "target/release/examples/libsimulated_cuda.so")
    library = os.environ.get("TRAINMON_SIMULATED_CUDA", built)
    return library if os.path.exists(library) else None


def remove_stale(data: str) -> None:
    """Removes folders of runs that were killed before they could clean up."""
    for name in os.listdir(data):
        part = name.split("-")
        if part[0] == "run" and len(part) == 3 and not os.path.exists(f"/proc/{part[1]}"):
            shutil.rmtree(os.path.join(data, name), ignore_errors=True)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a session, and all of the session; returns when they are gone."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    # What it was just starting when it died may turn up late, so look again.
    for turn in range(100):
        left = members_of_session(process.pid)
        if not left:
            return
        for pid in left:
            if turn < TRACKER_TURNS and is_resource_tracker(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.03)


def is_resource_tracker(pid: int) -> bool:
    """Python's helper that removes named semaphores when all who use them are gone, and then ends by itself."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False


def members_of_session(session: int) -> list[int]:
    """Living processes of a session: all that a workload started, in whichever process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session and not is_zombie(int(name)):
                    found.append(int(name))
            except (ProcessLookupError, PermissionError):
                pass
    return found


def is_zombie(pid: int) -> bool:
    """Whether the process has ended, though nobody has waited for it yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
        except OSError:
            pass
    return found


def host_cpu_seconds() -> float:
    """CPU time that all processes of this machine have used (user, nice, system)."""
    with open("/proc/stat", "rb") as file:
        fields = file.readline().split()
    return sum(map(int, fields[1:4])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, children: bool = False) -> float | None:
    """User and system time of a process; with `children`, that of all it started that ended and was waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11 : 15 if children else 13])) / os.sysconf("SC_CLK_TCK")


__all__ = ["Launched", "Unavailable", "WorkloadFailed", "cpu_seconds", "descendants", "die_with_parent"]
