"""Workloads of several ranks: two trainers under one process that exchange gradients with gloo at each step.

The watched process is the launcher (torchrun's agent, or the parent of torch.multiprocessing); the ranks are its
children, each with a simulated device of its own. The rank that holds the others up writes the truth. Gloo waits in
the host; where a rank is to look as under NCCL, `on_device` keeps its device busy at low power while it waits.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import sys
import time
from functools import partial
from typing import Any, Callable

# torchrun runs this file as a program.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from workloads import culprits, dataset_files, simulated_gpu
from workloads.common import Job, TruthWriter, burn, loader, one_thread
from workloads.labels import by_name
from workloads.processes import die_with_parent
from workloads.simulated_gpu import SimulatedGpu

RANKS = 2
#: The rank that is slow, where one is, unless $TRAINMON_LATE_RANK says which.
SLOW = 1
LATE = "TRAINMON_LATE_RANK"
#: A collective kernel keeps a device at 100 % utilisation and far from its power limit.
COMPUTING = {"power_busy_mw": 600_000, "sm_active_pct": 85}
COLLECTIVE = {"power_busy_mw": 130_000, "sm_active_pct": 6}


class ContinuedTruth(TruthWriter):
    """Goes on with a truth file whose header is there already; without a path, writes nothing."""

    def __init__(self, path: str | None, label: Any):
        super().__init__(None, label)
        self._file = open(path, "a", encoding="utf-8") if path else None
        self._lines.clear()


def end_with_rank(rank: int, _worker: int) -> None:
    """For loader workers: launchers give ranks sessions of their own, so that nobody else would end them."""
    die_with_parent(rank)


def feed(dataset: Any, workers: int = 1) -> Any:
    return loader(dataset, batch_size=4, num_workers=workers, worker_init_fn=partial(end_with_rank, os.getpid()))


def all_reduce(_gpu: SimulatedGpu, gradients: Any) -> None:
    """What gloo does: the main thread waits in the call, the device has nothing to do."""
    import torch.distributed as dist

    dist.all_reduce(gradients)


def on_device(gpu: SimulatedGpu, gradients: Any, look: float = 0.001) -> None:
    """What NCCL looks like: a kernel occupies the device, at low power, until all ranks have come."""
    import torch.distributed as dist

    work = dist.all_reduce(gradients, async_op=True)
    gpu.set(**COLLECTIVE)
    while not work.is_completed():
        gpu.launch(look)
        gpu.synchronize()
    # Where it has failed, this says so.
    work.wait()
    gpu.set(**COMPUTING)


def over_a_wire(gpu: SimulatedGpu, gradients: Any, seconds: float, look: float = 0.001) -> None:
    """The same, and the exchange itself takes so long once all are there."""
    on_device(gpu, gradients, look)
    gpu.set(**COLLECTIVE)
    gpu.launch(seconds)
    gpu.synchronize()
    gpu.set(**COMPUTING)


def train(
    job: Job, dataset: Any, seconds: float, exchange: Callable[[SimulatedGpu, Any], None], extra: Callable[[], None] | None
) -> None:
    """Steps of `seconds` on the rank's device, an exchange of gradients, and `extra` work on the host."""
    import torch

    one_thread()
    gpu = job.gpu = SimulatedGpu(job.device, sync=None, index=int(os.environ["RANK"]), **COMPUTING)
    gradients = torch.zeros(1 << 16)

    def step(_number: int, _batch: Any) -> None:
        for _ in range(4):
            gpu.launch(seconds / 4)
        gpu.synchronize()
        if extra is not None:
            extra()
        exchange(gpu, gradients)

    job.train(feed(dataset), step)


def slow() -> bool:
    return os.environ["RANK"] == os.environ.get(LATE, str(SLOW))


def loader_rank(job: Job) -> None:
    from workloads.loader_cases import Computed

    train(job, Computed(0.015 if slow() else 0.0005), 0.015, all_reduce, None)


def decode_rank(job: Job) -> None:
    from workloads.loader_cases import Computed
    from workloads.more_cases import Photographs

    files = dataset_files.jpegs(job.data)
    train(job, Photographs(files) if slow() else Computed(0.0005), 0.007, on_device, None)


def storage_rank(job: Job) -> None:
    from workloads.loader_cases import Computed
    from workloads.storage_cases import FromServer

    train(job, FromServer(int(job.given["slow-server"])) if slow() else Computed(0.0005), 0.02, all_reduce, None)


def main_thread_rank(job: Job) -> None:
    from workloads.loader_cases import Computed

    train(job, Computed(0.0005), 0.012, on_device, write_report if slow() else None)


def write_report() -> None:
    """Bookkeeping that only one rank does, 45 ms of it."""
    burn(0.045)


def in_turn_rank(job: Job) -> None:
    """Every rank writes a report now and then, each at steps of its own, and the others wait for it."""
    from workloads.loader_cases import Computed

    number, count = int(os.environ["RANK"]), itertools.count()

    def report_in_turn() -> None:
        if next(count) % RANKS == number:
            write_report()

    train(job, Computed(0.0005), 0.012, all_reduce, report_in_turn)


