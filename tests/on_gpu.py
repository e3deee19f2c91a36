"""Holds trainmon against a real NVIDIA device: `--help` says how. See harness/gpu/check.py."""

import sys

from harness.gpu.check import main

if __name__ == "__main__":
    sys.exit(main())
