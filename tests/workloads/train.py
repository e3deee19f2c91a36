"""The training-like program itself: runs one workload in this process. `run.py` starts it with what it needs.

    python train.py NAME --seconds 30 --truth truth.jsonl --device device.bin --data DIR
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile

import stages
from common import Job, TruthWriter
from labels import by_name


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one workload in this process.")
    parser.add_argument("name")
    parser.add_argument("--entry", help="FILE:FUNCTION to run instead of the workload's own: the workload, changed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to train (default: %(default)s)")
    parser.add_argument("--truth", help="file for the truth, JSON lines")
    parser.add_argument("--device", help="file of the simulated device (default: one in the system's temporary folder)")
    parser.add_argument("--data", help="folder for generated data files")
    parser.add_argument(
        "--given", action="append", default=[], metavar="KEY=VALUE", help="what run.py started; workers=N: how many"
    )
    args = parser.parse_args()
    label = by_name(args.name)
    if args.device is None:
        handle, args.device = tempfile.mkstemp(prefix="trainmon-device-")
        os.close(handle)
        os.unlink(args.device)
    if args.data is None:
        from dataset_files import default_folder

        args.data = default_folder()
    file, function = (args.entry or label.entry).split(":")
    if args.truth:
        os.environ[stages.VARIABLE] = os.path.abspath(args.truth) + ".stages"
    truth = TruthWriter(args.truth, label)
    job = Job(
        label=label,
        seconds=args.seconds,
        data=args.data,
        device=args.device,
        truth=truth,
        given=dict(item.split("=", 1) for item in args.given),
    )
    try:
        getattr(importlib.import_module(file), function)(job)
    except KeyboardInterrupt:
        return 130
    finally:
        truth.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
