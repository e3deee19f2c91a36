"""Tests of how `measure agree` reads a log and compares it."""

from __future__ import annotations

import os
import tempfile
import unittest

from measure.evaluation import agreement
from measure.evaluation.agreement import Agreement, LoggedRow


class Rows(unittest.TestCase):
    def test_rows_are_placed_on_the_monotonic_clock(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("timestamp,elapsed_s,input_wait_pct\r\n")
                file.write("1970-01-01T00:01:41.000+00:00,1.000,\r\n")
                file.write("1970-01-01T00:01:43.000+00:00,3.000,60.00\r\n")
            rows = agreement.rows_of(path, 90.0)
        self.assertEqual(rows, [LoggedRow(10.0, 11.0, None), LoggedRow(11.0, 13.0, 60.0)])

    def test_the_mean_is_by_length_and_leaves_out_what_is_not_known(self) -> None:
        rows = [LoggedRow(0, 1, None), LoggedRow(1, 2, 90.0), LoggedRow(2, 4, 60.0)]
        self.assertEqual(agreement.mean_wait(rows), 70.0)
        self.assertEqual(agreement.mean_wait(rows, 2.0), 60.0)
        self.assertIsNone(agreement.mean_wait(rows[:1]))


class Table(unittest.TestCase):
    def test_what_is_off_is_summed_up(self) -> None:
        one = Agreement("pinned", 80.0, 81.0, 79.5, 78.0, 79.0, 80.0)
        self.assertEqual(one.off(), [1.0, 0.5, 2.0, 1.5])
        text = agreement.table([one])
        self.assertIn("| `pinned` | 80.0 | 81.0 | 79.5 | 78.0 | 79.0 | 80.0 |", text)
        self.assertIn("Off by 1.2 points in the mean, 2.0 at most", text)
        self.assertIn("log and recording are 1.5 points apart in the mean, 1.5 at most", text)
