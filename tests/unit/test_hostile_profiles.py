"""trainmon answers bad traces with one line or with possible figures, soon and in little memory. Needs the release build."""

from __future__ import annotations

import json
import os
import unittest

from measure.paths import TRAINMON
from measure.profiles import hostile
from measure.profiles.run import Ran

CASE = hostile.Case("", hostile.holding(b""))


def told(case: hostile.Case = CASE, status: int = 0, output: str = "{}", errors: str = "", wall_s: float = 0.1, peak_mib: float = 10.0) -> list[str]:
    return list(hostile.faults(case, Ran(status, output, errors, wall_s, wall_s, peak_mib, wall_s < hostile.SECONDS)))


class Judging(unittest.TestCase):
    """What counts as a bad answer."""

    def test_good_answers(self) -> None:
        self.assertEqual(told(), [])
        self.assertEqual(told(status=1, output="", errors="trainmon: a.json is cut off: record it anew\n"), [])

    def test_bad_answers(self) -> None:
        self.assertEqual(told(wall_s=60.0), ["took 60.0 s"])
        self.assertEqual(told(peak_mib=400.0), ["took 400 MiB"])
        self.assertEqual(told(status=-11), ["exit -11"])
        self.assertEqual(told(status=1, output="", errors="one\ntwo\n"), ["2 lines of error"])
        self.assertEqual(told(status=1, output="", errors="\x1b[2J\n"), ["an error that nobody can read"])
        self.assertEqual(told(status=1, output="{}", errors="why\n"), ["an error, but also an answer"])
        self.assertIn("exit 101", told(status=101, errors="thread 'main' panicked at src/main.rs"))
        self.assertEqual(told(output='{"x": [{"y": NaN}]}'), [".x.y is nan"])
        self.assertEqual(told(output="half"), ["no JSON: Expecting value: line 1 column 1 (char 0)"])

    def test_what_the_file_is_decides_as_well(self) -> None:
        readable, refused = hostile.Case("", CASE.write, read=True), hostile.Case("", CASE.write, refused=("xplane",))
        self.assertEqual(told(readable, 1, "", "why\n"), ["refused: why"])
        self.assertEqual(told(readable), ["no profile"])
        self.assertEqual(told(refused), ["not refused"])
        self.assertEqual(told(refused, 1, "", "why\n"), ["does not say xplane: why"])

    def test_shares_must_add_up(self) -> None:
        gpu = {"index": 0, "busy": 0.5, "compute": 0.5, "communication": 0.0, "exposed": 0.0, "copy": 0.0, "kernels": 4, "idle_by": {"sync": 0.5}}
        self.assertEqual(told(output=json.dumps({"profile": {"window_ms": 1.0, "devices": [gpu]}})), [])
        self.assertEqual(
            told(output=json.dumps({"profile": {"window_ms": -1.0, "devices": [{**gpu, "busy": 0.7}, {**gpu, "copy": 1.2}]}})),
            ["GPU 0: busy and idle add up to 1.200", "GPU 0: a share below 0 or above 1", "a window of -1.0 ms"],
        )


@unittest.skipUnless(os.path.exists(TRAINMON), "needs the release build")
class Hostile(unittest.TestCase):
    def test_bad_files_are_answered(self) -> None:
        for case, ran, found in hostile.tried(TRAINMON, hostile.cases(small=True)):
            with self.subTest(case.name + case.ending):
                self.assertEqual(found, [], ran.message())


if __name__ == "__main__":
    unittest.main()
