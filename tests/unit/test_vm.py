"""Tests of what `measure vm` can do without a virtual machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from measure.paths import MEASURE, TESTS
from measure.vm import image, machine, packages, results, unit_tests
from measure.vm.cpus import CPUS
from measure.vm.environments import ENVIRONMENTS, Environment
from measure.vm.guest import runner, switches
from unit.support import known

VERDICT = {
    "class": "data-loader",
    "cause": "too-few-workers",
    "confidence": 0.92,
    "seen": {"syscall": "ok", "cgroup": "v2"},
    "advice": [{"title": "Raise num_workers from 1 to 3"}],
}


def environment(**fields: Any) -> Environment:
    return Environment("here", "something else", **fields)


def line(**fields: Any) -> dict[str, Any]:
    return {"environment": "here", "rc": 0, "doctor": {"yama": ["limited", "ptrace_scope 1"]}, "verdict": VERDICT, **fields}


class WhatGuestsPrint(unittest.TestCase):
    def test_only_marked_whole_objects_are_taken(self) -> None:
        text = "\n".join(
            (
                "[    1.0] kernel: trainmon-vm: {\"environment\": \"no\"}",
                'trainmon-vm: {"environment": "a", "rc": 0}',
                "trainmon-vm: [1, 2]",
                "trainmon-vm: \x1b[31m",
                "trainmon-vm: " + json.dumps("x" * machine.LONGEST_LINE),
                'trainmon-vm: {"environment": "b", "rc"',
            )
        )
        self.assertEqual(machine.parsed(text), [{"environment": "a", "rc": 0}])

    def test_runner_and_machine_use_one_mark(self) -> None:
        self.assertEqual(runner.MARK, machine.MARK)

    def test_text_of_a_guest_is_not_endless(self) -> None:
        self.assertEqual(len(machine.printable("x" * 500)), 160)

    def test_a_verdict_of_another_shape_is_none(self) -> None:
        self.assertIsNone(runner.kept("trainmon: no such process"))
        self.assertIsNone(runner.findings(""))


class Rows(unittest.TestCase):
    def test_an_expected_verdict_is_right(self) -> None:
        row = results.row(environment(), line())
        self.assertEqual((row.right, row.verdict, row.why), (True, "data-loader/too-few-workers 0.92", ()))
        self.assertEqual(row.seen, "yama limited")

    def test_shares_that_are_not_known_are_dashes(self) -> None:
        both = line(verdict={**VERDICT, "shares": {"input_wait": 0.813}}, truth={"wait": 0.79})
        self.assertEqual(results.row(environment(), both).waits, "81%, 79%")
        self.assertEqual(results.row(environment(), line(truth=None)).waits, "–, –")

    def test_another_verdict_is_wrong_and_worse_when_sure(self) -> None:
        for sure, why in ((0.95, "sure and wrong"), (0.5, "another verdict")):
            row = results.row(environment(), line(verdict={**VERDICT, "class": "gpu", "confidence": sure}))
            self.assertEqual((row.right, row.why), (False, (why,)))

    def test_unknown_is_right_only_where_it_may_be(self) -> None:
        unknown = line(verdict={**VERDICT, "class": "unknown", "cause": None, "confidence": 0.0})
        self.assertFalse(results.row(environment(), unknown).right)
        self.assertTrue(results.row(environment(may_not_know=True), unknown).right)

    def test_rights_that_doctor_did_not_see_are_wrong(self) -> None:
        self.assertTrue(results.row(environment(seen={"yama": ("limited", "ptrace_scope 1")}), line()).right)
        for wanted in (("ok",), ("limited", "ptrace_scope 2")):
            self.assertFalse(results.row(environment(seen={"yama": wanted}), line()).right)
        self.assertFalse(results.row(environment(seen={"pressure": ("ok",)}), line()).right)

    def test_advice_beyond_the_cores_is_wrong(self) -> None:
        self.assertEqual(results.advised_workers(VERDICT), 3)
        self.assertTrue(results.row(environment(workers_at_most=3), line()).right)
        self.assertFalse(results.row(environment(workers_at_most=2), line()).right)

    def test_a_function_that_is_not_named_is_wrong(self) -> None:
        named = line(verdict={**VERDICT, "chain": [{"at": "compute_metrics (train.py:165)"}]})
        self.assertTrue(results.row(environment(function="compute_metrics"), named).right)
        self.assertEqual(results.row(environment(function="compute_metrics"), line()).why, ("names no compute_metrics",))

    def test_an_empty_log_is_wrong(self) -> None:
        full = {"rows": 12, "filled": list(results.LOGGED)}
        self.assertTrue(results.row(environment(logged=True), line(log=full)).right)
        for log, why in (
            ({**full, "filled": list(results.LOGGED[1:])}, "empty in the log: timestamp"),
            ({**full, "rows": 1}, "1 rows in the log"),
            ({"error": "no space left"}, "no log: no space left"),
            (None, "no log: nothing came back"),
        ):
            self.assertEqual(results.row(environment(logged=True), line(log=log)).why, (why,))

    def test_what_did_not_come_is_no_success(self) -> None:
        for given in (None, {"skipped": "hidepid: no"}, {"error": "Traceback\nOSError: x"}):
            self.assertIsNone(results.row(environment(), given, "not done after 9 s").right)
        refused = results.row(environment(), line(verdict=None, rc=3, message="may not be read"))
        self.assertEqual((refused.right, refused.verdict), (False, "exit status 3"))

    def test_the_table_is_markdown(self) -> None:
        rows = [results.row(environment(), line()), results.row(environment(), None, "no | boot")]
        lines = results.table(rows).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({one.count("|") for one in lines}, {len(results.HEADINGS) + 1})
        self.assertEqual(len({len(one) for one in lines}), 1)


class Plans(unittest.TestCase):
    def test_names_are_unique_and_boots_have_one_meaning(self) -> None:
        names = [one.name for one in ENVIRONMENTS]
        self.assertEqual(len(names), len(set(names)))
        boots = {one.boot for one in ENVIRONMENTS}
        self.assertEqual(len(boots), len({boot.name for boot in boots}))
        self.assertTrue({boot.only for boot in boots} <= {None, *CPUS})

    def test_each_kernel_of_a_cpu_has_a_folder_of_its_own(self) -> None:
        x86, arm = CPUS["x86_64"], CPUS["aarch64"]
        releases = [packages.Release("trixie", x86), packages.Release("trixie", arm), packages.Release("trixie", arm, "arm64-16k")]
        folders = [release.folder for release in releases]
        self.assertEqual(folders, ["trixie-cloud-amd64", "trixie-cloud-arm64", "trixie-arm64-16k"])

    def test_every_switch_is_known_in_the_guest(self) -> None:
        for one in ENVIRONMENTS:
            self.assertEqual(set(one.plan()["switches"]) - set(switches.SWITCHES), set(), one.name)

    def test_what_cannot_be_taken_back_comes_last(self) -> None:
        for boot in {one.boot for one in ENVIRONMENTS}:
            scopes = [one.switches.get("ptrace_scope") for one in ENVIRONMENTS if one.boot == boot]
            first = scopes.index(3) if 3 in scopes else len(scopes)
            self.assertEqual(set(scopes[first:]) - {3}, set(), boot.name)

    def test_the_jobs_take_their_arguments(self) -> None:
        for job in {one.job[0] for one in ENVIRONMENTS}:
            with tempfile.TemporaryDirectory() as folder:
                wrong = subprocess.run(
                    [sys.executable, f"{MEASURE}/vm/jobs/train.py", *job, "--truth", f"{folder}/t", "--wrong"],
                    env={**os.environ, "PYTHONPATH": TESTS}, capture_output=True, text=True, check=False,
                )  # fmt: skip
                self.assertIn("the following arguments are required: --device", wrong.stderr)


class Parts(unittest.TestCase):
    def test_the_archive_is_what_cpio_writes(self) -> None:
        content = image.cpio([("bin", 0o040755, b""), ("bin/x", 0o100755, b"hello")])
        self.assertEqual(content[:6], b"070701")
        self.assertEqual(len(content) % 4, 0)
        name = content.index(b"bin/x\0")
        size = int(content[name - 110 + 54 : name - 110 + 62], 16)
        self.assertEqual(size, 5)
        start = name - 110 + (110 + len("bin/x") + 1 + 3) // 4 * 4
        self.assertEqual(content[start : start + size], b"hello")
        self.assertIn(b"TRAILER!!!", content)

    def test_modules_load_after_those_that_they_need(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kernel = Path(folder) / "kernel"
            kernel.mkdir()
            for name, needs in (("a", "b-c"), ("b-c", "d"), ("d", "")):
                (kernel / f"{name}.ko").write_bytes(b"\x7fELF\0depends=" + needs.encode() + b"\0retpoline=Y\0")
            self.assertEqual(list(packages.with_dependencies(Path(folder), ["a", "missing"])), ["d", "b-c", "a"])

    def test_the_kernel_package_is_found_or_named(self) -> None:
        for name, kernel in (
            ("linux-image-6.1.0-50-cloud-amd64", "cloud-amd64"),
            ("linux-image-6.1.0-50-cloud-arm64", "cloud-arm64"),
            ("linux-image-6.12.117+deb13-arm64-16k", "arm64-16k"),
        ):
            self.assertEqual(packages.kernel_package([name, f"linux-image-{kernel}", "kmod"], kernel), name)
        with self.assertRaisesRegex(packages.Unavailable, "linux-image-cloud-amd64 depends on no kernel"):
            packages.kernel_package(["kmod", "linux-image-6.1.0-50-cloud-arm64"], "cloud-amd64")

    def test_a_missing_program_is_named_with_its_fix(self) -> None:
        with self.assertRaisesRegex(packages.Unavailable, "cargo build --release"):
            image.tools(Path("/nowhere/trainmon"), Path("/nowhere/py-spy"), Path("/nowhere/nvml"), "cargo build --release")


class Machines(unittest.TestCase):
    def run_script(self, script: str, limit_s: float = 20.0) -> tuple[list[dict[str, Any]], str | None]:
        with tempfile.TemporaryDirectory() as folder:
            return machine.run(["sh", "-c", f"cd {folder}; {script}"], Path(folder), limit_s)

    def test_what_came_before_the_end_is_kept(self) -> None:
        done = """echo 'trainmon-vm: {"environment": "a"}' >results; echo 'trainmon-vm: {"done": true}' >>results"""
        self.assertEqual(self.run_script(done), ([{"environment": "a"}, {"done": True}], None))

    def test_an_early_end_names_the_last_words(self) -> None:
        lines, why = self.run_script("printf 'x\\nKernel panic\\033[0m\\n' >console")
        self.assertEqual(lines, [])
        self.assertRegex(known(why), r"stopped early.*Kernel panic \[0m")

    def test_a_machine_that_hangs_is_ended_with_all_its_processes(self) -> None:
        began = time.monotonic()
        lines, why = self.run_script("""echo 'trainmon-vm: {"environment": "a"}' >results; sleep 60 & sleep 60""", 1.0)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual((lines, why), ([{"environment": "a"}], "not done after 1 s"))

    def test_its_failure_is_told(self) -> None:
        _, why = self.run_script("echo 'no such kernel' >&2; exit 1")
        self.assertEqual(why, "qemu failed: no such kernel")


class Arguments(unittest.TestCase):
    def called(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, MEASURE, "vm", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_a_name_that_is_none_is_bad_usage(self) -> None:
        done = self.called("--only", "base,nonsense")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.strip(), f"measure vm: no environment nonsense on {platform.machine()}; see them with --list")

    def test_the_list_names_every_environment_of_a_cpu(self) -> None:
        for cpu in CPUS:
            done = self.called("--list", "--cpu", cpu)
            names = [one.name for one in ENVIRONMENTS if one.boot.only in (None, cpu)]
            self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], names)


class UnitTests(unittest.TestCase):
    def test_what_failed_is_named_with_its_first_words(self) -> None:
        line = {"passed": 3, "ignored": 1, "took_s": 2.4, "failed": {"page::fits": "src/page.rs:9:5:\nno \x1b page"}}
        passed, failed, texts = unit_tests.reported(line, "sample", None)
        self.assertEqual((passed, failed), (3, 1))
        self.assertEqual(texts[0], "sample       3 passed, 1 failed, 1 ignored, 2 s")
        self.assertNotIn("\x1b", texts[1])

    def test_a_crate_without_an_answer_has_failed(self) -> None:
        for given, why in ((None, "not done after 9 s"), ({"error": "exit status 1: no such file"}, "exit status 1: no such file")):
            self.assertEqual(unit_tests.reported(given, "base", "not done after 9 s"), (0, 1, [f"base         not done: {why}"]))

    def test_the_guest_understands_what_test_programs_print(self) -> None:
        printed = """running 2 tests
test a ... ok
test b::c ... FAILED

failures:

---- b::c stdout ----

thread 'b::c' (12) panicked at src/b.rs:3:9:
no such page

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "program")
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\nexit 101\n")
            program.chmod(0o755)
            found = runner.tested({"program": str(program), "crate": folder, "seconds": 9})
        self.assertEqual((found["passed"], found["ignored"]), (1, 0))
        self.assertEqual(found["failed"], {"b::c": "src/b.rs:3:9:\nno such page"})
