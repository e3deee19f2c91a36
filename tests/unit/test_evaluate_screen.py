"""Tests of the arithmetic of `measure evaluate --screen`."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from measure.evaluation import screen
from measure.terminal import END_OF_FRAME, Terminal
from unit.support import InFolder


class Numbers(unittest.TestCase):
    def test_bytes_of_whole_seconds(self) -> None:
        arrivals = [(4.0, 9), (10.0, 1), (10.999, 2), (12.5, 4), (13.0, 8), (13.2, 16)]
        self.assertEqual(screen.seconds_of(arrivals, 10.0, 13.9), [3, 0, 4])
        self.assertEqual(screen.seconds_of(arrivals, 10.0, 10.5), [])
        self.assertEqual(screen.seconds_of([], 10.0, 5.0), [])


class Switches(unittest.TestCase):
    STATUS = "Name:\tx\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n"

    def test_a_status_file(self) -> None:
        self.assertEqual(screen.voluntary(self.STATUS), 41)
        self.assertIsNone(screen.voluntary("nonvoluntary_ctxt_switches:\t7\n"))
        self.assertIsNone(screen.voluntary("voluntary_ctxt_switches:\t-\n"))
        self.assertIsNone(screen.voluntary(""))

    def test_threads_by_name_and_the_main_one_apart(self) -> None:
        before = {10: ("trainmon", 100), 11: ("lane", 50), 12: ("gone", 9)}
        after = {10: ("trainmon", 103), 11: ("lane", 90), 13: ("lane", 5), 14: ("trainmon", 1)}
        woke = screen.difference("x", 10, before, after, 10.0)
        self.assertEqual((woke.main, woke.others), (3, {"lane": 45, "trainmon": 1}))

    def test_a_real_process_that_sleeps_wakes_up(self) -> None:
        program = "import time\nwhile True: time.sleep(0.01)"
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            try:
                before = screen.threads(process.pid)
                for _ in range(100):
                    subprocess.run(["sleep", "0.1"], check=True)
                    woke = screen.difference("x", process.pid, before, screen.threads(process.pid), 1.0)
                    if woke.main >= 5:
                        break
                self.assertGreaterEqual(woke.main, 5)
            finally:
                process.kill()


class Reports(unittest.TestCase):
    def test_limits_are_named_and_what_is_missing_too(self) -> None:
        text = screen.report(
            [screen.Traffic("normal", [100, 7000, 6500]), screen.Traffic("low bandwidth", why_not="unknown option")],
            [screen.WakeUps("an hour's interval", 10.0, 0, {"lane": 500, "idle": 0})],
            [screen.KeyTimes("sources answer", [1.0, 2.0, 3.0]), screen.KeyTimes("sources hang", [99.0], ["nvml"])],
        )
        self.assertRegex(text, r"normal +6500 +4533 +7000 +TOO MANY: at most 6144")
        self.assertRegex(text, r"low bandwidth +skipped: unknown option")
        self.assertRegex(text, r"an hour's interval +0.00 +50.00 +lane 50.0\n")
        self.assertRegex(text, r"sources answer +2.0 +3.0 +3.0 +ok: p95 at most 30\n")
        self.assertRegex(text, r"sources hang +99.0 +99.0 +99.0 +TOO SLOW: p95 at most 30; hung: nvml")


class Terminals(InFolder):
    """The measuring itself, against a program that answers after a known time."""

    PROGRAM = f"""#!{sys.executable}
import os, time, tty
tty.setraw(0)
os.write(1, b"hello")
while True:
    key = os.read(0, 1)
    os.write(1, b"part")
    time.sleep(0.1)
    os.write(1, {END_OF_FRAME!r})
    if key == b"x":
        break
"""

    def test_the_time_to_a_frame_ends_with_the_frame(self) -> None:
        with Terminal([self.executable("program", self.PROGRAM)], dict(os.environ)) as terminal:
            while not terminal.arrivals:
                terminal.watch(0.1)
            self.assertGreaterEqual(terminal.frame_after("?"), 0.1)
            self.assertGreater(terminal.frame_after("x"), 0.09)
            with self.assertRaisesRegex(RuntimeError, "the screen ended"):
                terminal.watch(10.0)
            self.assertEqual(sum(len(piece) for _, piece in terminal.arrivals), 5 + 2 * (4 + len(END_OF_FRAME)))

    def test_the_silent_py_spy_says_nothing(self) -> None:
        path = screen.silent_py_spy(self.folder)
        with self.assertRaises(subprocess.TimeoutExpired):
            subprocess.run([path, "--version"], timeout=0.3, check=False)
