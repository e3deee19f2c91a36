"""Runs one labelled program of the check, or the neighbour that shares its device, in this process.

    python train.py NAME --seconds 30 --truth truth.jsonl --device device.bin --given device=cuda
    python train.py neighbour --given device=cuda       prints its PID once it works
"""

from __future__ import annotations

import os
import sys
import time

sys.path.extend(os.path.join(os.path.dirname(__file__), folder) for folder in ("../..", "../../tests"))

from workloads.common import given, options, run

#: The neighbour queues so much at a time, seconds.
TURN_S = 0.02


def neighbour(simulated: bool) -> int:
    """Works on the device until it is killed. The simulated device is shared by the one who owns it."""
    if not simulated:
        from measure.gpu.devices import CudaDevice

        device = CudaDevice()
        device.compute(TURN_S)
        device.loss.item()
    print(os.getpid(), flush=True)
    while True:
        if simulated:
            time.sleep(1.0)
        else:
            device.compute(TURN_S)
            device.loss.item()
            device.busy_s()


def main() -> int:
    args = options("Run one labelled program of the check in this process.").parse_args()
    if args.name == "neighbour":
        return neighbour(given(args)["device"] == "simulated")
    from measure.gpu import programs
    from measure.gpu.labelled import by_name

    label = by_name(args.name)
    programs.allow_stacks()
    return run(label, args, getattr(programs, label.entry.partition(":")[2]))


if __name__ == "__main__":
    sys.exit(main())
