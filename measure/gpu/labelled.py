"""The labeled programs of the check and the truth about each: pure data, without torch.

The same programs run on the real and on the simulated GPU. Each label is valid only while the program's own measurements lie within
its limits. A slow machine, or a GPU shared with others, can move them out.
"""

from __future__ import annotations

from workloads.labels import FED, LOST, STARVED, Label, find

#: Device times are scaled to what the device needs, so these shares hold on a small and on a large one.
PROGRAMS: tuple[Label, ...] = (
    Label("compute-bound", "gpu", "compute-bound",
          "matrix products queued ahead, the loss read every ten steps; one light worker",
          "programs", wait=(0.0, 0.25), busy=(0.85, 1.0)),
    Label("compute-bound-item", "gpu", "compute-bound",
          "the loss read by .item() after each step: the wait spins, as CUDA's do unless told otherwise",
          "programs", wait=FED, busy=(0.85, 1.0)),
    Label("compute-bound-blocking", "gpu", "compute-bound",
          "the same with cudaDeviceScheduleBlockingSync: the wait sleeps",
          "programs", wait=FED, busy=(0.85, 1.0)),
    Label("loader-bound", "data-loader", "too-few-workers",
          "one worker computes 60 ms for each step of 15 ms on the device",
          "programs", also_causes=("transform",), wait=STARVED, busy=(0.0, 0.5)),
    Label("in-process-loading", "data-loader", "in-process-loading",
          "num_workers=0: the loop itself computes 45 ms for each batch",
          "programs", wait=STARVED, busy=(0.0, 0.5)),
    Label("python-bound", "cpu", "main-thread",
          "40 ms of metrics in Python for each 10 ms on the device; batches are ready",
          "programs", wait=FED, lost=LOST, busy=(0.0, 0.5)),
    Label("item-each-kernel", "cpu", "host-device-sync",
          "a value read after each of twenty short pieces of work, some Python between: the device runs dry",
          "programs", also=(("gpu", "host-device-sync"), ("cpu", "launch-bound")), wait=FED, busy=(0.2, 0.8)),
    Label("launch-bound", "cpu", "launch-bound",
          "thousands of kernels on eight numbers: the host cannot launch them fast enough",
          "programs", also_causes=("main-thread",), wait=FED, busy=(0.0, 0.8)),
    Label("pageable-copies", "gpu", "copy-bound",
          "256 MiB a step go to the device from memory that is not pinned",
          "programs", wait=FED, lost=LOST, busy=(0.0, 0.6)),
    Label("memory-bandwidth", "gpu", "memory-bandwidth",
          "sums over large tensors: the device's memory is the limit",
          "programs", wait=FED, busy=(0.85, 1.0)),
    Label("under-filled", "gpu", "under-filled",
          "kernels of a single block: always one runs, on one multiprocessor",
          "programs", wait=FED, busy=(0.85, 1.0)),
    Label("shared-device", "gpu", "shared-gpu",
          "another process computes on the same device all the while",
          "programs", wait=FED, companions=("neighbour",)),
)


def by_name(name: str) -> Label:
    """Raises KeyError with a message for an unknown name."""
    return find("program", name, PROGRAMS)
