"""Starts a workload with everything around it, and takes all of it away again, however the run ends.

`with Launched(label, …) as job:` makes a temporary folder, the simulated device's file, the control groups and the
companions that the label asks for, and starts `train.py` in a process group of its own that dies with its parent.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import IO

from workloads import dataset_files, limits, simulated_gpu
from workloads.labels import Label
from workloads.limits import Unavailable
from workloads.processes import cpu_seconds, descendants, die_with_parent, end_group, host_cpu_seconds
from workloads.truth import Truth

HERE = os.path.dirname(os.path.abspath(__file__))


class WorkloadFailed(Exception):
    """The workload ended, or did not start stepping in time; the message holds the end of its output."""


class Stretch:
    """A span of time from construction to `end`, with the CPU that the job and everything else used in it."""

    def __init__(self, pid: int):
        self._pid = pid
        self.begin, self._before = time.monotonic(), self._used()
        self.ended = self.begin
        #: Cores used by each of the job's processes that lived through the whole span.
        self.cores: dict[int, float] = {}
        #: Cores used by processes outside the job.
        self.others = 0.0

    def _used(self) -> dict[int, float]:
        """CPU seconds of the whole machine (key 0) and of each process of the job."""
        family = [self._pid, *descendants(self._pid)]
        return {0: host_cpu_seconds(), **{pid: cpu_seconds(pid) or 0.0 for pid in family}}

    def end(self) -> None:
        self.ended, after = time.monotonic(), self._used()
        seconds = self.ended - self.begin
        self.cores = {pid: (now - self._before[pid]) / seconds for pid, now in after.items() if pid in self._before}
        self.others = self.cores.pop(0) - sum(self.cores.values())


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

    def _spawn_into_pipe(self, argv: list[str], env: dict[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
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
        self, argv: list[str], groups: list[limits.Group], output: IO[bytes] | int, stdin: int = subprocess.DEVNULL,
        env: dict[str, str] | None = None,
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

    def stretch(self) -> Stretch:
        """Starts measuring a span of this run."""
        return Stretch(self.pid)

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

    def __exit__(self, *_error: object) -> None:
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
