"""What counting a job's calls from outside costs the job, and whether anything of it stays behind.

    sudo python measure probes cost --rate 100000   minutes with `trainmon profile --probe`, without, and alone
    sudo python measure probes kill                 kill -9 at any moment of it, 50 times

The job is tests/support/calls_cuda.c, which launches at a given rate and counts its own calls. Its speed is how often it does the
same work in a second in which it has a CPU.
"""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import options
from measure.paths import ROOT, TRAINMON

NAME = "measure probes"
SOURCES = Path(ROOT, "tests/support")


def build(folder: Path) -> Path:
    """The job, beside the libraries that stand in for CUDA's."""
    here = ["-Wl,-rpath,$ORIGIN", "-L", str(folder)]
    library, job = str(SOURCES / "counted_cuda.c"), str(SOURCES / "calls_cuda.c")
    shared = ["cc", "-O2", "-shared", "-fPIC", library]
    subprocess.run([*shared, "-DDRIVER", "-o", str(folder / "libcuda.so.1")], check=True)
    subprocess.run([*shared, *here, "-l:libcuda.so.1", "-o", str(folder / "libcudart.so.12")], check=True)
    both = ["-l:libcudart.so.12", "-l:libcuda.so.1", "-lpthread"]
    subprocess.run(["cc", "-O2", job, *here, *both, "-o", str(folder / "job")], check=True)
    return folder / "job"


class Job:
    """A running job that takes commands."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[int]:
        """Work done, and since the start: launches, copies, allocations, waits, nanoseconds in waits, nanoseconds on a CPU."""
        assert self.process.stdout
        return [int(word) for word in self.process.stdout.readline().split()]

    def code(self, call: str) -> bytes:
        """The first bytes of a function, as they are in its memory."""
        for line in Path(f"/proc/{self.process.pid}/maps").read_text().splitlines():
            addresses, rights, offset, *_, path = line.split()
            if "x" in rights and path.endswith("libcudart.so.12"):
                symbols = subprocess.run(["nm", "-D", path], check=True, stdout=subprocess.PIPE, text=True).stdout
                address = next(int(row.split()[0], 16) for row in symbols.splitlines() if row.endswith(f" {call}"))
                with open(f"/proc/{self.process.pid}/mem", "rb") as memory:
                    memory.seek(int(addresses.split("-")[0], 16) - int(offset, 16) + address)
                    return memory.read(4)
        raise RuntimeError("the library is not mapped")


def cost(trainmon: str, job: Job, rate: int, seconds: int, pairs: int) -> bool:
    speeds: dict[str, list[float]] = {"alone": [], "watched": [], "probed": []}
    pid, ran = ["--pid", str(job.process.pid)], None
    words = {
        "watched": [trainmon, "diagnose", *pid, "--duration", f"{seconds - 1}s"],
        "probed": [trainmon, "profile", *pid, "--probe", "--for", f"{seconds - 1}s", "--json"],
    }
    job.ask(f"rate {rate} 1 0")
    job.answer()
    for _ in range(pairs):
        for how in random.sample(list(speeds), 3):
            job.ask("calls 0 0 0 0 0")
            before = job.answer()[6]
            job.ask(f"rate {rate} {seconds} 0")
            if how in words:
                ran = subprocess.run(words[how], check=True, stdout=subprocess.PIPE, text=True)
            answer = job.answer()
            speeds[how].append(answer[0] / (answer[6] - before))
            if how == "probed" and ran:
                calls = json.loads(ran.stdout)["profile"]["calls"]
                seen = " ".join(f"{row['call']} {row['calls_per_s']:.0f}" for row in calls["rows"])
                print(
                    f"{answer[0] / seconds:.0f} calls a second, counted {seen} in {calls['windows']} windows, "
                    f"{calls['counted_ms']:.0f} ms, {calls['hits']} hits: {100 * calls['cost']:.2f}% at most",
                    flush=True,
                )
    keeps = {
        against: statistics.median(probed / other for probed, other in zip(speeds["probed"], speeds[against], strict=True))
        for against in ("alone", "watched")
    }
    print(
        f"{rate} calls a second, {pairs} runs of {seconds} s: keeps {100 * keeps['alone']:.2f}% of its speed alone, and "
        f"{100 * keeps['watched']:.2f}% of that while trainmon watches it without probes (medians)"
    )
    return keeps["alone"] >= 0.995


def kill(trainmon: str, job: Job, times: int) -> bool:
    calls = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"]
    before = [job.code(call) for call in calls]
    clean = 0
    for _ in range(times):
        job.ask("rate 20000 0.5 1000")
        words = [trainmon, "profile", "--pid", str(job.process.pid), "--probe"]
        running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.0, 0.5))
        probed = [job.code(call) for call in calls] != before
        running.send_signal(signal.SIGKILL)
        running.wait()
        job.answer()
        deadline = time.monotonic() + 2
        while [job.code(call) for call in calls] != before and time.monotonic() < deadline:
            time.sleep(0.01)
        clean += [job.code(call) for call in calls] == before and job.process.poll() is None
        print("probed" if probed else "not probed", end=" ", flush=True)
    print(f"\nkilled {times} times: {clean} times no breakpoint is left and the job goes on")
    return clean == times


def main(arguments: list[str] | None = None) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("what", choices=["cost", "kill"])
    parser.add_argument("--rate", type=int, default=100_000, help="launches a second")
    parser.add_argument("--seconds", type=int, default=60, help="length of a run")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(build(Path(folder)))
        try:
            measures_cost = args.what == "cost"
            good = cost(args.trainmon, job, args.rate, args.seconds, args.pairs) if measures_cost else kill(args.trainmon, job, args.times)
        finally:
            job.process.kill()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
