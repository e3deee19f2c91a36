"""Workloads in training frameworks: Lightning, the Trainer of transformers, Accelerate, and data sets of `datasets`.

The frameworks call the loader themselves, so the truth is taken where torch's loader notes its own time. The models
are small and run on the CPU; the simulated device does the work that counts.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable

import numpy
import torch

from workloads import dataset_files
from workloads.common import Job, burn, gpu_step, loader, one_thread

#: What the loader of torch calls the span in which somebody waits for a batch begins with this.
WAITING = "enumerate(DataLoader)"
#: Samples in an epoch: more than a run meets, few enough to shuffle.
SAMPLES = 400_000
#: What a batch of 4 costs one worker where the loader is slow, and where it is not.
SLOW_S, LIGHT_S = 0.015, 0.0005


def clock_batches(job: Job) -> None:
    """Writes the truth from the spans of torch's own loader, without a frame of ours in its stack.

    A step ends when the loop asks for the next batch. Only for loops over one loader.
    """
    profiler: Any = torch.autograd.profiler
    plain: Any = profiler.record_function

    class Clocked(plain):
        asked = got = 0.0

        def __enter__(self) -> Any:
            if self.name.startswith(WAITING):
                now = time.monotonic()
                if Clocked.got:
                    if not job.truth.steps:
                        job.note_culprit()
                    job.truth.step(Clocked.asked, Clocked.got, now, job.gpu)
                Clocked.asked = now
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            if self.name.startswith(WAITING):
                Clocked.got = time.monotonic()

    profiler.record_function = Clocked


class Rows:
    """Samples of a small regression, as mappings, that cost CPU time."""

    def __init__(self, cost: float):
        self.cost = cost

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        burn(self.cost)
        return {"inputs": torch.full((64,), float(index % 7)), "labels": torch.tensor([float(index % 2)])}


class Regression(torch.nn.Module):
    """A small model; the device works `seconds` for each call, and is waited for, as when the loss is read."""

    def __init__(self, job: Job, seconds: float):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
        self.device_step = gpu_step(job.take_gpu(), seconds)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.layers(inputs)
        self.device_step(0, None)
        return {"loss": torch.nn.functional.mse_loss(scores, labels), "logits": scores}


def confusion() -> None:
    """Metrics in plain Python, 40 ms of them."""
    burn(0.04)


def lightning(job: Job, cost: float, seconds: float, after_step: Callable[[], None] | None) -> None:
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Regression(job, seconds)

        def training_step(self, batch: dict[str, torch.Tensor], _number: int) -> torch.Tensor:
            loss = self.model(**batch)["loss"]
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    class AfterStep(L.Callback):
        def on_train_batch_end(self, trainer: Any, *_rest: Any) -> None:
            if after_step is not None:
                after_step()
            trainer.should_stop = job.over()

    one_thread()
    clock_batches(job)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=-1, callbacks=[AfterStep()], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=os.path.dirname(job.device),
    )
    trainer.fit(Module(), loader(Rows(cost), batch_size=4, num_workers=1))


def lightning_too_few_workers(job: Job) -> None:
    lightning(job, SLOW_S, 0.015, None)


def lightning_callback(job: Job) -> None:
    lightning(job, LIGHT_S, 0.01, confusion)


def lightning_validation(job: Job) -> None:
    """Twenty steps of training, then a validation that lasts for the rest of the run."""
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Regression(job, 0.012)

        def training_step(self, batch: dict[str, torch.Tensor], _number: int) -> torch.Tensor:
            return self.model(**batch)["loss"]

        def validation_step(self, batch: dict[str, torch.Tensor], _number: int) -> None:
            self.log("validation_loss", self.model(**batch)["loss"])
            burn(0.008)

        def on_validation_start(self) -> None:
            job.truth.event("ready")

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    one_thread()
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=1, limit_train_batches=20, num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=os.path.dirname(job.device),
    )
    light = loader(Rows(LIGHT_S), batch_size=4, num_workers=1)
    trainer.fit(Module(), light, loader(Rows(LIGHT_S), batch_size=4, num_workers=1))


def hf_trainer(job: Job, cost: float, seconds: float, after_step: Callable[[], None] | None) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class AfterStep(TrainerCallback):
        def on_step_end(self, _args: Any, _state: Any, control: Any, **_more: Any) -> None:
            if after_step is not None:
                after_step()
            control.should_training_stop = job.over()

    one_thread()
    clock_batches(job)
    arguments = TrainingArguments(
        output_dir=os.path.dirname(job.device), use_cpu=True, per_device_train_batch_size=4,
        dataloader_num_workers=1, dataloader_persistent_workers=True, max_steps=SAMPLES // 4,
        logging_steps=20, save_strategy="no", report_to="none", disable_tqdm=True,
    )
    Trainer(Regression(job, seconds), arguments, train_dataset=Rows(cost), callbacks=[AfterStep()]).train()


def hf_trainer_too_few_workers(job: Job) -> None:
    hf_trainer(job, SLOW_S, 0.015, None)


def hf_trainer_callback(job: Job) -> None:
    hf_trainer(job, LIGHT_S, 0.01, confusion)


def accelerate(job: Job, cost: float, seconds: float, metrics: bool) -> None:
    from accelerate import Accelerator

    one_thread()
    clock_batches(job)
    accelerator = Accelerator(cpu=True)
    model = Regression(job, seconds)
    model, optimizer, batches = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters()), loader(Rows(cost), batch_size=4, num_workers=1)
    )
    for batch in batches:
        output = model(**batch)
        accelerator.backward(output["loss"])
        optimizer.step()
        optimizer.zero_grad()
        if metrics:
            accelerator.gather_for_metrics(output["logits"])
            confusion()
        if job.over():
            break


def accelerate_too_few_workers(job: Job) -> None:
    accelerate(job, SLOW_S, 0.015, metrics=False)


def accelerate_metrics(job: Job) -> None:
    accelerate(job, LIGHT_S, 0.01, metrics=True)


def arrow_folder(job: Job, name: str, make: Callable[[], Any]) -> Any:
    """A data set saved in Arrow files and mapped into memory; made on first use."""
    import datasets

    datasets.disable_progress_bars()
    path = os.path.join(job.data, name)
    if not os.path.exists(os.path.join(path, "state.json")):
        make().save_to_disk(path)
    return datasets.load_from_disk(path)


def again_and_again(dataset: Any) -> Any:
    """A sampler that never meets the end of an epoch."""
    return torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=10_000_000)


def small_picture(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """For `set_transform`: the pictures are decoded when they are taken from the rows."""
    pictures = [picture.convert("RGB").crop((400, 300, 624, 524)) for picture in rows["image"]]
    return {"pixels": [torch.from_numpy(numpy.asarray(picture).copy()) for picture in pictures]}


def datasets_decode(job: Job) -> None:
    """JPEG bytes in mapped Arrow files, decoded by the Image feature's decode_example."""
    import datasets

    def make() -> Any:
        rows = []
        for path in dataset_files.jpegs(job.data):
            with open(path, "rb") as file:
                rows.append({"bytes": file.read(), "path": None})
        return datasets.Dataset.from_dict({"image": rows}, features=datasets.Features({"image": datasets.Image()}))

    one_thread()
    rows = arrow_folder(job, "arrow-pictures", make)
    rows.set_transform(small_picture)
    batches = loader(rows, batch_size=4, num_workers=1, sampler=again_and_again(rows))
    job.train(batches, gpu_step(job.take_gpu(), 0.008))


