"""Tests of how the truth of a workload is read."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest

from measure.evaluation import slowdown
from measure.paths import TESTS
from unit.support import known, written
from workloads import stages
from workloads.truth import StageClock, Truth, stall_period


class TruthWindows(unittest.TestCase):
    STEPS = [{"a": 10.0 + n, "b": 10.5 + n, "c": 10.9 + n, "busy": 0.3 * n, "sync": 0.1 * n} for n in range(10)]

    def test_waits_are_clipped_to_the_window(self) -> None:
        truth = written(self.STEPS)
        self.assertAlmostEqual(known(truth.wait_share(10.0, 19.0)), 0.5)
        self.assertAlmostEqual(known(truth.wait_share(10.25, 10.75)), 0.5)
        self.assertAlmostEqual(known(truth.wait_share(10.5, 10.9)), 0.0)

    def test_a_wait_in_progress_counts(self) -> None:
        self.assertAlmostEqual(known(written(self.STEPS).wait_share(19.9, 21.9)), 1.0)

    def test_steps_and_device_time(self) -> None:
        truth = written(self.STEPS)
        self.assertAlmostEqual(known(truth.steps_per_s(10.0, 19.0)), 1.0)
        self.assertAlmostEqual(known(truth.busy_share(11.0, 18.0)), 0.3)
        self.assertAlmostEqual(known(truth.sync_share(11.0, 18.0)), 0.1)

    def test_a_torn_line_is_not_there_yet(self) -> None:
        truth = written([{"workload": "x", "pid": 1}, *self.STEPS, {"event": "ready", "t": 1.0}], '{"a": 3')
        self.assertEqual((len(truth.steps), truth.header["pid"], truth.events["ready"]["t"]), (10, 1, 1.0))

    def test_nothing_gives_nothing(self) -> None:
        self.assertIsNone(Truth().wait_share(0.0, 1.0))
        self.assertIsNone(Truth().busy_share(0.0, 1.0))
        self.assertIsNone(written(self.STEPS).wait_share(12.0, 12.0))
        self.assertEqual(Truth.read("/nonexistent/truth").steps, [])


class Stalls(unittest.TestCase):
    #: Measured: four workers that take 400 ms each, steps of 20 ms.
    FOUR = [0.288, 0.011, 0.001, 0.002, 0.313, 0.004, 0.0, 0.001] * 4

    def test_the_period_of_stalls(self) -> None:
        uneven = [0.3 if n in (3, 4, 11, 13, 22, 29) else 0.001 for n in range(32)]
        for waits, seconds, period in (
            (self.FOUR, 3.0, 4),
            # One that is late does not hide the rhythm.
            ([*self.FOUR, 0.001, *self.FOUR], 6.0, 4),
            # Rare ones.
            ([1.2 if n % 25 == 24 else 0.001 for n in range(160)], 12.0, 25),
            # No rhythm.
            *((waits, 3.0, None) for waits in ([0.3] * 32, [0.001] * 32, uneven, self.FOUR[:5], [])),
            # Stalls that cost nothing.
            (self.FOUR, 600.0, None),
            ([wait / 200 for wait in self.FOUR], 0.01, None),
        ):
            self.assertEqual(stall_period(waits, seconds), period, waits)


class StageClocks(unittest.TestCase):
    TEXT = (
        "10.0 0 0 0 0 0 load\n12.0 1.0 0 0.5 0 0 -\n16.0 1.0 0 0.5 0 0 decode\n18.0 1.0 2.0 0.5 0.25 0.125 transform\n"
    )

    def test_shares_of_windows(self) -> None:
        clock = StageClock.parse(self.TEXT)
        self.assertEqual(clock.shares(12.0, 16.0), dict.fromkeys(stages.NAMES, 0.0))
        for begin, end, stage, share in ((10.0, 12.0, "load", 0.5), (16.0, 17.0, "decode", 1.0), (10.0, 18.0, "hand_over", 0.125 / 8)):
            self.assertAlmostEqual(known(clock.shares(begin, end))[stage], share)

    def test_the_stage_that_was_begun_last_goes_on(self) -> None:
        shares = known(StageClock.parse(self.TEXT).shares(16.0, 20.0))
        self.assertAlmostEqual(shares["transform"], 0.5)
        self.assertAlmostEqual(shares["decode"], 0.5)

    def test_processes_that_came_late(self) -> None:
        clock = StageClock.parse(self.TEXT)
        self.assertIsNone(clock.shares(4.0, 18.0))
        self.assertAlmostEqual(known(clock.shares(9.0, 18.0))["decode"], 0.25)
        self.assertIsNone(StageClock.parse("").shares(0.0, 1.0))
        self.assertEqual(len(StageClock.parse(self.TEXT + "19.0 1.0").entries), 4)


class StageBook(unittest.TestCase):
    """What a loader's processes write is what they did."""

    PROGRAM = """
import sys, time
from workloads import stages
from multiprocessing import get_context

class Slow:
    def __reduce__(self):
        time.sleep(0.05)
        return (int, (1,))

def work(queue):
    stages.time_worker(0)
    for _ in range(4):
        with stages.LOAD:
            time.sleep(0.05)
        with stages.TRANSFORM:
            time.sleep(0.1)
        time.sleep(0.02)
        queue.put(Slow())
        time.sleep(0.1)

if __name__ == "__main__":
    context = get_context("fork")
    queue = context.Queue()
    with stages.DECODE:
        time.sleep(0.11)
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    for _ in range(4):
        queue.get()
    worker.join()
    print(worker.pid)
"""

    def test_a_worker_and_its_parent(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "truth.jsonl")
            done = subprocess.run(
                [sys.executable, "-c", self.PROGRAM], capture_output=True, check=True, timeout=60,
                env={**os.environ, stages.VARIABLE: path + ".stages", "PYTHONPATH": TESTS},
            )  # fmt: skip
            truth = Truth()
            truth.read_stages(path)
        worker = truth.stages.pop(int(done.stdout)).entries[-1][1]
        (parent,) = truth.stages.values()
        self.assertGreaterEqual(parent.entries[-1][1][stages.NAMES.index("decode")], 0.11)
        self.assertEqual(sum(parent.entries[-1][1]), parent.entries[-1][1][stages.NAMES.index("decode")])
        # The last lines may be up to a tenth of a second behind: at least three rounds are in them.
        for name, least, most in (
            ("load", 0.15, 0.6), ("decode", 0.0, 0.0), ("transform", 0.3, 1.2), ("collate", 0.06, 0.4),
            ("hand_over", 0.1, 0.6),
        ):  # fmt: skip
            self.assertTrue(least <= worker[stages.NAMES.index(name)] <= most, (name, worker))


class Pauses(unittest.TestCase):
    def test_gaps_in_a_window(self) -> None:
        truth = written([{"a": 10.0 + n, "b": 10.0 + n, "c": 11.0 + n, "gap": 0.001 * n} for n in range(9)])
        self.assertAlmostEqual(known(truth.longest_gap(10.0, 14.5)), 0.004)
        self.assertAlmostEqual(known(truth.longest_gap(14.5, 14.6)), 0.004)
        self.assertIsNone(written([{"a": 1.0, "b": 1.0, "c": 2.0}]).longest_gap(0.0, 9.0))
        self.assertIn("4.00 ms", slowdown.report_pauses({False: [0.004], True: []}))
