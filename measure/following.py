"""Measures what it costs to follow jobs for days: `trainmon export` and `trainmon watch`.

    python measure following scrape     how long a scrape takes: 16 GPUs and 64 workers
    python measure following cost       CPU and memory beside those of the log, in pairs
    python measure following soak       memory and descriptors over as many intervals as 24 hours have, at forty-fold speed

It needs `cargo build --release --bins --examples`. The soak takes 36 minutes unless --minutes says otherwise, and
follows whatever trains on the machine: `sudo unshare --pid --fork --mount-proc` before it hides the rest. The exit status is 1 if a
figure is above its limit.
"""

from __future__ import annotations

import http.client
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import options
from measure.evaluation.cost import Cost, crowded, headless, to_its_end
from measure.monitor import Monitor
from workloads import simulated_gpu
from workloads.launch import Launched
from workloads.processes import die_with_parent, ending

NAME = "measure following"
GPUS, WORKERS = 16, 64
#: A scrape takes at most so long at the 99th percentile, milliseconds.
MOST_MS = 5.0
#: Median ratio to the log that counts as no more: two runs of the same program differ by as much.
SAME = 1.1
#: Prometheus scrapes every 15 s. A soak is so many times as fast.
SCRAPE_S, SPEED = 15.0, 40.0
#: Growth of memory from the first third of a soak to the last that counts as none, MiB, and of descriptors.
FLAT_MIB, FLAT_DESCRIPTORS = 1.0, 2
#: In a soak, jobs end and new ones begin this often, seconds.
RENEWED_S = 60.0

#: A training process with workers that have torch's name for them, a little work each, and GPUs held open by nobody.
CROWD = """
import os, sys, time
def work(name):
    if name:
        open("/proc/self/comm", "w").write(name)
    parent = os.getppid()
    while os.getppid() == parent:
        sum(range(2000))
        time.sleep(0.05)
children = int(sys.argv[1])
for number in range(children):
    if os.fork() == 0:
        work("pt_data_worker")
        os._exit(0)
work(None)
"""


class Scraper:
    """Asks an exporter, as Prometheus does: one connection for each scrape."""

    def __init__(self, port: int):
        self.port = port

    def scrape(self) -> tuple[float, bytes]:
        """Milliseconds from connecting to the last byte, and the text."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the exporter answered {answer.status}")
        return 1000 * (time.monotonic() - began), text


def exporter(monitor: Monitor, device: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Scraper]:
    """Starts an exporter at a free port."""
    process = monitor.start(device, "export", "--listen", "127.0.0.1:0", *arguments, stderr=subprocess.PIPE)
    assert process.stderr
    line = process.stderr.readline().decode()
    if "://" not in line:
        raise RuntimeError(f"export: {line.strip()}")
    return process, Scraper(int(line.split("://")[1].split("/")[0].rsplit(":", 1)[1]))


def crowd(workers: int) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    return subprocess.Popen(
        [sys.executable, "-c", CROWD, str(workers)], start_new_session=True, preexec_fn=lambda: die_with_parent(parent)
    )


def scrape(monitor: Monitor, count: int) -> bool:
    """Prints how long scrapes take; whether it is short enough."""
    with tempfile.TemporaryDirectory() as folder:
        device = os.path.join(folder, "device.bin")
        simulated_gpu.create(device, devices=GPUS)
        job = crowd(WORKERS)
        with ending(job):
            # Named by the user, all of these GPUs count as the job's.
            gpus = ",".join(map(str, range(GPUS)))
            process, scraper = exporter(monitor, device, "--pid", str(job.pid), "--gpu", gpus)
            with ending(process):
                time.sleep(15.0)
                times = []
                for _ in range(count):
                    took, text = scraper.scrape()
                    times.append(took)
                    # Not in step with the intervals: most scrapes get a text that is made for them.
                    time.sleep(0.037)
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    workers = sum(line.startswith("trainmon_worker_batches") or 'state="busy"' in line for line in lines)
    gpus_seen = sum(line.startswith("trainmon_gpu_utilization_ratio") for line in lines)
    times.sort()
    p99 = times[int(0.99 * (len(times) - 1))]
    print("| scrapes | GPUs | workers | series | KiB | median | p99 | longest |\n|---:|---:|---:|---:|---:|---:|---:|---:|")
    print(
        f"| {count} | {gpus_seen} | {workers} | {len(lines)} | {len(text) / 1024:.0f} | {statistics.median(times):.2f} ms"
        f" | {p99:.2f} ms | {times[-1]:.2f} ms |"
    )
    return p99 <= MOST_MS


def run(monitor: Monitor, job: Launched, seconds: float, mode: str) -> Cost:
    """One command beside the job; the exporter is scraped as Prometheus would."""
    arguments = ("--pid", str(job.pid), "--duration", f"{seconds:g}s")
    if mode == "log":
        return headless(monitor, job, seconds, mode)
    if mode == "watch":
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return to_its_end(monitor.start(job.device, "watch", *arguments, **quiet), seconds, mode)
    process, scraper = exporter(monitor, job.device, *arguments)
    due = time.monotonic()

    def scrape_when_due() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due += SCRAPE_S
            scraper.scrape()

    return to_its_end(process, seconds, mode, scrape_when_due)


FIGURES = (("CPU %", "cpu_pct"), ("settled CPU %", "settled_cpu_pct"), ("RSS MiB", "peak_rss_mib"))


def cost(monitor: Monitor, seconds: float, pairs: int, data: str | None) -> bool:
    """Prints what export and watch cost beside the log; whether that is no more."""
    modes = ("log", "export", "watch")
    found: dict[str, list[Cost]] = {mode: [] for mode in modes}
    with Launched(crowded(), len(modes) * pairs * (seconds + 10) + 180, data) as job:
        job.wait_until_watchable()
        time.sleep(2.0)
        for number in range(pairs):
            for mode in modes if number % 2 else modes[::-1]:
                found[mode].append(run(monitor, job, seconds, mode))
                print(f"pair {number + 1}, {mode}: measured", file=sys.stderr, flush=True)
    good = True
    print("| | log | export | ratio | watch | ratio |\n|---|---:|---:|---:|---:|---:|")
    for name, field in FIGURES:
        values = {mode: [getattr(one, field) for one in found[mode] if getattr(one, field)] for mode in modes}
        if not all(values.values()):
            continue
        cells = [f"{statistics.median(values['log']):.2f}"]
        for mode in modes[1:]:
            ratio = statistics.median([ours / log for ours, log in zip(values[mode], values["log"], strict=True)])
            good &= field != "cpu_pct" or ratio <= SAME
            cells += [f"{statistics.median(values[mode]):.2f}", f"{ratio:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    return good


def resources(pid: int) -> tuple[float, int]:
    """Resident memory in MiB, and open descriptors."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), len(os.listdir(f"/proc/{pid}/fd"))


