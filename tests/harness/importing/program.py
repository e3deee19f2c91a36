"""A training loop on the CPU under torch.profiler, whose bottleneck is known. Prints `profiling` when the trace begins and `done` when
it ends, and writes the trace.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset


def burn(seconds: float) -> int:
    """Computes in Python for so much CPU time."""
    until = time.thread_time() + seconds
    turns = 0
    while time.thread_time() < until:
        turns += sum(range(20_000))
    return turns


class Batches(Dataset[torch.Tensor]):
    """Samples that cost so much CPU time each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(self.seconds)
        return torch.full((64,), float(index))


#: Workers, seconds for a batch, seconds of the loop's own Python, width of the model.
KINDS = {
    "waits-for-workers": (1, 0.040, 0.0, 256),
    "makes-its-batches": (0, 0.030, 0.0, 256),
    "own-work": (1, 0.002, 0.030, 256),
    "model": (1, 0.002, 0.0, 1536),
    "sleeps": (1, 0.002, -0.030, 256),
}


def steps(kind: str) -> Iterator[None]:
    """The loop; yields after each step."""
    workers, seconds, own, width = KINDS[kind]
    model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for batch in DataLoader(Batches(seconds / 16), batch_size=16, num_workers=workers):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if own < 0:
            time.sleep(-own)
        else:
            burn(own)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--stack", action="store_true")
    parser.add_argument("--step", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    loop = steps(given.kind)
    for _ in range(20):
        next(loop)
    with profile(activities=[ProfilerActivity.CPU], with_stack=given.stack) as profiler:
        print("profiling", flush=True)
        until = time.monotonic() + given.seconds
        while time.monotonic() < until:
            next(loop)
            if given.step:
                profiler.step()
        print("done", flush=True)
    profiler.export_chrome_trace(given.trace)


if __name__ == "__main__":
    main()
