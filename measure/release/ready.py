"""Whether a tag can become a release, and what its page says.

    python measure release v0.1.0                     fails if the version or the changelog do not fit the tag
    python measure release v0.1.0 --notes notes.md    also writes its part of the changelog to a file

docs/releasing.md has the whole checklist.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path

from measure import options
from measure.paths import ROOT
from measure.release.build import Failed

NAME = "measure release"


def check_version(tag: str, manifest: str, lock: str) -> str:
    """The version that the tag names, if the workspace, all its crates and Cargo.lock have it."""
    workspace = tomllib.loads(manifest)["workspace"]
    version = str(workspace["package"]["version"])
    if tag != f"v{version}":
        raise Failed(f"the tag is {tag}, and Cargo.toml has version {version}: tag v{version}, or change the version")
    ours = {name: crate["version"] for name, crate in workspace["dependencies"].items() if "path" in crate}
    locked = {package["name"]: package["version"] for package in tomllib.loads(lock)["package"]}
    for name, wanted in ours.items():
        if wanted != version:
            raise Failed(f"Cargo.toml asks for {name} {wanted} instead of {version}")
        if locked.get(name) != version:
            raise Failed(f"Cargo.lock has {name} {locked.get(name)} instead of {version}: run cargo check")
    return version


def notes(version: str, changelog: str) -> str:
    """What the changelog says about a version, which must have a date."""
    heading = re.search(rf"^## \[{re.escape(version)}\] - (.*)$", changelog, re.MULTILINE)
    if not heading:
        raise Failed(f"CHANGELOG.md has no heading for {version}")
    try:
        datetime.date.fromisoformat(heading[1])
    except ValueError:
        raise Failed(f"CHANGELOG.md says {heading[1]!r} instead of the date of {version}") from None
    text = changelog[heading.end() :].split("\n## ", 1)[0].strip()
    if not text:
        raise Failed(f"CHANGELOG.md says nothing about {version}")
    return text + "\n"


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, NAME)
    parser.add_argument("tag", help="the tag, such as v0.1.0")
    parser.add_argument("--notes", help="file to write the part of the changelog to")
    args = parser.parse_args(words)

    def text(name: str) -> str:
        return Path(ROOT, name).read_text(encoding="utf-8")

    try:
        version = check_version(args.tag, text("Cargo.toml"), text("Cargo.lock"))
        about = notes(version, text("CHANGELOG.md"))
        if args.notes:
            Path(args.notes).write_text(about, encoding="utf-8")
    except (Failed, OSError) as failure:
        return options.failed(NAME, failure)
    print(f"trainmon {version} can be released: {len(about.splitlines())} lines of notes")
    return 0
