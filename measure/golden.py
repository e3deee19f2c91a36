"""Everything that trainmon makes of the recordings and profiles in this repository, as files: a change that should change no output
is shown to change none.

    python measure golden DIR                 writes what the release build makes to DIR
    python measure golden DIR --against OLD   also prints which files differ from those in OLD; exits with 1 if any does
    python measure golden DIR --trainmon BIN  of another build

The outputs are the verdict as JSON and as text, the report as HTML and Markdown, the trace, and the events of each recording; the
verdict and the report of each profile; comparisons of recordings that follow each other; and all help, manual pages and completions.
Screens are not among them: `cargo test --test screen` compares those.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure.paths import ROOT, TESTS, TRAINMON

NAME = "measure golden"
#: A comparison for every so many recordings.
COMPARED = 7
#: The slowest of them takes a second on an idle machine.
PATIENCE_S = 120.0
#: What is made of a recording; `{}` is its path.
OF_RECORDING = {
    "json": ["diagnose", "--replay", "{}", "--json"],
    "full.txt": ["diagnose", "--replay", "{}", "--full"],
    "txt": ["diagnose", "--replay", "{}"],
    "md": ["report", "{}", "-o", "-"],
    "html": ["report", "{}", "-o", "{out}"],
    "trace.json": ["trace", "{}", "-o", "-"],
    "events": ["watch", "--replay", "{}", "--json"],
}
#: What is made of a profile.
OF_PROFILE = {
    "json": ["diagnose", "{}", "--json"],
    "full.txt": ["diagnose", "{}", "--full"],
    "md": ["report", "{}", "-o", "-"],
    "html": ["report", "{}", "-o", "{out}"],
}
#: What is made of two recordings.
OF_TWO = {"txt": [], "json": ["--json"]}
#: The screen's size, time zone and language are this machine's own otherwise.
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "100", "HOME": "/nonexistent"}


def works(trainmon: str) -> Iterator[tuple[str, list[str]]]:
    """Each output's name, and the arguments that make it; `{out}` is a file to write, instead of standard output."""
    recordings = sorted(Path(TESTS, "recordings").glob("*.tmz"))
    for path in recordings:
        yield from ((f"{path.stem}.{end}", filled(words, path)) for end, words in OF_RECORDING.items())
    for before, after in zip(recordings[::COMPARED], recordings[1::COMPARED], strict=False):
        for end, words in OF_TWO.items():
            yield f"{before.stem}-{after.stem}.{end}", ["compare", shown(before), shown(after), *words]
    for path in sorted(Path(TESTS, "fixtures/profiles").glob("*.json")):
        yield from ((f"profile-{path.stem}.{end}", filled(words, path)) for end, words in OF_PROFILE.items())
    for command in ["", *commands(trainmon)]:
        yield f"help-{command}.txt", [*command.split(), "--help"]
        yield f"man-{command}.roff", ["man", *command.split()]
    yield from ((f"completions.{shell}", ["completions", shell]) for shell in ("bash", "zsh", "fish"))


def filled(words: list[str], path: Path) -> list[str]:
    return [shown(path) if word == "{}" else word for word in words]


def shown(path: Path) -> str:
    """A path as it is given to trainmon: below the repository, wherever that is."""
    return str(path.relative_to(ROOT))


def commands(trainmon: str) -> list[str]:
    """The names of all commands, as the completions for fish list them."""
    script = output(trainmon, ["help"]).decode()
    listed = script.split("Commands:\n", 1)[1].split("\n\n", 1)[0]
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and not line.startswith("   ")]


def output(trainmon: str, words: list[str]) -> bytes:
    """What a command prints, its notes and exit status included."""
    done = subprocess.run([trainmon, *words], cwd=ROOT, env=ENVIRONMENT, capture_output=True, timeout=PATIENCE_S, check=False)
    return done.stdout + b"\n--- standard error, exit status %d\n" % done.returncode + done.stderr


def write(trainmon: str, folder: Path) -> int:
    """Writes all outputs, and says how many there are."""
    folder.mkdir(parents=True)

    def one(work: tuple[str, list[str]]) -> None:
        name, words = work
        path = folder / name
        made = folder / f"made-{name}"
        printed = output(trainmon, [str(made) if word == "{out}" else word for word in words])
        if made.exists():
            made.rename(path)
        else:
            path.write_bytes(printed)

    all_works = list(works(trainmon))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(one, all_works))
    return len(all_works)


def differing(old: Path, new: Path) -> list[str]:
    """The names of the files that are not the same in both folders."""
    names = {path.name for folder in (old, new) for path in folder.iterdir()}

    def content(path: Path) -> bytes | None:
        return path.read_bytes() if path.exists() else None

    return sorted(name for name in names if content(old / name) != content(new / name))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder for the outputs")
    parser.add_argument("--against", type=Path, help="a folder that this command has written")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    arguments = parser.parse_args(words)
    if arguments.folder.exists():
        parser.error(f"{arguments.folder} exists: name a new folder")
    count = write(os.path.abspath(arguments.trainmon), arguments.folder)
    print(f"{count} outputs in {arguments.folder}")
    if arguments.against is None:
        return 0
    changed = differing(arguments.against, arguments.folder)
    for name in changed:
        print(f"differs: {name}", file=sys.stderr)
    print(f"{len(changed)} of them differ from {arguments.against}")
    return 1 if changed else 0
