"""Programs that measure trainmon. `python measure COMMAND --help` explains each one.

    python measure evaluate        compare verdicts, cost and screen with labeled workloads
    python measure faults          cause real faults around trainmon, and print how it reacts
    python measure gpu             compare trainmon with a real NVIDIA GPU
    python measure size            count code lines and numeric constants
    python measure calibrate       fit confidence to how often verdicts are right
    python measure agree           compare a log, a recording and a program's own log of one half minute
    python measure taken           compare profiles of running programs with what these log
    python measure measured        write the tables of docs/measured.md
    python measure package         build the wheel, the tarball and the .deb, and try each one
    python measure release         check whether a tag can become a release, and write its notes
    python measure features        show what features add to the program, or check that each compiles alone
    python measure fuzz            feed every reader of foreign bytes with what a fuzzer makes up
    python measure peers           compare the cost of trainmon with that of other monitors
    python measure day             measure what a long recording costs to keep and to open
    python measure following       measure what export and watch cost, and whether they stay small for days
    python measure watch           count false events of days of recorded time, and how soon planted ones are told
    python measure fleet           check the late ranks that fleet names, with a real Prometheus
    python measure vm              test other kernels, rights and limits in virtual machines
    python measure record          record labeled workloads for tests/recordings
    python measure profiles        compare the account of torch.profiler traces with a plain one
    python measure golden          write all that is made of the recordings, and compare it with what another build made
    python measure probes          measure what counting calls from outside costs a job, and kill trainmon meanwhile
    python measure injected        profile jobs of Python 3.14 that were not started for it, and look for what is left
    python measure stacks          read stacks under other versions of Python, and what that costs
    python measure screens         draw the pictures of README.md and docs/
    python measure open-programs   judge training programs written by others
    python measure uses            judge programs that use a library like its users do
"""

from __future__ import annotations

import importlib
import os
import sys

#: Each command's module, whose `main` takes the words after the command and returns the exit status.
COMMANDS = {
    "evaluate": "measure.evaluation.command",
    "faults": "measure.faults.table",
    "gpu": "measure.gpu.check",
    "size": "measure.size",
    "calibrate": "measure.evaluation.calibrate",
    "agree": "measure.evaluation.agreement",
    "taken": "measure.evaluation.taken",
    "measured": "measure.measured",
    "package": "measure.release.package",
    "release": "measure.release.ready",
    "features": "measure.release.features",
    "fuzz": "measure.fuzzing",
    "peers": "measure.evaluation.peers",
    "day": "measure.day",
    "following": "measure.following",
    "watch": "measure.watching",
    "fleet": "measure.fleet",
    "vm": "measure.vm.command",
    "record": "measure.evaluation.record",
    "profiles": "measure.profiles.command",
    "golden": "measure.golden",
    "probes": "measure.probes",
    "stacks": "measure.stack_readers",
    "injected": "measure.injected",
    "screens": "measure.screens",
    "open-programs": "measure.open_programs",
    "uses": "measure.uses",
}


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    if words[0] not in COMMANDS:
        print(f"measure: no command {words[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(COMMANDS[words[0]]).main(words[1:]))


if __name__ == "__main__":
    # In place of this folder, whose modules have names of the standard library: the folder of this package, and that of `workloads`.
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[0:1] = [root, os.path.join(root, "tests")]
    sys.exit(main(sys.argv[1:]))
