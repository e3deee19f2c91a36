"""The table of faults itself: what fails is said to fail."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import unittest

from measure.faults import table
from measure.faults.bench import FAULTS, Bench, Fault, Outcome, Run, Skipped, Wrong, rows


def result(made: Run) -> str:
    args = argparse.Namespace(trainmon=pathlib.Path("/bin/true"), examples=pathlib.Path("/"))
    return table.run(Fault("x", "y", made), args)[0]


def raising(error: Exception) -> Run:
    def made(_bench: Bench) -> Outcome:
        raise error

    return made


class Table(unittest.TestCase):
    def test_every_fault_has_a_name_of_its_own_and_a_guard(self) -> None:
        names = [fault.name for fault in FAULTS]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(fault.guard for fault in FAULTS))

    def test_a_guard_that_does_not_hold_fails_and_so_does_whatever_goes_wrong(self) -> None:
        self.assertEqual(result(lambda _bench: Outcome("well")), "holds")
        self.assertEqual(result(raising(Wrong("no"))), "FAILS")
        self.assertEqual(result(raising(OSError("no"))), "FAILS")
        self.assertEqual(result(raising(Skipped("no"))), "skipped")

    def test_a_program_that_panics_or_does_not_end_fails(self) -> None:
        for script, within in (("echo panicked >&2", 5), ("sleep 60", 0.2)):
            def made(bench: Bench, script: str = script, within: float = within) -> Outcome:
                return Outcome(bench.end(bench.process(["sh", "-c", script], stderr=subprocess.PIPE), within).err)

            self.assertEqual(result(made), "FAILS", script)

    def test_rows_are_whole(self) -> None:
        self.assertEqual(rows(b"a,b\r\n1,2\r\n"), [{"a": "1", "b": "2"}])
        for torn in (b"a,b\r\n1,2", b"a,b\r\n1\r\n", b"a,b\r\n\0,2\r\n"):
            with self.assertRaises(Wrong):
                rows(torn)
