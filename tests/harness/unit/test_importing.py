"""`trainmon import` of a torch.profiler trace says what trainmon's own recording of the same process says. Needs the release build and
torch.
"""

from __future__ import annotations

import importlib.util
import os
import unittest

from harness.importing.command import POINTS, compare
from harness.paths import TRAINMON


@unittest.skipUnless(importlib.util.find_spec("torch") and os.path.exists(TRAINMON), "needs torch and the release build")
class Importing(unittest.TestCase):
    """A wait for data is as long in both, and what a trace does not show gets no verdict."""

    def test_the_wait_for_data_is_that_of_the_recording(self) -> None:
        compared = compare("waits-for-workers", stack=False, step=True, seconds=8.0)
        wait, of_trace = compared.waits()
        self.assertLessEqual(abs(wait - of_trace), POINTS, compared.row())
        self.assertEqual(compared.imported["class"], "data-loader")
        self.assertIsNone(compared.imported["cause"], "the trace does not show the workers")

    def test_a_sleep_is_not_taken_for_work(self) -> None:
        compared = compare("sleeps", stack=False, step=True, seconds=6.0)
        self.assertEqual(compared.imported["class"], "unknown", compared.row())


if __name__ == "__main__":
    unittest.main()
