"""Compares trainmon with other monitors: what does each cost, and how much does it slow the job down?

    cargo build --profile dist --bins --examples
    python measure peers --trainmon target/dist/trainmon       45 s each, next to 300 and 3,000 processes: 20 minutes
    python measure peers --processes 300 --seconds 115         long enough to include the cost of a stable verdict

Every program runs alone, in a terminal of 120×40, once a second, next to the same job: one training loop with eight workers,
among idle processes. Between the programs the job runs alone, to compare its steps per second. If a monitor is not installed,
the output names the command that installs it. Without a GPU, all of them use the fake NVML library.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from measure import options
from measure.evaluation import cost
from measure.monitor import Monitor
from measure.numbers import median
from measure.terminal import Terminal
from measure.text import markdown, printable, show
from workloads.launch import Launched

NAME = "measure peers"
#: Crowds, by number of processes.
CROWDS = {300: "crowd", 3000: "big-crowd"}
#: The job alone, before and after each program, seconds.
ALONE_S = 5.0
#: The programs that trainmon replaces together: one each for processes, disks, GPUs and stacks.
REPLACED = ("htop", "iotop", "nvitop", "py-spy record")
#: Names of the NVML library that monitors look for.
LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")


@dataclass(frozen=True)
class Peer:
    """A monitor, and its arguments for one sample a second."""

    name: str
    #: Its arguments; `{pid}` is the training process, `{seconds}` the length of the run.
    arguments: tuple[str, ...]
    #: The command that installs it.
    install: str
    #: Whether it shows processes and reacts to keys.
    interactive: bool = True
    key: str = "q"
    #: Its configuration, as file and text under $XDG_CONFIG_HOME.
    config: tuple[str, str] | None = None


PEERS = (
    Peer("htop", ("htop", "-d", "10"), "apt-get install htop"),
    Peer("btop", ("btop",), "apt-get install btop", config=("btop/btop.conf", "update_ms = 1000\n")),
    Peer("bottom", ("btm", "--rate", "1s"), "cargo install bottom"),
    Peer("iotop", ("iotop", "-d", "1"), "apt-get install iotop-c"),
    Peer("nvtop", ("nvtop", "-d", "10"), "apt-get install nvtop (of Debian: from contrib)"),
    Peer("nvitop", ("nvitop", "--monitor", "--interval", "1"), "pip install nvitop"),
    Peer("gpustat", ("gpustat", "--interval", "1"), "pip install gpustat", interactive=False, key="\x03"),
    Peer(
        "py-spy record",
        (
            *("py-spy", "record", "--nonblocking", "--rate", "100", "--format", "raw", "--output", "/dev/null"),
            *("--duration", "{seconds}", "--pid", "{pid}"),
        ),
        "pip install py-spy",
        interactive=False,
        key="\x03",
    ),
)


@dataclass
class Row:
    """One program, next to one crowd of idle processes."""

    name: str
    processes: int
    interactive: bool
    costs: list[cost.Cost] = field(default_factory=list)
    #: Steps per second with it, divided by those of the job alone before and after.
    steps: list[float] = field(default_factory=list)
    why_not: str = ""

    def median(self, of: str) -> float | None:
        return median(getattr(one, of) for one in self.costs)


def measure(monitor: Monitor, seconds: float, runs: int, crowds: list[int], data: str | None) -> list[Row]:
    """Measures every program with every crowd."""
    rows = []
    for count in crowds:
        label = cost.crowded(CROWDS[count])
        of_count = [Row(name, count, interactive) for name, interactive in _names()]
        limit = (seconds + ALONE_S + 10) * len(of_count) * runs + 240
        with Launched(label, limit, data) as job, tempfile.TemporaryDirectory() as place:
            job.wait_until_watchable()
            time.sleep(2.0)
            windows: list[tuple[Row, tuple[float, float]]] = []
            alone = [_alone()]
            for _ in range(runs):
                for row in of_count:
                    began = time.monotonic()
                    _run(row, monitor, job, seconds, place)
                    if row.why_not:
                        continue
                    windows.append((row, (began, time.monotonic())))
                    alone.append(_alone())
            truth = job.truth_until(time.monotonic())
            for at, (row, window) in enumerate(windows):
                before, after = (truth.steps_per_s(*one) for one in alone[at : at + 2])
                watched = truth.steps_per_s(*window)
                if watched and before and after:
                    row.steps.append(watched / statistics.mean((before, after)))
        rows += of_count
    return rows


def _names() -> list[tuple[str, bool]]:
    own = [("trainmon", True), ("trainmon --no-stacks", True), ("trainmon --log", False)]
    return own + [(peer.name, peer.interactive) for peer in PEERS]


def _alone() -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(ALONE_S)
    return began, time.monotonic()


def _run(row: Row, monitor: Monitor, job: Launched, seconds: float, place: str) -> None:
    """Runs one program once; notes it if it is not installed."""
    if row.name == "trainmon --log":
        row.costs.append(cost.headless(monitor, job, seconds, row.name))
        return
    peer = next((peer for peer in PEERS if peer.name == row.name), None)
    if peer is None:
        command = monitor.command("--pid", str(job.pid), *row.name.split()[1:])
        environment, key = monitor.environment(job.device), "q"
    else:
        program = shutil.which(peer.arguments[0])
        if program is None:
            row.why_not = f"{peer.arguments[0]} not found; {peer.install}"
            return
        given = {"pid": str(job.pid), "seconds": f"{seconds:.0f}"}
        command = [program, *(argument.format(**given) for argument in peer.arguments[1:])]
        environment, key = environment_of(peer, monitor, place, job.device), peer.key
    with Terminal(command, environment) as terminal:
        found = cost.in_terminal(row.name, terminal, seconds, key)
        if not row.interactive:
            # Its output is not a frame.
            found = dataclasses.replace(found, first_frame_ms=None)
        if found.seconds < 0.8 * seconds:
            row.why_not = f"it ended after {found.seconds:.1f} s: {' '.join(printable(terminal.tail()).split())[-100:]}"
            return
        row.costs.append(found)


def environment_of(peer: Peer, monitor: Monitor, place: str, device: str) -> dict[str, str]:
    """An empty home, so that no settings apply, and the fake NVML library if there is no GPU."""
    home = os.path.join(place, peer.name.replace(" ", "-"))
    os.makedirs(home, exist_ok=True)
    if peer.config is not None:
        path = os.path.join(home, peer.config[0])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(peer.config[1], encoding="utf-8")
    environment = {**monitor.environment(device), "HOME": home, "XDG_CONFIG_HOME": home, "LC_ALL": "C.UTF-8"}
    if monitor.nvml_lib:
        libraries = os.path.join(place, "libraries")
        os.makedirs(libraries, exist_ok=True)
        for name in LIBRARIES:
            link = os.path.join(libraries, name)
            if not os.path.lexists(link):
                os.symlink(monitor.nvml_lib, link)
        environment["LD_LIBRARY_PATH"] = libraries
    return environment


#: Field of a cost, width and digits of its column.
COLUMNS = (
    ("young_cpu_pct", 10, 2), ("steady_cpu_pct", 9, 2), ("settled_cpu_pct", 7, 2), ("peak_rss_mib", 9, 1), ("first_frame_ms", 10, 0),
    ("switches_per_s", 12, 0), ("bytes_per_s", 9, 0),
)  # fmt: skip


def report(rows: list[Row]) -> str:
    """Medians, and the cost of trainmon relative to the others."""
    head = f"{'program':22}{'processes':>10}{'CPU 15 s':>10}{'to 80 s':>9}{'later':>7}{'RSS MiB':>9}{'frame ms':>10}"
    lines = [head + f"{'switches/s':>12}{'bytes/s':>9}{'steps/s':>9}{'runs':>6}"]
    for row in rows:
        if row.why_not:
            lines.append(f"{row.name:22}{row.processes:10}  not measured: {row.why_not}")
            continue
        cells = "".join(f"{show(row.median(name), f'.{digits}f'):>{width}}" for name, width, digits in COLUMNS)
        steps = f"{show(median(row.steps), '.3f'):>9}"
        lines.append(f"{row.name:22}{row.processes:10}{cells}{steps}{len(row.costs):6}")
    lines.append("CPU in percent of one core with children: the first 15 s, from 20 s on, from 80 s on where the run is long enough;")
    lines.append("steps/s: of the job, over its own alone")
    for count in dict.fromkeys(row.processes for row in rows):
        lines += _ratios([row for row in rows if row.processes == count], count)
    return "\n".join(lines)


def _ratios(rows: list[Row], count: int) -> list[str]:
    def later(name: str) -> float | None:
        row = next(row for row in rows if row.name == name)
        return None if row.why_not else row.median("settled_cpu_pct") or row.median("steady_cpu_pct")

    own = later("trainmon")
    if not own:
        return []
    lines = []
    for row in rows:
        other = later(row.name)
        if row.interactive and other and not row.name.startswith("trainmon"):
            lines.append(f"{count} processes: trainmon takes {own / other:.2f} of what {row.name} takes")
    parts = [part for name in REPLACED if (part := later(name))]
    if len(parts) == len(REPLACED):
        lines.append(f"{count} processes: {own / sum(parts):.2f} of what {' + '.join(REPLACED)} take together")
    return lines


#: The columns of the Markdown table: program, crowd, those of `COLUMNS`, the job's steps, runs.
HEAD = (
    "program", "processes", "CPU 15 s", "to 80 s", "later", "RSS MiB", "frame ms", "switches/s", "bytes/s", "steps/s", "runs",
)  # fmt: skip


def as_markdown(rows: list[Row]) -> str:
    """The table of docs/measured.md: programs that were measured."""
    cells = (
        (
            *(row.name, row.processes),
            *(show(row.median(field), f".{digits}f") for field, _width, digits in COLUMNS),
            *(show(median(row.steps), ".3f"), len(row.costs)),
        )
        for row in rows
        if not row.why_not
    )
    return "\n".join(markdown(HEAD, cells))


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--markdown", action="store_true", help="print the table as docs/measured.md shows it")
    options.add_monitor(parser)
    parser.add_argument("--seconds", type=float, default=45.0, help="seconds per run (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each program (default: %(default)s)")
    parser.add_argument("--processes", default="300,3000", help="numbers of idle processes (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write every run to this file")
    args = parser.parse_args(words)
    crowds = [int(word) if word.isdigit() else 0 for word in args.processes.split(",")]
    if unknown := [count for count in crowds if count not in CROWDS]:
        parser.error(f"--processes: {unknown[0]} is not one of {', '.join(map(str, CROWDS))}")
    if args.seconds < 25 or args.runs < 1:
        parser.error("--seconds must be at least 25, and --runs at least 1")
    options.end_as_interrupted()
    try:
        rows = measure(Monitor.given(args), args.seconds, args.runs, crowds, args.data)
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:
        return options.failed(NAME, error)
    print(as_markdown(rows) if args.markdown else report(rows))
    if args.json:
        options.write_json(args.json, [dataclasses.asdict(row) for row in rows])
    return 0
