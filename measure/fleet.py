"""Checks that `trainmon fleet` names the late rank of a run over 64 machines and its cause, with a real Prometheus.

    python measure fleet                    twenty scenarios: about five minutes
    python measure fleet --scenarios 3      fewer of them
    python measure fleet --keep DIR         keeps what fleet printed

It needs `cargo build --release --bins --examples` and Debian's package `prometheus`. One process serves the metrics of 70 machines, made
of the recordings in tests/recordings in real time: 64 are the ranks of one run, four those of a second one, and two are idle. Where the
late rank is and what holds it back is random; some runs have no late rank, and in some an exporter goes down. Prometheus scrapes all of
them every second. The exit status is 1 if a rank or a cause is wrong, or if the first output takes longer than a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import options, paths
from measure.terminal import END_OF_FRAME, Terminal
from workloads.processes import die_with_parent

NAME = "measure fleet"
RECORDINGS = os.path.join(paths.TESTS, "recordings")
#: Window of the means, seconds, and how long Prometheus scrapes before it is asked.
WINDOW_S, SCRAPES_S = 10, 12.0
#: When an exporter goes down, seconds after the start.
DOWN_AFTER_S = 8.0
#: The table is there within so many seconds.
FIRST_S = 1.0
PATIENCE_S = 60.0
#: A rank that waits for others, and one that a GPU keeps busy.
WAITS = {"recording": "rank-straggler-loader", "keep": 0}
COMPUTES: dict[str, Any] = {"recording": "h100-compute-bound-blocking"}


@dataclass(frozen=True)
class Kind:
    """What the late rank replays, what the others do, and the verdict that is right."""

    name: str
    late: dict[str, Any] | None
    others: dict[str, Any]
    right: tuple[str, ...]


#: The first of each is what a quick run tries.
KINDS = (
    Kind("data loader", {"recording": "rank-straggler-loader", "keep": 1}, WAITS, ("data-loader/too-few-workers",)),
    Kind("storage over the network", {"recording": "network-storage"}, WAITS, ("io/network-storage",)),
    Kind("none", None, WAITS, ()),
    Kind("the loop's own work", {"recording": "main-thread"}, WAITS, ("cpu/main-thread",)),
    Kind("a GPU that is too hot", {**COMPUTES, "hot": True}, COMPUTES, ("gpu/throttled",)),
    Kind("a slow disk", {"recording": "disk-bandwidth"}, WAITS, ("io/disk-bandwidth",)),
    Kind("too little CPU time", {"recording": "cgroup-throttled"}, WAITS, ("cpu/cgroup-throttled",)),
    Kind("none: busy GPUs", None, COMPUTES, ("gpu/compute-bound",)),
)


@dataclass
class Scenario:
    """A run of so many ranks, one of which may be late."""

    kind: Kind
    ranks: int
    late: int | None
    down: int | None
    plan: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def planted(cls, at: int, seed: int, ranks: int) -> Scenario:
        chance = random.Random(f"{seed}/{at}")
        kind = KINDS[at % len(KINDS)]
        late = chance.randrange(ranks) if kind.late else None
        # Every third one loses an exporter, and not that of the late rank.
        down = chance.choice([rank for rank in range(ranks) if rank != late]) if at % 3 == 1 else None
        scenario = cls(kind, ranks, late, down)
        run = {"run": "large", "slurm": "4711", "world": ranks}
        for rank in range(ranks):
            does = kind.late if rank == late and kind.late else kind.others
            gone = {"down_after_s": DOWN_AFTER_S} if rank == down else {}
            scenario.plan.append({**does, **gone, **run, "rank": rank})
        small = {"recording": "h100-compute-bound", "run": "small", "slurm": "4712", "world": 4}
        scenario.plan += [{**small, "rank": rank} for rank in range(4)]
        scenario.plan += [{**small, "rank": 0, "idle": True} for _ in range(2)]
        return scenario

    def mistakes(self, fleet: dict[str, Any]) -> list[str]:
        """What is wrong about an answer, in words."""
        wrong: list[str] = []
        runs = {run["training_job"]: run for run in fleet["runs"]}
        if sorted(runs) != ["large", "small"]:
            return [f"the runs are {sorted(runs)}"]
        run = runs["large"]
        named = run["late"]["ranks"] if run["late"]["kind"] == "rank" else []
        if named != ([] if self.late is None else [self.late]):
            wrong.append(f"late: {run['late']} instead of {self.late}")
        cause = f"{run['class']}/{run['cause']}"
        if self.kind.right and cause not in self.kind.right:
            wrong.append(f"cause: {cause}")
        if runs["small"]["late"]["kind"] != "none":
            wrong.append(f"the small run has a late rank: {runs['small']['late']}")
        if len(run["ranks"]) != self.ranks:
            wrong.append(f"{len(run['ranks'])} ranks")
        down = [machine["machine"] for machine in fleet["down"]]
        if down != ([] if self.down is None else [machine(self.down)]):
            wrong.append(f"down: {down} instead of {self.down}")
        if fleet["totals"]["gpus"]["idle"] != 2:
            wrong.append(f"{fleet['totals']['gpus']['idle']} idle GPUs")
        return wrong


def machine(at: int) -> str:
    return f"node-{at:02}"


def free_port() -> int:
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return int(here.getsockname()[1])


@contextlib.contextmanager
def program(command: list[str], **given: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that ends with the block."""
    parent = os.getpid()
    started = subprocess.Popen(command, text=True, preexec_fn=lambda: die_with_parent(parent), **given)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for stream in (started.stdin, started.stdout):
            if stream is not None:
                stream.close()


