"""Paths: the repository, its builds, and the tools next to this Python."""

from __future__ import annotations

import os
import shutil
import sys

MEASURE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(MEASURE)
TESTS = os.path.join(ROOT, "tests")
WORKLOADS = os.path.join(TESTS, "workloads")
#: Cargo's target directory, and the release build in it.
BUILDS = os.path.join(ROOT, "target")
RELEASE = os.path.join(BUILDS, "release")
TRAINMON = os.path.join(RELEASE, "trainmon")
FAKE_NVML = os.path.join(RELEASE, "examples/libfake_nvml.so")


def py_spy() -> str | None:
    """py-spy from this Python's environment, otherwise from PATH."""
    return shutil.which("py-spy", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))
