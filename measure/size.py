"""Counts code lines and numeric constants. The count is a Rust program, which reads the source as the tests of its structure do:
see tests/support/size.rs, and its `--help`.
"""

from __future__ import annotations

import subprocess

from measure.paths import ROOT


def main(words: list[str]) -> int:
    return subprocess.run(["cargo", "run", "--quiet", "--example", "size", "--", *words], cwd=ROOT, check=False).returncode
