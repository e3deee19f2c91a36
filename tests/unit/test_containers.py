"""Containers of the evaluation: what they take away, and that trainmon's place in them is as said."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from typing import Any

from measure.evaluation import containers, enclose
from measure.evaluation.scoring import Result
from measure.paths import BUILDS, TESTS
from unit.support import InFolder
from workloads import simulated_gpu
from workloads.labels import by_name
from workloads.limits import Unavailable

#: Said in a container: what is hidden, read only, refused, and who one is.
LOOK = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(number):
    ctypes.set_errno(0)
    libc.syscall(number, 0, 0, 0, 0, 0)
    return ctypes.get_errno() == errno.EPERM
def writable(path):
    try:
        open(path, "w").close()
        return True
    except OSError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "pid": os.getpid(), "uid": os.getuid(), "capabilities": int(status["CapEff"], 16), "ptrace": refused(%d),
    "kcore": os.path.exists("/proc/kcore") and os.path.getsize("/proc/kcore"), "vmstat": open("/proc/vmstat").read(1) if os.path.exists("/proc/vmstat") else "",
    "root": writable("/written"), "data": writable(os.path.join(%r, "written")), "repository": os.path.exists(%r),
    "device": os.path.exists("/dev/nvidia0"), "group": open("/proc/self/cgroup").read(),
}))
"""


def looked(kind: containers.Kind, data: str) -> dict[str, Any]:
    """What a program sees in a container of this kind."""
    ptrace = enclose.NUMBERS[os.uname().machine]["ptrace"]
    source = LOOK % (ptrace, data, TESTS)
    job = containers.Contained(kind, by_name("main-thread"), 1.0, data)
    job.folder = data
    done = subprocess.run(job.job_command(["-c", source]), capture_output=True, text=True, timeout=60, check=True)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


class Kinds(InFolder):
    def setUp(self) -> None:
        try:
            containers.check(containers.by_name("docker"))
        except Unavailable as error:
            self.skipTest(str(error))
        if os.uname().machine not in enclose.NUMBERS:
            self.skipTest(f"system calls of {os.uname().machine} are not known")
        super().setUp()

    def test_dockers_defaults(self) -> None:
        seen = looked(containers.by_name("docker"), self.folder)
        self.assertEqual((seen["pid"], seen["uid"], seen["kcore"], seen["repository"]), (1, 0, 0, False))
        self.assertTrue(seen["root"] and seen["data"] and seen["device"] and seen["vmstat"])
        self.assertFalse(seen["ptrace"])
        # CAP_SYS_PTRACE and CAP_SYS_ADMIN, linux/capability.h.
        self.assertFalse(seen["capabilities"] & (1 << 19 | 1 << 21))
        self.assertFalse(os.path.exists("/written"))

    def test_a_strict_filter_refuses_to_trace(self) -> None:
        self.assertTrue(looked(containers.by_name("strict"), self.folder)["ptrace"])

    def test_an_ordinary_user_writes_to_the_data_only(self) -> None:
        seen = looked(containers.by_name("non-root"), self.folder)
        self.assertEqual((seen["uid"], seen["capabilities"], seen["root"], seen["data"]), (1000, 0, False, True))

    def test_files_of_the_host_are_masked(self) -> None:
        self.assertEqual(looked(containers.by_name("bare-proc"), self.folder)["vmstat"], "")


class Words(unittest.TestCase):
    def test_programs_lie_elsewhere_inside(self) -> None:
        self.assertEqual(containers.here(os.path.join(TESTS, "workloads/train.py")), "/opt/tests/workloads/train.py")
        self.assertEqual(containers.here(os.path.join(BUILDS, "release/trainmon")), "/opt/builds/release/trainmon")
        self.assertEqual(containers.here("/tmp/elsewhere"), "/tmp/elsewhere")

    def test_an_unknown_kind_is_named_beside_those_that_there_are(self) -> None:
        with self.assertRaisesRegex(KeyError, "no container is called 'x'.*docker"):
            containers.by_name("x")

    def test_the_table_names_what_was_wrong(self) -> None:
        kind = containers.by_name("docker")
        right = Result("a", 1, "io", None, "io", confidence=0.9, class_right=True, culprit_right=True)
        wrong = Result("b", 1, "io", None, "cpu", "main-thread", 0.5)
        row = containers.row(kind, [right, wrong])
        self.assertFalse(row.all_right)
        self.assertEqual(row.cells[1:], ("2", "50%", "–", "1 of 1", "b: cpu/main-thread 0.50"))
        self.assertTrue(containers.row(kind, [right]).all_right)
        self.assertFalse(containers.row(kind, []).all_right)
        self.assertEqual(len(containers.table([row]).splitlines()), 3)

    def test_all_workloads_that_run_there_exist(self) -> None:
        self.assertEqual([by_name(name).name for name in containers.WORKLOADS], list(containers.WORKLOADS))

    def test_the_drivers_pids_are_those_outside(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "device")
            simulated_gpu.create(path)
            simulated_gpu.name_owner(path, 1)
            containers.name_owners(path, {1: 4711})
            self.assertEqual(simulated_gpu.owner(path), 4711)
            self.assertEqual(simulated_gpu.owner(path, 1), 0)
        self.assertEqual(containers.inner(os.getpid()), os.getpid())