@contextlib.contextmanager
def exporters(example: str, plan: list[dict[str, Any]]) -> Iterator[list[int]]:
    """The ports of the machines of a plan."""
    with program([example, RECORDINGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serves:
        assert serves.stdin is not None and serves.stdout is not None
        serves.stdin.write(json.dumps(plan) + "\n")
        serves.stdin.flush()
        line = serves.stdout.readline()
        if not line:
            raise RuntimeError("fleet_exporters ended")
        yield json.loads(line)


def server() -> str | None:
    """Prometheus, from this Python's environment or from PATH."""
    return shutil.which("prometheus", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))


@contextlib.contextmanager
def prometheus(folder: Path, ports: list[int]) -> Iterator[str]:
    """The URL of a Prometheus that scrapes these ports every second."""
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": {"instance": f"{machine(at)}:9845"}} for at, port in enumerate(ports)]
    scrape = {"job_name": "trainmon", "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": targets}
    settings = folder / "prometheus.yml"
    # JSON is YAML.
    settings.write_text(json.dumps({"scrape_configs": [scrape]}))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        server() or "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--log.level=error",
    ]
    with program(command):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"{url}/-/ready").read()
                yield url
                return
            time.sleep(0.1)
        raise RuntimeError("Prometheus does not become ready")


def number(url: str, query: str) -> float:
    """The value of a query that gives one."""
    with urllib.request.urlopen(f"{url}/api/v1/query?query={urllib.request.quote(query)}") as answer:  # type: ignore[attr-defined]
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def asked(trainmon: str, url: str) -> tuple[float, dict[str, Any]]:
    """Seconds until everything was printed, and what it was."""
    began = time.monotonic()
    words = [trainmon, "fleet", "--prometheus", url, "--window", f"{WINDOW_S}s", "--json"]
    printed = subprocess.run(words, capture_output=True, text=True)
    took = time.monotonic() - began
    if printed.returncode != 0:
        raise RuntimeError(f"trainmon fleet: {printed.stderr.strip()}")
    return took, json.loads(printed.stdout)


def first_screen(trainmon: str, url: str) -> float:
    """Seconds until the table is on the screen."""
    command = [trainmon, "fleet", "--prometheus", url, "--window", f"{WINDOW_S}s"]
    seen = b""
    with Terminal(command, dict(os.environ)) as terminal:
        until = terminal.began + PATIENCE_S
        while (piece := terminal.read(until)) is not None:
            seen += piece
            if b"node-" in seen and seen.rstrip().endswith(END_OF_FRAME):
                return time.monotonic() - terminal.began
    raise RuntimeError(f"no table within {PATIENCE_S:.0f} s")


def tried(scenario: Scenario, example: str, trainmon: str, keep: Path | None, at: int) -> tuple[list[str], float, float, float, float]:
    """What was wrong, and the seconds until the output and the screen; samples per scrape, and milliseconds of one."""
    with tempfile.TemporaryDirectory() as folder, exporters(example, scenario.plan) as ports, prometheus(Path(folder), ports) as url:
        time.sleep(SCRAPES_S)
        took, fleet = asked(trainmon, url)
        screen = first_screen(trainmon, url)
        samples = number(url, "avg(scrape_samples_scraped)")
        scrape_ms = 1e3 * number(url, "avg(scrape_duration_seconds)")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        options.write_json(str(keep / f"{at:02}.json"), fleet)
    return scenario.mistakes(fleet), took, screen, samples, scrape_ms


def row(what: str, values: list[float], unit: str) -> str:
    return f"| {what} | {statistics.median(values):.2f}{unit} | {max(values):.2f}{unit} |"


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("--scenarios", type=int, default=20, metavar="N", help="how many (default: 20)")
    parser.add_argument("--ranks", type=int, default=64, metavar="N", help="ranks of the large run (default: 64)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="where the late ranks are (default: 1)")
    parser.add_argument("--builds", default=paths.RELEASE, metavar="DIR", help="where trainmon and the examples are built")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what fleet printed")
    args = parser.parse_args(words)
    if server() is None:
        return options.failed(NAME, "prometheus is missing; install it: sudo apt-get install prometheus")
    trainmon, example = (os.path.join(args.builds, name) for name in ("trainmon", "examples/fleet_exporters"))
    if not os.path.exists(example):
        return options.failed(NAME, f"{example} is missing: cargo build --release --bins --examples")
    print("| scenario | late rank | exporter down | right |\n|---|---|---|---|", flush=True)
    right = 0
    outputs: list[float] = []
    screens: list[float] = []
    for at in range(args.scenarios):
        scenario = Scenario.planted(at, args.seed, args.ranks)
        try:
            wrong, took, screen, samples, scrape_ms = tried(scenario, example, trainmon, args.keep, at)
        except (OSError, RuntimeError) as error:
            return options.failed(NAME, error)
        right += not wrong
        outputs.append(took)
        screens.append(screen)
        late, down = ("–" if rank is None else str(rank) for rank in (scenario.late, scenario.down))
        print(f"| {scenario.kind.name} | {late} | {down} | {'; '.join(wrong) or 'yes'} |", flush=True)
    print(f"\n{right} of {args.scenarios} are right. {samples:.0f} series of each machine, {scrape_ms:.1f} ms for a scrape.\n")
    print("| time until | median | longest |\n|---|---:|---:|")
    print(row("`--json` is printed", outputs, " s"))
    print(row("the table is on the screen", screens, " s"))
    return 0 if right == args.scenarios and max(outputs + screens) <= FIRST_S else 1
