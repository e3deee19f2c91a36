"""Keeps whole runs of an evaluation and judges them again, with another build or without their stacks.

A run consists of its recording and of the files in which the workload logged its truth, so nothing has to run again. The result
is valid as long as neither the samples nor the workloads have changed since.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator

from measure import recordings
from workloads.labels import Label, by_name
from workloads.truth import Truth

RECORDING, TRUTH, ABOUT = "run.tmz", "truth.jsonl", "run.json"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that was kept."""

    label: Label
    number: int
    #: CLOCK_MONOTONIC seconds when watching began.
    began: float
    recording: str
    truth: Truth
    #: CPUs that other processes used meanwhile.
    cores_of_others: float | None


def keep(folder: str, run: Run, truth_path: str) -> None:
    """Copies the files of `run` into `folder`."""
    place = os.path.join(folder, f"{run.label.name}-{run.number}")
    os.makedirs(place, exist_ok=True)
    shutil.copy(run.recording, os.path.join(place, RECORDING))
    name = os.path.basename(truth_path)
    for written in os.listdir(os.path.dirname(truth_path)):
        if written.startswith(name):
            target = os.path.join(place, TRUTH + written[len(name) :])
            shutil.copy(os.path.join(os.path.dirname(truth_path), written), target)
    about = {"label": run.label.name, "number": run.number, "began": run.began, "others": run.cores_of_others}
    with open(os.path.join(place, ABOUT), "w", encoding="utf-8") as file:
        json.dump(about, file)


def kept(folder: str, stacks: bool = True) -> Iterator[Run]:
    """The runs in `folder`, by name. Without `stacks`, removes the stacks from the recordings."""
    with tempfile.TemporaryDirectory() as cut:
        for name in sorted(os.listdir(folder)):
            place = os.path.join(folder, name)
            with open(os.path.join(place, ABOUT), encoding="utf-8") as file:
                about = json.load(file)
            truth = Truth.read(os.path.join(place, TRUTH))
            truth.read_stages(os.path.join(place, TRUTH))
            recording = os.path.join(place, RECORDING)
            if not stacks:
                recording = recordings.without_stacks(recording, os.path.join(cut, "without.tmz"))
            label = by_name(about["label"])
            yield Run(label, about["number"], about["began"], recording, truth, about["others"])
