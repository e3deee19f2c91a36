"""The training-like program itself: runs one workload in this process. `run.py` starts it with what it needs.

    python train.py NAME --seconds 30 --truth truth.jsonl --device device.bin --data DIR
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from workloads.common import options, run
from workloads.labels import by_name


def main() -> int:
    args = options("Run one workload in this process.").parse_args()
    label = by_name(args.name)
    if args.device is None:
        handle, args.device = tempfile.mkstemp(prefix="trainmon-device-")
        os.close(handle)
        os.unlink(args.device)
    if args.data is None:
        from workloads.dataset_files import default_folder

        args.data = default_folder()
    file, function = (args.entry or label.entry).split(":")
    return run(label, args, getattr(importlib.import_module(f"workloads.{file}"), function))


if __name__ == "__main__":
    sys.exit(main())
