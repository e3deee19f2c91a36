"""Writes the tables of docs/measured.md with the figures of this build.

    python measure evaluate --runs 1 --duration 8 --keep-all DIR               once, for an hour: runs all programs
    python measure measured --runs DIR --trainmon target/dist/trainmon    all tables
    python measure measured cost --trainmon target/dist/trainmon          one of them

A table stands between `<!-- NAME: COMMAND -->` and `<!-- end -->`. The command prints it, and it replaces what stood there.
In a command, DIR stands for the kept runs. What another build judged is judged again by this one, so that all tables of
verdicts are of one build.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from measure import options
from measure.paths import ROOT, TRAINMON

NAME = "measure measured"
DOCUMENT = Path(ROOT, "docs/measured.md")

#: A marked table: its first mark, its name, its command, and what stands between the marks.
_MARKED = re.compile(r"(?P<mark><!-- (?P<name>[a-z-]+): (?P<command>[^\n]+?) -->\n)(?P<table>.*?)(?=<!-- end -->)", re.DOTALL)


def tables(document: str) -> dict[str, str]:
    """The marked tables of a document: name → command."""
    return {found["name"]: found["command"] for found in _MARKED.finditer(document)}


def replaced(document: str, name: str, printed: str) -> str:
    """The document with the table of this name replaced by the tables in `printed`, one blank line between two.

    Raises ValueError if nothing that was printed is a table.
    """
    blocks = re.findall(r"(?:^\|.*\n?)+", printed, re.MULTILINE)
    if not blocks:
        raise ValueError("it printed no table")
    table = "\n\n".join(block.strip() for block in blocks)
    return _MARKED.sub(lambda found: f"{found['mark']}\n{table}\n\n" if found["name"] == name else found[0], document)


def printed_by(command: str, runs: str, trainmon: str) -> str:
    """Runs a command of this repository, and returns what it printed. Raises CalledProcessError if it fails."""
    words = [runs if word == "DIR" else word for word in shlex.split(command)]
    words = [sys.executable, *words[1:], "--trainmon", trainmon]
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: list[str] | None = None) -> int:
    known = tables(DOCUMENT.read_text(encoding="utf-8"))
    parser = options.parser(__doc__, NAME)
    parser.add_argument("names", nargs="*", metavar="TABLE", help=f"all, or some of {', '.join(known)}")
    parser.add_argument("--runs", metavar="DIR", help="what `measure evaluate --keep-all DIR` kept")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    args = parser.parse_args(arguments)
    for name in args.names or known:
        if name not in known:
            return options.failed(NAME, f"no table {name!r}; there are {', '.join(known)}", 2)
        if "DIR" in known[name].split() and not args.runs:
            return options.failed(NAME, f"{name} needs kept runs: --runs DIR", 2)
    for name in args.names or known:
        print(f"{name}: {known[name]}", flush=True)
        try:
            printed = printed_by(known[name], str(args.runs), args.trainmon)
            # Read again: a command may take an hour, and somebody may have edited the text meanwhile.
            DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8"), name, printed), encoding="utf-8")
        except (subprocess.CalledProcessError, ValueError) as error:
            return options.failed(NAME, f"{name} is unchanged: {error}")
    return 0
