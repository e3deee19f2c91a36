"""Tests of how confidence is held against how often verdicts are right."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from measure.evaluation import calibrate, calibration, scoring
from unit.support import known


class Calibration(unittest.TestCase):
    def test_calibration(self) -> None:
        def result(confidence: float | None, right: bool, cause: str = "right", seen: str = "io") -> scoring.Result:
            return scoring.Result("w", 1, "io", "lock", seen, "lock", confidence, class_right=right, cause=cause)

        results = [result(0.9, True), result(0.8, True), result(0.8, False, "wrong"), result(0.6, True, "wrong")]
        # What claims nothing is not counted.
        others = [result(0.2, False, "wrong", "unknown"), result(None, False, "wrong", scoring.NO_VERDICT)]
        self.assertEqual(scoring.claims(results + others), [(0.9, True), (0.8, True), (0.8, False), (0.6, False)])
        self.assertAlmostEqual(known(scoring.brier(results + others)), (0.01 + 0.04 + 0.64 + 0.36) / 4)
        self.assertAlmostEqual(known(scoring.calibration_error(results)), (0.1 + 0.6 + 0.6) / 4)
        rows = [("0.6–0.7", 1, "0.60", "0%"), ("0.8–0.9", 2, "0.80", "50%"), ("0.9–1.0", 1, "0.90", "100%")]
        self.assertEqual(scoring.reliability(results), rows)
        self.assertRegex(scoring.tables(results), r"0\.8–0\.9 +2 +0\.80 +50%\n0\.9–1\.0 +1 +0\.90 +100%")
        self.assertIsNone(scoring.brier([]))
        self.assertIsNone(scoring.calibration_error([]))

    def test_confidence_is_fitted(self) -> None:
        def claims(confidence: float, right: int, wrong: int) -> list[calibration.Claim]:
            made = [(True, at) for at in range(right)] + [(False, right + at) for at in range(wrong)]
            return [calibration.Claim("", f"w{at}", at % 3 == 0, confidence, is_right) for is_right, at in made]

        # Even odds that are right three times of four, and 4 to 1 that are right twelve times of thirteen.
        seen = claims(0.5, 300, 100) + claims(0.8, 1200, 100)
        slope, shift = calibration.fit(seen)
        self.assertAlmostEqual(slope, 1.0, places=6)
        self.assertAlmostEqual(shift, math.log(3.0), places=6)
        self.assertAlmostEqual(calibration.fit_odds(seen), 3.0, places=6)
        shown = calibration.with_odds(3.0)
        self.assertEqual([shown(at) for at in (0.0, 0.3, 0.5, 0.7, 0.8, 0.92)], [0.0, 0.56, 0.75, 0.79, 0.92, 0.97])
        brier, off = calibration.figures(seen, shown)
        self.assertLess(known(off), 0.005)
        self.assertLess(known(brier), known(calibration.figures(seen, lambda confidence: confidence)[0]))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "claims.csv")
            calibration.write(path, seen)
            self.assertEqual(calibration.read(path), seen)

    def test_confidence_is_the_one_that_the_labelled_programs_ask_for(self) -> None:
        claims = calibration.read(calibrate.CSV)
        found = calibration.fit_odds([claim for claim in claims if not claim.held_out])
        with open(calibrate.SOURCE, encoding="utf-8") as file:
            odds = calibration.odds_in(file.read())
        # No surer than what was found.
        self.assertTrue(0.7 * found <= odds <= 1.1 * found, (odds, found))

    def test_new_runs_take_the_place_of_the_same_programs(self) -> None:
        def claim(options: str, program: str, confidence: float) -> calibration.Claim:
            return calibration.Claim(options, program, False, confidence, True)

        def runs(options: str, programs: list[str], *claims: calibration.Claim) -> calibration.Runs:
            return calibration.Runs(options, frozenset(programs), list(claims))

        known = [claim("", "a", 0.1), claim("", "b", 0.2), claim("", "a", 0.3), claim("--no-stacks", "a", 0.4)]
        again = runs("", ["a", "c"], claim("", "a", 0.5), claim("", "c", 0.6))
        self.assertEqual([one.confidence for one in calibration.taken_in(known, [again])], [0.5, 0.2, 0.4, 0.6])
        # It says nothing any more.
        self.assertEqual([one.confidence for one in calibration.taken_in(known, [runs("", ["a"])])], [0.2, 0.4])
        self.assertEqual(sorted(one.confidence for one in calibration.taken_in(known, [])), [0.1, 0.2, 0.3, 0.4])

    def test_calibration_is_made_anew_by_one_command(self) -> None:
        def result(name: str, confidence: float | None, right: bool, **more: Any) -> scoring.Result:
            return scoring.Result(
                name, 1, "io", "lock", "io", "lock", confidence, confidence, class_right=right, cause="right", **more
            )

        results = [result("decode", 0.8, True), result("fifo", 0.8, False, held_out=True)]
        results += [result("pinned", 0.5, n < 3) for n in range(4)]
        results += [scoring.Result("hung", 1, "idle", None, "unknown", None, 0.3, 0.3), result("collate", None, False, error="x")]
        with tempfile.TemporaryDirectory() as folder:
            runs, kept, source = (os.path.join(folder, name) for name in ("runs.json", "claims.csv", "calibration.rs"))
            with open(runs, "w", encoding="utf-8") as file:
                json.dump(scoring.as_json(results, skipped={}, options=["--no-stacks"], duration_s=8.0), file)
            before = '//! were right with 1.4 times the odds that\n    ODDS = 1.4, "times", "with a slope of 1.06 (Platt)";\n'
            Path(source).write_text(before, encoding="utf-8")
            known_before = [
                calibration.Claim("--no-stacks", "decode", False, 0.9, False),
                calibration.Claim("--no-stacks", "hung", False, 0.9, False),
                calibration.Claim("--no-stacks", "no-program-of-this-name", False, 0.9, False),
                calibration.Claim("--no-stacks", "collate", False, 0.9, True),
                calibration.Claim("elsewhere", "of-others", False, 0.9, True),
            ]
            calibration.write(kept, known_before)
            with mock.patch.object(calibrate, "SOURCE", source), contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(calibrate.main([runs, "--csv", kept, "--set-odds"]), 0)
            claims = calibration.read(kept)
            written = Path(source).read_text(encoding="utf-8")
        # Four of `pinned`; what failed keeps what it said before.
        names = [claim.program for claim in claims]
        self.assertEqual(Counter(names), Counter(decode=1, collate=1, fifo=1, pinned=4, **{"of-others": 1}))
        self.assertTrue(next(claim for claim in claims if claim.program == "decode").right)
        self.assertIn("6 claims are new, 2 stay, 3 are gone", said.getvalue())
        odds = calibration.odds_for(calibration.fit_odds([claim for claim in claims if not claim.held_out]))
        self.assertNotEqual(odds, 1.4)
        self.assertIn(f"right with {odds:.1f} times the odds that\n    ODDS = {odds:.1f}, ", written)
        self.assertNotIn("1.06", written)

    def test_odds_that_are_used(self) -> None:
        self.assertEqual([calibration.odds_for(found) for found in (1.38, 2.04, 0.7)], [1.4, 2.0, 1.0])
        with self.assertRaises(ValueError):
            calibration.odds_in("EVEN = 1.0")
