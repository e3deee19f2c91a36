"""Holds trainmon against labelled workloads: `--help` says how. See harness/evaluation/command.py."""

import sys

from harness.evaluation.command import main

if __name__ == "__main__":
    sys.exit(main())
