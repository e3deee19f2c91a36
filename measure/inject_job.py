"""A training job for the tests of `trainmon profile --inject`. It needs torch alone, and any Python that torch runs on.

    python inject_job.py [--workers 2] [--epoch 1000] [--thread] [--no-torch]

It trains, and answers each line of standard input with a line of JSON: `state` (what could be left behind), `steps` (its own log),
`count` (its steps so far), `run FILE` (runs a script in the main thread, between two batches, as sys.remote_exec does),
`profile [FILE]` (runs torch's profiler over the next steps by itself, and the script within), `growth` (of the workers' memory,
MiB), `hold SECONDS` (the main thread is in one long call), `end`.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import Any

#: Begin of the wait for a batch, its end, and the end of the step, seconds of CLOCK_MONOTONIC.
STEPS: list[tuple[float, float, float]] = []
#: Small operators that a worker runs for each sample: where they are recorded, its memory grows.
WORK = 100


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def link_of(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def state() -> dict[str, Any]:
    """What a script could leave behind, as values that can be compared."""
    found: dict[str, Any] = {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "modules": sorted(sys.modules),
        "handlers": {str(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "at exit": atexit._ncallbacks(),
        "finders": repr(sys.meta_path),
        "filters": repr(warnings.filters),
        "tracing": repr((sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())),
        "gc": repr((gc.callbacks, gc.isenabled())),
        "environment": sorted(os.environ.items()),
        "descriptors": [link for link in map(link_of, os.listdir("/proc/self/fd")) if "trainmon" in link],
        "excepthooks": repr((sys.excepthook, threading.excepthook, sys.unraisablehook)),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        profiler, optimizer = torch.autograd.profiler, sys.modules["torch.optim.optimizer"]
        found["profiler"] = repr((profiler._prepare_profiler, profiler._is_profiler_enabled, sorted(vars(profiler))))
        found["torch.profiler"] = sorted(vars(torch.profiler))
        found["hooks"] = repr((optimizer._global_optimizer_post_hooks, optimizer._global_optimizer_pre_hooks))
        found["hooks' place"] = id(optimizer._global_optimizer_post_hooks)
        found["ctypes"] = sorted(vars(sys.modules["ctypes"].pythonapi))
        # Those of finished queues go when the garbage is collected.
        registry = sys.modules["multiprocessing.util"]._afterfork_registry
        found["after fork"] = [repr(key) for key, _value in registry.items() if "in_fork" in repr(key)]
    return found


class Loop:
    """Trains, one step at a time."""

    def __init__(self, workers: int, epoch: int) -> None:
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Samples(Dataset[tuple[Any, float]]):
            begun = 0.0

            def __len__(self) -> int:
                return 8 * epoch

            def __getitem__(self, at: int) -> tuple[Any, float]:
                self.begun = self.begun or resident_mib()
                sample = torch.randn(32)
                for _ in range(WORK):
                    sample = sample + 0.01
                time.sleep(0.002)
                return sample, resident_mib() - self.begun

        self.torch = torch
        # Forked workers see what records in the job; since 3.14 that is no longer the default.
        self.loader = DataLoader(
            Samples(), batch_size=8, num_workers=workers, multiprocessing_context="fork" if workers else None
        )
        self.model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.growth_mib = 0.0
        self.batches = self.endless()

    def endless(self) -> Any:
        while True:
            yield from self.loader

    def forever(self) -> None:
        while True:
            self.step()

    def step(self) -> None:
        begin = time.monotonic()
        batch, growth = next(self.batches)
        got = time.monotonic()
        self.growth_mib = max(self.growth_mib, float(growth.max()))
        self.optimizer.zero_grad()
        loss: Any = self.model(batch).square().mean()
        loss.backward()
        self.optimizer.step()
        STEPS.append((begin, got, time.monotonic()))


def run(path: str) -> float:
    """Does with a script what the interpreter does; how long that takes."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begun = time.monotonic()
    exec(text, {})
    return time.monotonic() - begun


def answer(loop: Loop | None, line: str) -> Any:
    word, _, rest = line.partition(" ")
    if word == "run":
        return run(rest)
    if word == "profile" and loop:
        with loop.torch.profiler.profile() as profile:
            if rest:
                run(rest)
            for _ in range(5):
                loop.step()
        return sum("Optimizer.step" in event.name for event in profile.events())
    if word == "hold":
        time.sleep(float(rest))
    if word == "end":
        sys.exit(0)
    if word == "state":
        return state()
    if word == "steps":
        return STEPS
    if word == "count":
        return len(STEPS)
    return loop.growth_mib if word == "growth" and loop else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epoch", type=int, default=1000, help="batches")
    parser.add_argument("--thread", action="store_true", help="the loop runs in a thread of its own")
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    loop = None if args.no_torch else Loop(args.workers, args.epoch)
    if args.thread and loop:
        threading.Thread(target=loop.forever, name="loop", daemon=True).start()
    while True:
        if loop and not args.thread:
            loop.step()
        else:
            time.sleep(0.01)
        if select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline()
            if not line:
                break
            print(json.dumps(answer(loop, line.strip())), flush=True)


if __name__ == "__main__":
    main()