def datasets_columns(job: Job) -> None:
    """Columns of numbers out of mapped Arrow files. The worker is fast enough; but a batch is twelve tensors, and the main
    thread fetches a file descriptor for each of them."""
    import datasets

    def make() -> Any:
        random = numpy.random.default_rng(0)
        return datasets.Dataset.from_dict({
            f"signal{column}": [random.random(256, dtype=numpy.float32) for _ in range(2000)] for column in range(12)
        })

    one_thread()
    rows = arrow_folder(job, "arrow-columns", make).with_format("torch")
    batches = loader(rows, batch_size=32, num_workers=1, sampler=again_and_again(rows))
    job.train(batches, gpu_step(job.take_gpu(), 0.004))


class ByteMerges:
    """Merges pairs of letters in Python, as a tokeniser without compiled code does."""

    def __init__(self, merges: dict[tuple[str, str], int]):
        self.merges = merges

    def word(self, word: str) -> list[str]:
        parts = list(word)
        while len(parts) > 1:
            rank, at = min((self.merges.get(pair, 1 << 30), at) for at, pair in enumerate(zip(parts, parts[1:])))
            if rank == 1 << 30:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        tokens = [hash(part) % 32000 for word in row["text"].split() for part in self.word(word)]
        return {"tokens": (tokens + [0] * 256)[:256]}


def datasets_streaming(job: Job) -> None:
    """An IterableDataset of `datasets`, shuffled and mapped in the loop's own process."""
    import random

    import datasets

    one_thread()
    draw = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(3, 11))) for _ in range(3000)]
    merges = {(a, b): number for number, (a, b) in enumerate((a, b) for a in letters for b in letters)}

    def rows() -> Any:
        while True:
            yield {"text": " ".join(draw.choices(words, k=260))}

    stream = datasets.IterableDataset.from_generator(rows).shuffle(buffer_size=32, seed=1).map(ByteMerges(merges))
    gpu = job.take_gpu()
    for _batch in job.batches(stream.batch(16)):
        for _ in range(4):
            gpu.launch(0.004)
        gpu.synchronize()
