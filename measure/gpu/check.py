"""Compares trainmon with a real NVIDIA GPU: readings with nvidia-smi's, verdicts with programs of known truth.

    python measure gpu --out DIR                     everything: about eight minutes
    python measure gpu --out DIR --only loader-bound only these programs
    python measure gpu --out DIR --fake              without a GPU: fake NVML, fake nvidia-smi, simulated GPU

Runs on any machine with a GPU, without root and without network. It needs torch with CUDA, nvidia-smi (part of the driver), this
folder, a release build of trainmon, and py-spy. TRAINMON and PY_SPY, or --trainmon and --py-spy, say where the last two are.
It leaves report.md and report.json (tables, environment) in DIR, and anonymized recordings with the truth about each, in the form
of tests/recordings. The exit status is 0 if all readings agree and all verdicts are right, 1 if not, and 2 if nothing could be
checked.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from measure import options, paths
from measure.gpu import beside, cost, environment, readings
from measure.gpu.labelled import PROGRAMS, by_name
from measure.gpu.report import Report
from measure.gpu.smi import Smi, SmiFailed
from measure.monitor import Monitor, MonitorFailed
from measure.unpack import NoZstd, unpacked
from workloads import simulated_gpu
from workloads.launch import WorkloadFailed
from workloads.processes import ending

NAME = "measure gpu"

#: The whole check takes no longer: programs that have not begun by then are left out, and said to be. Seconds.
MOST_S = 570.0
#: What one program takes beside the time that it is watched: torch, CUDA and calibration, seconds.
START_S = 20.0


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder for tables and recordings")
    parser.add_argument("--trainmon", default=os.environ.get("TRAINMON", paths.TRAINMON), help="the program")
    parser.add_argument("--py-spy", default=os.environ.get("PY_SPY"), help="py-spy, if it is neither on PATH nor next to this Python")
    parser.add_argument("--nvidia-smi", default="nvidia-smi", help="nvidia-smi, if it is not on PATH")
    parser.add_argument("--nvml-lib", help="the NVML library (default: the driver's, or the fake one with --fake)")
    parser.add_argument("--only", help="names of programs, separated by commas")
    parser.add_argument("--duration", type=float, default=12.0, help="seconds to watch each program (default: %(default)s)")
    parser.add_argument("--readings-duration", type=float, default=12.0, metavar="SECONDS", help="seconds of each of the two phases")
    parser.add_argument("--fake", action="store_true", help="without a GPU: test the check itself")
    parser.add_argument("--force", action="store_true", help="replace DIR")
    return parser.parse_args(words)


def missing(args: argparse.Namespace) -> str | None:
    """What keeps the check from running, and how to fix it; None if it can run."""
    if not os.access(args.trainmon, os.X_OK):
        return f"{args.trainmon} not found; cargo build --release, or name it with --trainmon or TRAINMON"
    try:
        import torch
    except ImportError:
        return f"torch not found by {sys.executable}; pip install torch"
    try:
        unpacked(b"")
    except NoZstd as error:
        return str(error)
    except Exception:  # some of them raise when there is nothing to unpack
        pass
    if args.fake:
        if not os.path.exists(args.nvml_lib):
            return f"{args.nvml_lib} not found; cargo build --release --examples, or name it with --nvml-lib"
        return None
    if not torch.cuda.is_available():
        return "torch sees no CUDA device here; install torch with CUDA, or try the check out with --fake"
    if shutil.which(args.nvidia_smi) is None:
        return f"{args.nvidia_smi} not found; it comes with the driver: name it with --nvidia-smi"
    return None


class Check:
    """One run of the whole check. It notes failures and continues."""

    def __init__(self, args: argparse.Namespace, folder: str):
        self.args, self.simulated = args, args.fake
        self.began = time.monotonic()
        self.report = Report()
        self.py_spy: str | None = args.py_spy or paths.py_spy()
        given = ("--py-spy", os.path.abspath(self.py_spy)) if self.py_spy else ()
        library = os.path.abspath(args.nvml_lib) if args.nvml_lib else None
        self.monitor = Monitor(os.path.abspath(args.trainmon), library, given)
        #: The state file of the idle simulated device; nothing on a real one.
        self.device = os.path.join(folder, "device.bin") if self.simulated else ""
        if self.simulated:
            simulated_gpu.create(self.device)

    def smi(self, device: str) -> Smi:
        if not self.simulated:
            return Smi([self.args.nvidia_smi])
        stand_in = [sys.executable, os.path.join(paths.MEASURE, "gpu/fake_smi.py")]
        return Smi(stand_in, {**os.environ, "TRAINMON_SIMULATED_DEVICE": device})

    def read(self) -> None:
        """Compares readings with nvidia-smi's, idle and while a program computes, and times the calls meanwhile."""
        smi = self.smi(self.device)
        known = smi.choose([one.names for one in readings.READINGS if one.names] + [("index",)])
        self.report.environment = environment.found(self.args.trainmon, self.py_spy, smi.query(), self.simulated)
        seconds = self.args.readings_duration
        idle = beside.sleeper()
        with ending(idle):
            looks, samples = beside.looks_beside(self.monitor, smi, self.device, idle.pid, "idle", seconds)
        with beside.settled(by_name("compute-bound"), 2 * seconds, self.simulated) as job:
            device = job.device if self.simulated else ""
            working = self.smi(device)
            working.fields = smi.fields
            more_looks, more_samples = beside.looks_beside(self.monitor, working, device, job.pid, "working", seconds)
            try:
                library = self.args.nvml_lib or "libnvidia-ml.so.1"
                self.report.costs = cost.beside(library, self.monitor.environment(device))
            except RuntimeError as error:
                self.report.failures.append(str(error))
        self.report.readings = readings.all_rows(looks + more_looks, samples + more_samples, known)
        if not any(device.get("processes") for sampled in more_samples for device in sampled.devices):
            self.report.failures.append("trainmon saw no process on any device while a program computed there")

    def watch(self) -> None:
        """Runs the labeled programs one after the other."""
        labels = [by_name(name) for name in self.args.only.split(",")] if self.args.only else PROGRAMS
        for label in labels:
            if time.monotonic() - self.began + START_S + self.args.duration > MOST_S:
                row = beside.Watched(label.name, f"{label.klass}/{label.cause}", error="not run: ten minutes are over")
            else:
                row = beside.watch(label, self.monitor, self.args.duration, self.simulated, self.args.out)
            self.report.programs.append(row)
            print(f"{row.program:24} {row.said:32} {'right' if row.passed else 'NOT RIGHT: ' + row.why_not}", flush=True)

    def run(self) -> None:
        """Runs everything, and notes why a part could not run."""
        found = self.report
        if self.py_spy is None:
            found.failures.append("py-spy not found: verdicts without stacks; pip install py-spy, or name it with --py-spy")
        try:
            try:
                self.read()
            except (MonitorFailed, SmiFailed, WorkloadFailed, NoZstd) as error:
                found.failures.append(f"readings: {' '.join(str(error).split())[-200:]}")
            print(found.of_readings, flush=True)
            self.watch()
        except KeyboardInterrupt:
            found.failures.append("interrupted: the tables cover what was done so far")
        found.environment = found.environment or environment.found(self.args.trainmon, self.py_spy, [], self.simulated)
        Path(self.args.out, "report.md").write_text(found.markdown(), encoding="utf-8")
        options.write_json(os.path.join(self.args.out, "report.json"), found.as_json())


def failed(message: str) -> int:
    return options.failed(NAME, message, 2)


def main(words: list[str] | None = None) -> int:
    args = arguments(words)
    if args.fake and args.nvml_lib is None:
        args.nvml_lib = paths.FAKE_NVML
    why_not = missing(args)
    if why_not:
        return failed(why_not)
    if args.only:
        try:
            [by_name(name) for name in args.only.split(",")]
        except KeyError as error:
            return failed(str(error.args[0]))
    if os.path.exists(args.out) and os.listdir(args.out):
        if not args.force:
            return failed(f"{args.out} is there already; replace it with --force")
        recorded = [f"recordings/{label.name}.{kind}" for label in PROGRAMS for kind in ("tmz", "json")]
        for name in ("report.md", "report.json", *recorded):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(args.out, name))
    os.makedirs(args.out, exist_ok=True)
    options.end_as_interrupted()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(args, folder)
        check.run()
    for failure in check.report.failures:
        options.failed(NAME, failure)
    print(f"{check.report.sentence} {os.path.join(args.out, 'report.md')}")
    return 0 if check.report.passed else 1
