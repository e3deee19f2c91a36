"""What a packager may leave out: each feature of Cargo.toml is a command of trainmon, with the libraries that only it needs.

    python measure features              the size of the program with all, without each, and without any
    python measure features --check      whether each alone, and none, compile without warnings and say what is missing

Sizes are of the profile of the packages, which takes minutes for each build; --profile names another.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib

from measure.paths import ROOT
from measure.release.build import PROFILE, Failed, run

NAME = "measure features"


def features() -> list[str]:
    with open(os.path.join(ROOT, "Cargo.toml"), "rb") as file:
        return [name for name in tomllib.load(file)["features"] if name != "default"]


def selected(chosen: list[str]) -> list[str]:
    return ["--quiet", "--package", "trainmon", "--no-default-features", "--features", ",".join(chosen)]


def check(names: list[str]) -> None:
    for chosen in [[], *([name] for name in names)]:
        print(f"{' '.join(chosen) or 'none'}", flush=True)
        run("cargo", "clippy", *selected(chosen), "--", "--deny", "warnings", cwd=ROOT)
    run("cargo", "test", *selected([]), "--lib", "cli::", cwd=ROOT)


def size(chosen: list[str], profile: str) -> int:
    """Bytes of the program with these features."""
    # A folder of its own, so that the program of other builds stays as it is.
    target = os.path.join(ROOT, "target", "features")
    run("cargo", "build", *selected(chosen), "--bin", "trainmon", "--profile", profile, "--target-dir", target, cwd=ROOT)
    return os.path.getsize(os.path.join(target, "debug" if profile == "dev" else profile, "trainmon"))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compile, and test the messages")
    parser.add_argument("--profile", default=PROFILE, help=f"the profile to build (default: {PROFILE})")
    arguments = parser.parse_args(words)
    names = features()
    try:
        if arguments.check:
            check(names)
            return 0
        whole = size(names, arguments.profile)
        rows = {"all": whole}
        rows |= {f"without {name}": size([other for other in names if other != name], arguments.profile) for name in names}
        rows["none"] = size([], arguments.profile)
    except Failed as failed:
        print(f"{NAME}: {failed}", file=sys.stderr)
        return 1
    print("| features | size of the program | smaller by |\n|---|---|---|")
    for row, count in rows.items():
        print(f"| {row} | {count / 2**20:.1f} MiB | {(whole - count) / 1024:.0f} KiB |")
    return 0
