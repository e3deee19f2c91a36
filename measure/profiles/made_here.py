"""Programs that torch profiles here, on the CPU: each spends most of a step on one known thing.

`python -m measure.profiles.made_here NAME FILE [RANK RANKS]` runs one and writes its trace.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

#: What the verdict on each must be: class, cause, and a word that the summary or what is blamed must have.
TRUTH: dict[str, tuple[str, str | None, str]] = {
    "sleep": ("cpu", "sleeps", "sleep"),
    "sleep-without-stack": ("cpu", "main-thread", "does not show"),
    "loads-itself": ("data-loader", "in-process-loading", "__getitem__"),
    "late-worker": ("data-loader", None, "workers are late"),
    "python-work": ("cpu", "main-thread", "write_report"),
    "copies": ("cpu", "cpu-training", "aten::clone"),
    "compute": ("cpu", "cpu-training", "aten::matmul"),
    "gloo": ("gpu", "communication", "collectives"),
}
#: Steps that are recorded.
STEPS = 5


def main(words: list[str]) -> int:
    name, file = words[:2]
    rank, ranks = (int(words[2]), int(words[3])) if len(words) > 2 else (0, 1)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(ranks))
    run(name, file, ranks)
    return 0


def run(name: str, file: str, ranks: int) -> None:
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    item_s = {"loads-itself": 0.01, "late-worker": 0.02}.get(name, 0.0)

    class Samples(Dataset[tuple[torch.Tensor, int]]):
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            time.sleep(item_s)
            return torch.full((256,), float(index)), index % 10

    def write_report(rounds: int) -> str:
        total = 0
        for number in range(rounds):
            total += number * number
        return json.dumps([total])

    weights, large = torch.randn(900, 900), torch.zeros(8_000_000)

    def exchange() -> None:
        if int(os.environ["RANK"]) == ranks - 1:
            time.sleep(0.05)
        dist.all_reduce(torch.ones(1000))

    def on_top(name: str) -> Callable[[], object]:
        return {
            "sleep": lambda: time.sleep(0.05),
            "sleep-without-stack": lambda: time.sleep(0.05),
            "python-work": lambda: write_report(700_000),
            "copies": lambda: [large.clone() for _ in range(4)],
            "compute": lambda: [weights @ weights for _ in range(4)],
            "gloo": exchange,
        }.get(name, lambda: None)

    if ranks > 1:
        dist.init_process_group("gloo")
    more = on_top(name)
    model = torch.nn.Linear(256, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(Samples(), batch_size=4, num_workers=int(name == "late-worker"))
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], with_stack=name != "sleep-without-stack", schedule=steps) as profiler:
        for number, (batch, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            more()
            profiler.step()
            if number > STEPS + 2:
                break
    profiler.export_chrome_trace(file)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