def communication_rank(job: Job) -> None:
    """No rank is late: the exchange itself takes 50 ms of the device, after 10 ms of computing."""
    from workloads.loader_cases import Computed

    train(job, Computed(0.0005), 0.01, partial(over_a_wire, seconds=0.05), None)


def ddp_rank(job: Job) -> None:
    """A real DistributedDataParallel: its hooks reduce the gradients within backward, where the other rank waits."""
    import torch

    from workloads.loader_cases import Computed

    one_thread()
    gpu = job.gpu = SimulatedGpu(job.device, sync=None, index=int(os.environ["RANK"]), **COMPUTING)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3 * 32 * 32, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_number: int, batch: Any) -> None:
        gpu.launch(0.015)
        loss = model(batch.flatten(1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        gpu.synchronize()

    job.train(feed(Computed(0.015 if slow() else 0.0005)), step)


def hung_rank(job: Job) -> None:
    """After two seconds one rank waits for something else, and never comes to the exchange again."""
    from workloads.loader_cases import Computed

    until = time.monotonic() + 2.0

    def sleeps() -> None:
        if slow() and time.monotonic() > until:
            job.culprit(culprits.process(os.getpid()))
            job.truth.event("ready")
            while not job.over():
                time.sleep(0.5)

    train(job, Computed(0.0005), 0.015, all_reduce, sleeps)


def straggler_ddp(job: Job) -> None:
    torchrun(job, ddp_rank)


def straggler_loader(job: Job) -> None:
    torchrun(job, loader_rank)


def straggler_decode(job: Job) -> None:
    torchrun(job, decode_rank)


def straggler_storage(job: Job) -> None:
    spawn(job, storage_rank)


def straggler_main_thread(job: Job) -> None:
    spawn(job, main_thread_rank)


def late_in_turn(job: Job) -> None:
    torchrun(job, in_turn_rank)


def communication(job: Job) -> None:
    torchrun(job, communication_rank)


def words(job: Job, run: Callable[[Job], None]) -> list[str]:
    """The command line that `rank` reads again."""
    given = [word for key, value in job.given.items() for word in ("--given", f"{key}={value}")]
    truth = ["--truth", job.truth.path] if job.truth.path else []
    return [f"{run.__module__}:{run.__name__}", job.label.name, str(job.seconds_left()), job.device, job.data, *truth, *given]


def torchrun(job: Job, run: Callable[[Job], None], ranks: int = RANKS, late: int = SLOW) -> None:
    """This process becomes torchrun, which starts the ranks."""
    simulated_gpu.create(job.device, devices=ranks)
    job.truth.flush()
    os.environ[LATE] = str(late)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    os.execv(sys.executable, [*command, os.path.abspath(__file__), *words(job, run)])


def hung_collective(job: Job) -> None:
    spawn(job, hung_rank)


def spawn(job: Job, run: Callable[[Job], None], ranks: int = RANKS, late: int = SLOW) -> None:
    """This process starts the ranks with torch.multiprocessing and waits for them."""
    import tempfile

    from torch.multiprocessing.spawn import spawn as start_ranks

    simulated_gpu.create(job.device, devices=ranks)
    os.environ[LATE] = str(late)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(job.device)) as meeting:
        arguments = (words(job, run), f"file://{meeting}/ranks", ranks)
        start_ranks(spawned, args=arguments, nprocs=ranks)


def spawned(number: int, arguments: list[str], meeting: str, ranks: int) -> None:
    os.environ.update(RANK=str(number), WORLD_SIZE=str(ranks))
    rank(arguments, meeting)


def rank(arguments: list[str], meeting: str = "env://") -> None:
    """One rank, in its own process."""
    import torch.distributed as dist

    parser = argparse.ArgumentParser()
    for word in ("run", "label", "seconds", "device", "data"):
        parser.add_argument(word)
    parser.add_argument("--truth")
    parser.add_argument("--given", action="append", default=[])
    args = parser.parse_args(arguments)
    die_with_parent(os.getppid())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=size)
    label = by_name(args.label)
    job = Job(
        label=label,
        seconds=float(args.seconds),
        data=args.data,
        device=args.device,
        truth=ContinuedTruth(args.truth if slow() else None, label),
        given=dict(item.split("=", 1) for item in args.given),
    )
    # In a loop that no rank holds up, or each in turn, none is late.
    alike = label.cause == "communication" or label.name == "rank-late-in-turn"
    job.truth.event("late", pid=None if alike else os.getpid())
    try:
        module, _, name = args.run.partition(":")
        getattr(importlib.import_module(module), name)(job)
    except RuntimeError:
        # The other rank may leave its loop one step before this one.
        if not job.over():
            raise


if __name__ == "__main__":
    rank(sys.argv[1:], os.environ.get("TRAINMON_MEETING", "env://"))
