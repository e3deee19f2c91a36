"""Makes the pictures and the animation of README.md and docs/, from bundled recordings of a torch job.

    python measure screens                     the pictures of assets/screens, and the animation
    python measure screens --all FOLDER        every page, size, theme and situation, to look at

They are drawn by the program's own code from `tests/recordings/segmentation*.tmz`, and the profile from a trace of the tests, so they
are the same each time and change only with the screen. tests/workloads/segmentation.py is the program that was recorded, on the
simulated GPU.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from measure.paths import ROOT

#: name in assets/screens → (situation or trace, page, size).
SCREENS: dict[str, tuple[str, str, str]] = {
    "overview": ("segmentation", "overview", "120x40"),
    "small": ("segmentation", "overview", "80x24"),
    "chain": ("segmentation", "chain", "120x40"),
    "gpu": ("segmentation", "gpu", "120x40"),
    "cpu": ("segmentation", "cpu", "120x40"),
    "io": ("segmentation", "io", "120x40"),
    "processes": ("segmentation", "processes", "120x40"),
    "stacks": ("segmentation", "stacks", "120x40"),
    "why": ("segmentation", "why", "120x40"),
    "history": ("segmentation", "history", "120x40"),
    "profile": ("tests/fixtures/profiles/waits-for-workers.json", "profile", "120x40"),
    "fixed": ("segmentation-fixed", "overview", "120x40"),
}
#: The recordings of the animation: before and after the fix.
STORY = ("segmentation", "segmentation-fixed")
#: Pictures of pages for a browser: name in assets/screens → what trainmon is asked for, and the height that is shown.
PAGES: dict[str, tuple[list[str], int]] = {
    "report": (["report", "before.tmz", "--price", "$1.21"], 1180),
    "compare": (["compare", "before.tmz", "after.tmz"], 1050),
}
#: Seconds of the recordings behind them, made of those of the animation.
PAGES_S = 600
#: What is typed between the two.
FIX = "python segmentation.py --workers 2"


def example(name: str, *arguments: str) -> None:
    """Runs an example of the repository; raises where that fails."""
    subprocess.run(["cargo", "run", "--quiet", "--example", name, "--", *arguments], cwd=ROOT, check=True)


def pages(browser: str, target: Path) -> None:
    """The pictures of pages, from the browser."""
    with tempfile.TemporaryDirectory() as folder:
        for name, recording in zip(("before", "after"), STORY, strict=True):
            example("long_recording", f"tests/recordings/{recording}.tmz", f"{folder}/{name}.tmz", str(PAGES_S))
        for name, (words, height) in PAGES.items():
            page, picture = f"{folder}/{name}.html", target / f"{name}.png"
            command = ["cargo", "run", "--quiet", "--manifest-path", f"{ROOT}/Cargo.toml", "--", *words, "-o", page]
            subprocess.run(command, cwd=folder, check=True)
            size = f"--window-size=1000,{height}"
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000", size]
            subprocess.run([browser, *options, f"--screenshot={picture}", f"file://{page}"], check=True, stderr=subprocess.DEVNULL)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="measure screens", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", metavar="FOLDER", help="draw every page, size, theme and situation into this folder")
    args = parser.parse_args(arguments)
    if args.all:
        example("pictures", args.all)
        return 0
    target = Path(ROOT, "assets/screens")
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wanted = {word for words in SCREENS.values() for word in words}
        example("pictures", folder, "dark", *sorted(wanted))
        for name, (situation, page, size) in SCREENS.items():
            picture = Path(folder, f"{Path(situation).stem}-{page}-{size}-dark.svg")
            shutil.copyfile(picture, target / f"{name}.svg")
    before, after = (f"tests/recordings/{name}.tmz" for name in STORY)
    example("story", before, after, FIX, "assets/screens/story")
    browser = shutil.which("chromium")
    if browser is None:
        print("chromium not found: the pictures of pages stay as they are; apt install chromium")
    else:
        pages(browser, target)
    for path in sorted(target.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    return 0