def soak(monitor: Monitor, minutes: float) -> bool:
    """Prints memory and descriptors of export and watch over time; whether both stay flat."""
    with tempfile.TemporaryDirectory() as folder:
        device = os.path.join(folder, "device.bin")
        simulated_gpu.create(device, devices=1)
        # At ten intervals a second each, four jobs have as many in 36 minutes as one has in 24 hours at one a second.
        jobs = [crowd(4) for _ in range(4)]
        export, scraper = exporter(monitor, device, "-i", "100ms")
        watch = monitor.start(device, "watch", "--all", "-i", "100ms", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen: dict[str, list[tuple[float, int]]] = {"export": [], "watch": []}
        began = renewed = time.monotonic()
        renewals = scrapes = 0
        print("| minute | export MiB | descriptors | watch MiB | descriptors |\n|---:|---:|---:|---:|---:|", flush=True)
        try:
            told = 0.0
            while (now := time.monotonic()) < began + 60 * minutes:
                if now >= renewed + RENEWED_S:
                    oldest = jobs.pop(0)
                    os.killpg(oldest.pid, signal.SIGKILL)
                    oldest.wait()
                    jobs.append(crowd(4))
                    renewed, renewals = now, renewals + 1
                scraper.scrape()
                scrapes += 1
                for name, process in (("export", export), ("watch", watch)):
                    if process.poll() is not None:
                        raise RuntimeError(f"{name} ended with status {process.returncode}")
                    seen[name].append(resources(process.pid))
                if now >= told + 60 * minutes / 12:
                    told = now
                    (mib, descriptors), (watch_mib, watch_descriptors) = seen["export"][-1], seen["watch"][-1]
                    print(
                        f"| {(now - began) / 60:.0f} | {mib:.1f} | {descriptors} | {watch_mib:.1f} | {watch_descriptors} |", flush=True
                    )
                time.sleep(SCRAPE_S / SPEED)
        finally:
            for process in (export, watch, *jobs):
                process.kill()
                process.wait()
    good = True
    for name, all_seen in seen.items():
        third = len(all_seen) // 3
        first, last = all_seen[third // 2 : third + third // 2], all_seen[-third:]
        grown = statistics.median([mib for mib, _ in last]) - statistics.median([mib for mib, _ in first])
        more = statistics.median([float(count) for _, count in last]) - statistics.median([float(count) for _, count in first])
        good &= grown <= FLAT_MIB and more <= FLAT_DESCRIPTORS
        print(f"{name}: {grown:+.2f} MiB and {more:+.0f} descriptors from the first third to the last")
    print(f"{minutes:.0f} minutes, four jobs at ten intervals a second, {renewals} jobs renewed, {scrapes} scrapes")
    return good


def main(words: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("what", choices=("scrape", "cost", "soak"))
    options.add_monitor(parser)
    parser.add_argument("--count", type=int, default=2000, help="scrapes (default 2000)")
    parser.add_argument("--duration", type=float, default=121.0, help="seconds of each run of `cost` (default 121)")
    parser.add_argument("--pairs", type=int, default=1, help="pairs of runs of `cost` (default 1)")
    parser.add_argument("--minutes", type=float, default=36.0, help="length of the soak (default 36)")
    args = parser.parse_args(words)
    options.end_as_interrupted()
    try:
        monitor = Monitor.given(args)
        if args.what == "scrape":
            return 0 if scrape(monitor, args.count) else 1
        if args.what == "cost":
            return 0 if cost(monitor, args.duration, args.pairs, args.data) else 1
        return 0 if soak(monitor, args.minutes) else 1
    except RuntimeError as error:
        return options.failed(NAME, error)


if __name__ == "__main__":
    sys.exit(main())
