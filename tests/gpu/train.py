"""Runs one labelled program of the check, or the neighbour that shares its device, in this process.

    python train.py NAME --seconds 30 --truth truth.jsonl --device device.bin --given device=cuda
    python train.py neighbour --given device=cuda       prints its PID once it works
"""

from __future__ import annotations

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Before the names of this folder's package: these are the modules that the workloads share.
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "workloads")]

import stages  # noqa: E402
from common import Job, TruthWriter  # noqa: E402

#: The neighbour queues so much at a time, seconds.
TURN_S = 0.02


def neighbour(simulated: bool) -> int:
    """Works on the device until it is killed. The simulated device is shared by the one who owns it."""
    if not simulated:
        from devices import CudaDevice

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
    parser = argparse.ArgumentParser(description="Run one labelled program in this process.")
    parser.add_argument("name")
    parser.add_argument("--entry", help="of no use here: the launcher of the workloads gives it")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to train (default: %(default)s)")
    parser.add_argument("--truth", help="file for the truth, JSON lines")
    parser.add_argument("--device", default="", help="file of the simulated device")
    parser.add_argument("--data", default="", help="folder of the run")
    parser.add_argument("--given", action="append", default=[], metavar="KEY=VALUE", help="device=cuda|simulated, neighbour=PID")
    args = parser.parse_args()
    given = dict(item.split("=", 1) for item in args.given)
    if args.name == "neighbour":
        return neighbour(given["device"] == "simulated")
    import programs
    from labelled import by_name

    label = by_name(args.name)
    if args.truth:
        os.environ[stages.VARIABLE] = os.path.abspath(args.truth) + ".stages"
    programs.allow_stacks()
    truth = TruthWriter(args.truth, label)
    job = Job(label=label, seconds=args.seconds, data=args.data, device=args.device, truth=truth, given=given)
    try:
        getattr(programs, label.entry.partition(":")[2])(job)
    except KeyboardInterrupt:
        return 130
    finally:
        truth.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
