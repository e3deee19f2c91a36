"""Causes real faults around trainmon and prints how it reacts. See --help and harness/faults/table.py."""

import sys

from harness.faults.table import main

if __name__ == "__main__":
    sys.exit(main())
