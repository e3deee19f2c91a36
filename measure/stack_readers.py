"""Whether stacks are read under other versions of Python, by py-spy and by the reader that Python 3.15 has itself, and what that costs.

    sudo debootstrap --variant=minbase --include=python3.13,python3.14,python3.15 forky /srv/forky
    cargo build --release --bins --examples
    sudo python measure stacks --root /srv/forky

Every /usr/bin/python3.N of that Debian runs two jobs with a planted bottleneck in a chroot, and one with 100 threads. trainmon and
py-spy run in there, too. It needs a machine that does nothing else. An old debootstrap first wants to be told of the suite:
sudo ln -s sid /usr/share/debootstrap/scripts/forky
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import options
from measure.paths import ROOT, TESTS, py_spy

NAME = "measure stacks"
#: Where the programs are, in the root.
PLACE = "/srv/trainmon"
#: Each job's planted bottleneck, with the cause and the function that a verdict must name.
PLANTED = {"python": ("main-thread", "compute_metrics"), "child": ("waits-for-process", "tokenize")}
#: The first minor version with a reader of its own that is used.
OWN_READER = 15
#: Seconds that a job runs before it is looked at, and for how long.
BEGIN_S, LOOK_S = 3, 20
#: A program with many threads, each deep in calls: what py-spy takes long for.
MANY = """
import threading, time
def deep(n):
    if n: return deep(n - 1)
    time.sleep(1e6)
for _ in range(100): threading.Thread(target=deep, args=(30,), daemon=True).start()
while True: sum(range(1000))
"""


@dataclass(frozen=True)
class Root:
    """A Debian in a folder, with what is tried in it."""

    folder: Path

    def inside(self, *words: str, **environment: str) -> list[str]:
        settings = [f"{name}={value}" for name, value in {"LC_ALL": "C.UTF-8", **environment}.items()]
        return ["chroot", str(self.folder), "env", *settings, *words]

    def place(self) -> Path:
        return self.folder / PLACE.lstrip("/")

    def pythons(self) -> list[int]:
        """The minor versions that are installed there."""
        names = (re.fullmatch(r"python3\.(\d+)", path.name) for path in (self.folder / "usr/bin").glob("python3.*"))
        return sorted(int(name[1]) for name in names if name)

    @contextlib.contextmanager
    def prepared(self, args: argparse.Namespace) -> Iterator[None]:
        """With the programs, /proc and /dev; they are removed again."""
        place = self.place()
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        found = {"trainmon": args.trainmon, "libfake_nvml.so": args.nvml_lib, "tools/py-spy": py_spy()}
        for name, path in found.items():
            if not path or not Path(path).exists():
                raise RuntimeError(f"{path or name} not found; see --help")
            # Beside trainmon, py-spy would be found without being named.
            (place / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, place / name)
        shutil.copy(Path(ROOT, "measure/vm/jobs/train.py"), place)
        shutil.copytree(Path(TESTS, "workloads"), place / "workloads")
        mounted = [self.folder / name for name in ("proc", "dev")]
        for point in mounted:
            subprocess.run(["mount", "--rbind", f"/{point.name}", str(point)], check=True)
            subprocess.run(["mount", "--make-rslave", str(point)], check=True)
        try:
            yield
        finally:
            for point in mounted:
                subprocess.run(["umount", "--recursive", "--lazy", str(point)], check=True)
            shutil.rmtree(place, ignore_errors=True)

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[int]:
        """A program that runs in there: its PID."""
        none = subprocess.DEVNULL
        command = self.inside(*words, PYTHONPATH=PLACE)
        job = subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)
        try:
            time.sleep(BEGIN_S)
            yield job.pid
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def diagnosed(self, pid: int, by_py_spy: bool) -> dict[str, Any]:
        """The verdict on a process, with py-spy or without."""
        words = ["diagnose", "--json", "--pid", str(pid), "--duration", f"{LOOK_S}s"]
        words += ["--py-spy", f"{PLACE}/tools/py-spy"] if by_py_spy else []
        command = self.inside(f"{PLACE}/trainmon", *words, "--nvml-lib", f"{PLACE}/libfake_nvml.so", TRAINMON_SIMULATED_DEVICE=f"{PLACE}/device")
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * LOOK_S, check=False)
        if done.returncode:
            raise RuntimeError(f"trainmon failed: {done.stderr.strip()}")
        verdict: dict[str, Any] = json.loads(done.stdout)
        return verdict


def readers(minor: int) -> list[bool]:
    """Whether py-spy takes the stacks, for each way to take them."""
    return [True, False] if minor >= OWN_READER else [True]


def title(minor: int, by_py_spy: bool) -> str:
    return f"3.{minor:<4} {'py-spy' if by_py_spy else 'its own':<9}"


def planted(root: Root, minor: int, kind: str, by_py_spy: bool) -> bool:
    """One job: whether the verdict names what was planted."""
    cause, function = PLANTED[kind]
    job = [f"python3.{minor}", f"{PLACE}/train.py", kind, "--truth", f"{PLACE}/truth", "--device", f"{PLACE}/device"]
    with root.running(*job, "--seconds", "600") as pid:
        verdict = root.diagnosed(pid, by_py_spy)
    named = [culprit["name"] for culprit in verdict["culprits"]]
    right = verdict["cause"] == cause and any(function in name for name in named)
    seen = verdict["seen"].get("stacks")
    words = f"{verdict['cause']} {verdict['confidence']:.2f}, names {named[-1] if named else 'nothing'}"
    print(f"{title(minor, by_py_spy)} {kind:<9} {'right' if right else 'WRONG':<7} stacks {seen}: {words}", flush=True)
    return right


def cost(root: Root, minor: int, by_py_spy: bool) -> None:
    """What trainmon and the reader use of a CPU beside a program with many threads."""
    with root.running(f"python3.{minor}", "-c", MANY) as pid:
        verdict = root.diagnosed(pid, by_py_spy)
    told = [missing["why"] for missing in verdict["not_seen"] if missing["what"] == "stacks"]
    print(f"{title(minor, by_py_spy)} 100 threads: {verdict['self']['cpu_pct']:.1f}% of a CPU. {' '.join(told)}", flush=True)


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--root", type=Path, required=True, help="folder with a Debian")
    options.add_monitor(parser)
    args = parser.parse_args(words)
    options.end_as_interrupted()
    root = Root(args.root.resolve())
    if not root.pythons():
        return options.failed(NAME, f"no /usr/bin/python3.N in {args.root}; see --help")
    try:
        with root.prepared(args):
            all_right = True
            for minor in root.pythons():
                for by_py_spy in readers(minor):
                    right = [planted(root, minor, kind, by_py_spy) for kind in PLANTED]
                    all_right = all_right and all(right)
                    cost(root, minor, by_py_spy)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return options.failed(NAME, error)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
