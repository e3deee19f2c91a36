"""Commands for developers of trainmon. `python tests/dev.py COMMAND --help` explains each one.

    python tests/dev.py size            count code lines and numeric constants
    python tests/dev.py calibrate       fit confidence to how often verdicts are right
    python tests/dev.py agree           compare a log, a recording and a program's own log of one half minute
    python tests/dev.py taken           compare profiles of running programs with what these log
    python tests/dev.py measured        write the tables of docs/measured.md
    python tests/dev.py package         build the wheel, the tarball and the .deb, and try each one
    python tests/dev.py features        show what features add to the program, or check that each compiles alone
    python tests/dev.py peers           compare the cost of trainmon with that of other monitors
    python tests/dev.py day             measure what a long recording costs to keep and to open
    python tests/dev.py following       measure what export and watch cost, and whether they stay small for days
    python tests/dev.py watch           count false events of days of recorded time, and how soon planted ones are told
    python tests/dev.py fleet           check the late ranks that fleet names, with a real Prometheus
    python tests/dev.py vm              test other kernels, rights and limits in virtual machines
    python tests/dev.py record          record labeled workloads for tests/recordings
    python tests/dev.py profiles        compare the account of torch.profiler traces with a plain one, and with another tool
    python tests/dev.py golden          write all that is made of the recordings, and compare it with what another build made
    python tests/dev.py probes          measure what counting calls from outside costs a job, and kill trainmon meanwhile
    python tests/dev.py injected        profile jobs of Python 3.14 that were not started for it, and look for what is left
    python tests/dev.py screens         draw the pictures of README.md and docs/
    python tests/dev.py open-programs   judge training programs written by others
"""

from __future__ import annotations

import importlib
import sys

#: Each command's module, whose `main` takes the words after the command and returns the exit status.
COMMANDS = {
    "size": "harness.size",
    "calibrate": "harness.evaluation.calibrate",
    "agree": "harness.evaluation.agreement",
    "taken": "harness.evaluation.taken",
    "measured": "harness.measured",
    "package": "harness.release.package",
    "features": "harness.release.features",
    "peers": "harness.evaluation.peers",
    "day": "harness.day",
    "following": "harness.following",
    "watch": "harness.watching",
    "fleet": "harness.fleet",
    "vm": "harness.vm.command",
    "record": "harness.evaluation.record",
    "profiles": "harness.profiles.command",
    "golden": "harness.golden",
    "probes": "harness.probes",
    "injected": "harness.injected",
    "screens": "harness.screens",
    "open-programs": "harness.open_programs",
}


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    if words[0] not in COMMANDS:
        print(f"dev.py: no command {words[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(COMMANDS[words[0]]).main(words[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
