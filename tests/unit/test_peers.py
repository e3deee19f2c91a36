"""Tests of `measure peers` and of what measures a program in its terminal, against programs with known habits."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

from measure.evaluation import cost, peers
from measure.monitor import Monitor
from measure.terminal import Terminal
from unit.support import known


def a_row(
    name: str, *steady: float, why_not: str = "", interactive: bool = True, steps: tuple[float, ...] = ()
) -> peers.Row:
    costs = [cost.Cost("", 45.0, 9.0, None, one, None, 8.0, 0) for one in steady]
    return peers.Row(name, 300, interactive, costs, list(steps), why_not)


class Reports(unittest.TestCase):
    def rows(self) -> list[peers.Row]:
        rows = [a_row("trainmon", 0.5, 0.7, 0.6, steps=(0.99, 1.0)), a_row("trainmon --no-stacks", 0.4)]
        rows += [a_row(name, 1.5) for name in ("htop", "iotop", "nvitop")]
        return [*rows, a_row("py-spy record", 1.5, interactive=False)]

    def test_medians_and_ratios(self) -> None:
        text = peers.report(self.rows())
        self.assertRegex(text, r"trainmon +300 +- +0\.60 +- +8\.0 +- +- +- +0\.995 +3\n")
        self.assertIn("300 processes: trainmon takes 0.40 of what htop takes", text)
        self.assertIn("300 processes: 0.10 of what htop + iotop + nvitop + py-spy record take together", text)
        # It shows no processes: no ratio of its own, nor one to trainmon itself.
        self.assertNotIn("of what py-spy record takes", text)
        self.assertNotIn("of what trainmon", text)

    def test_what_was_not_measured_is_named_and_in_no_sum(self) -> None:
        rows = [row for row in self.rows() if row.name != "iotop"]
        rows.append(a_row("iotop", why_not="iotop not found; apt-get install iotop-c"))
        text = peers.report(rows)
        self.assertRegex(text, r"iotop +300  not measured: iotop not found; apt-get install iotop-c\n")
        self.assertNotIn("together", text)
        self.assertNotIn("iotop", peers.as_markdown(rows))
        self.assertIn("| trainmon | 300 | - | 0.60 | - | 8.0 | - | - | - | 0.995 | 3 |\n", peers.as_markdown(rows))


class Environments(unittest.TestCase):
    def test_settings_are_its_own_and_the_library_is_found_by_both_names(self) -> None:
        btop = next(peer for peer in peers.PEERS if peer.name == "btop")
        with tempfile.TemporaryDirectory() as place:
            library = os.path.join(place, "fake.so")
            for _ in range(2):
                given = peers.environment_of(btop, Monitor("trainmon", library), place, "device")
            with open(os.path.join(given["XDG_CONFIG_HOME"], "btop/btop.conf"), encoding="utf-8") as file:
                self.assertIn("update_ms = 1000", file.read())
            for name in peers.LIBRARIES:
                self.assertEqual(os.readlink(os.path.join(given["LD_LIBRARY_PATH"], name)), library)


class InTerminal(unittest.TestCase):
    """A program that draws, computes for a known time and counts its rests."""

    PROGRAM = """
import os, select, sys, time, tty
tty.setraw(0)
os.write(1, b"x" * 1000)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
while True:
    ready, _, _ = select.select([0], [], [], 0.01)
    if ready and os.read(0, 1) == sys.argv[1].encode():
        break
"""

    def run_it(self, leaves_at: str) -> cost.Cost:
        with Terminal([sys.executable, "-c", self.PROGRAM, leaves_at], dict(os.environ)) as terminal:
            return cost.in_terminal("program", terminal, 3.0)

    def test_cpu_frame_bytes_and_switches_are_counted(self) -> None:
        found = self.run_it("q")
        self.assertEqual(found.status, 0)
        self.assertGreater(found.cpu_pct, 100 * 0.3 / found.seconds)
        self.assertLess(known(found.first_frame_ms), 2500)
        self.assertAlmostEqual(known(found.bytes_per_s), 1000 / found.seconds, delta=1)
        self.assertGreater(known(found.switches_per_s), 20)
        self.assertGreater(known(found.peak_rss_mib), 2)

    def test_who_does_not_leave_at_the_key_is_ended(self) -> None:
        found = self.run_it("z")
        self.assertEqual(found.status, -15)
        self.assertGreater(found.seconds, 3.0 + cost.LEAVING_S - 0.3)
