"""Makes faults for real around trainmon, and prints what it makes of each: `--help` says how. See harness/faults/table.py."""

import sys

from harness.faults.table import main

if __name__ == "__main__":
    sys.exit(main())
