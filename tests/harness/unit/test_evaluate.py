"""Tests of the evaluation's own arithmetic."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from typing import Any, Callable
from unittest import mock


from harness import contradictions, recordings
from harness.evaluation import again, calibrate, calibration, command, cost, keeping, sample, scoring, slowdown, verdicts, whatif
from harness.evaluation.cost import Cost
from harness.monitor import Monitor
from harness.paths import TESTS, WORKLOADS
from harness.unit.support import known, written
from workloads import culprits, launch, random_plans, simulated_gpu, stages
from workloads.labels import LABELS, Label, by_name
from workloads.truth import StageClock, Truth, stall_period


class RunsThatAreKept(unittest.TestCase):
    def test_they_come_back_with_what_is_true_of_them_and_without_stacks_where_asked(self) -> None:
        import zstandard

        label = LABELS[0]
        with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as folder:
            truth_path, recording = os.path.join(source, "truth.jsonl"), os.path.join(source, "any.tmz")
            with open(truth_path, "w", encoding="utf-8") as file:
                file.write(json.dumps(TruthWindows.STEPS[0]) + "\n")
            samples = [{"monotonic_ns": 1, "stacks": {"windows": []}}, {"monotonic_ns": 2}]
            lines = [b'{"schema":2}', *(json.dumps(sample).encode() for sample in samples), b""]
            with open(recording, "wb") as file:
                file.write(zstandard.compress(b"\n".join(lines)))
            run = again.Run(label, 3, 9.5, recording, Truth.read(truth_path), 0.25)
            again.keep(folder, run, truth_path)
            for stacks in (True, False):
                with self.subTest(stacks=stacks):
                    (found,) = again.kept(folder, stacks)
                    self.assertEqual((found.label, found.number, found.began), (label, 3, 9.5))
                    self.assertEqual((found.cores_of_others, found.truth.steps), (0.25, run.truth.steps))
            bare = recordings.without_stacks(recording, os.path.join(source, "bare.tmz"))
            header, *rest = recordings.lines_of(bare)
            self.assertEqual(header, b'{"schema":2}')
            self.assertEqual([json.loads(line) for line in rest], [
                {"monotonic_ns": 1, "stacks": None}, {"monotonic_ns": 2, "stacks": None},
            ])


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

    def test_measured_waits(self) -> None:
        self.assertEqual(stall_period(self.FOUR, 3.0), 4)

    def test_a_late_one_does_not_hide_the_rhythm(self) -> None:
        self.assertEqual(stall_period([*self.FOUR, 0.001, *self.FOUR], 6.0), 4)

    def test_no_rhythm(self) -> None:
        uneven = [0.3 if n in (3, 4, 11, 13, 22, 29) else 0.001 for n in range(32)]
        for waits in ([0.3] * 32, [0.001] * 32, uneven, self.FOUR[:5], []):
            self.assertIsNone(stall_period(waits, 3.0), waits)

    def test_stalls_that_cost_nothing_are_none(self) -> None:
        self.assertIsNone(stall_period(self.FOUR, 600.0))
        self.assertIsNone(stall_period([wait / 200 for wait in self.FOUR], 0.01))

    def test_rare_ones(self) -> None:
        self.assertEqual(stall_period([1.2 if n % 25 == 24 else 0.001 for n in range(160)], 12.0), 25)


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


class Scoring(unittest.TestCase):
    ANSWERS = (("data-loader", "decode"), ("data-loader", "too-few-workers"), ("cpu", None))

    def judged(self, **verdict: Any) -> scoring.Result:
        result = scoring.Result("w", 1, "data-loader", "decode")
        scoring.judge(result, verdict, self.ANSWERS)
        return result

    def test_class_and_cause(self) -> None:
        for verdict, right, cause in (
            ({"class": "data-loader", "cause": "decode"}, True, "right"),
            ({"class": "data-loader", "cause": "too-few-workers"}, True, "right"),
            ({"class": "data-loader", "cause": "collate"}, True, "wrong"),
            ({"class": "data-loader", "cause": None}, True, "unnamed"),
            ({"class": "cpu", "cause": "noisy-neighbour"}, True, "right"),
            ({"class": "gpu", "cause": None}, False, "wrong"),
            ({}, False, "wrong"),
        ):
            result = self.judged(**verdict)
            self.assertEqual((result.class_right, result.cause), (right, cause), verdict)

    def test_confident_and_wrong(self) -> None:
        self.assertTrue(self.judged(**{"class": "gpu", "confidence": 0.8}).confident_and_wrong)
        self.assertFalse(self.judged(**{"class": "gpu", "confidence": 0.79}).confident_and_wrong)
        self.assertFalse(self.judged(**{"class": "cpu", "confidence": 0.99}).confident_and_wrong)

    def test_summary(self) -> None:
        good = self.judged(**{"class": "cpu", "shares": {"input_wait": 0.6}, "first_verdict_s": 3.0})
        good.wait_true = 0.5
        failed = scoring.Result("w", 2, "data-loader", "decode", error="exit 3: no such process")
        total = scoring.summarise([good, failed])
        self.assertEqual((total["class_accuracy"], total["failed"], total["wait_scored"]), (0.5, 1, 1))
        self.assertAlmostEqual(total["wait_error_mean"], 0.1)
        self.assertEqual(total["first_verdict_median_s"], 3.0)
        self.assertIn("50%", scoring.tables([good, failed]))
        json.dumps(scoring.as_json([good, failed]))

    def test_the_first_right_class_must_stay(self) -> None:
        classes = [(11.0, "unknown"), (12.0, "data-loader"), (13.0, "gpu"), (14.0, "cpu"), (15.0, "data-loader")]
        self.assertEqual(scoring.first_right(["data-loader", "cpu"], classes, 10.0), 4.0)
        self.assertIsNone(scoring.first_right(["gpu"], classes, 10.0))
        self.assertIsNone(scoring.first_right(["unknown"], [(11.0, "unknown")], 10.0))
        result = scoring.Result("w", 1, "data-loader", "decode")
        scoring.judge(result, {"class": "data-loader"}, self.ANSWERS, classes, 10.0)
        self.assertEqual(result.first_right_s, 4.0)

    def test_functions_by_their_last_part(self) -> None:
        for name, part in (
            ("blur", "blur"),
            ("Blurred.blur", "blur"),
            ("job.<locals>.step", "step"),
            ("Records.__getitem__.<locals>.<listcomp>", "__getitem__"),
            ("<listcomp>", "<listcomp>"),
        ):
            self.assertEqual(scoring.last_part(name), part)

    def detailed(self, verdict: dict[str, Any], stall_every: int | None = 2) -> scoring.Result:
        truth = written([{"a": 10.0 + n, "b": 10.0 + n + (0.6 if n % 2 else 0.0), "c": 10.9 + n} for n in range(12)])
        text = "".join(f"{9.0 + 2 * n} {n} 0 0 0 0 -\n" for n in range(9))
        truth.stages = {7: StageClock.parse(text), 8: StageClock.parse(text)}
        result = scoring.Result("w", 1, "data-loader", "decode")
        label = dataclasses.replace(
            by_name("decode"), stall_every=stall_every, hottest=("blur",), hottest_main=("step",), sync_lines=("step",)
        )
        scoring.judge_details(result, verdict, label, truth, 10.0, 22.0)
        return result

    def test_details(self) -> None:
        seen = dict.fromkeys(stages.NAMES, 0.0)
        result = self.detailed({
            "steps": {"stall_every": 2},
            "workers": [
                {"pid": 7, "stages": {**seen, "load": 0.4}, "hottest": {"function": "A.blur"}},
                {"pid": 8, "stages": None, "hottest": None},
                {"pid": 9, "stages": seen, "hottest": {"function": "select"}},
            ],
            "main_thread": {"hottest": [{"function": "f.<locals>.step"}], "sync_lines": []},
        })  # fmt: skip
        self.assertEqual((result.stall_true, result.stall_seen), (2, 2))
        self.assertEqual((len(result.stages), result.stages_missing), (1, 1))
        self.assertAlmostEqual(max(result.stage_errors), 0.1)
        self.assertEqual(result.hottest, [("blur", True), ("select", False), ("step", True)])
        self.assertEqual(result.hottest_missing, 2)
        total = scoring.summarise([result])
        self.assertAlmostEqual(total["stage_error_mean"], 0.02)
        self.assertAlmostEqual(total["hottest_accuracy"], 2 / 3)
        self.assertEqual((total["stall_exact"], total["stall_scored"], total["stall_false"]), (1.0, 1, 0))

    def test_a_rhythm_that_label_and_record_tell_differently_is_not_scored(self) -> None:
        for stall_every in (None, 3):
            result = self.detailed({"steps": {"stall_every": 2}}, stall_every)
            self.assertIsNone(result.stall_true)
            total = scoring.summarise([result])
            self.assertEqual((total["stall_scored"], total["stall_false"]), (0, 0))

    def test_a_verdict_without_details_is_not_scored(self) -> None:
        result = self.detailed({"workers": [{"pid": 7}], "main_thread": None, "steps": None})
        total = scoring.summarise([result])
        self.assertIsNone(total["stage_error_mean"])
        self.assertIsNone(total["hottest_accuracy"])
        self.assertEqual((total["stages_missing"], total["hottest_missing"], total["stall_missing"]), (1, 3, 1))
        self.assertIn("1 not scored", scoring.tables([result]))

    def test_the_end_of_the_chain(self) -> None:
        truth = written([
            {"culprit": [{"kind": "process", "pid": 7}], "t": 9.0},
            {"culprit": [{"kind": "net", "address": "127.0.0.1:4321"}, {"kind": "thread", "pid": 1, "tid": 5}], "t": 12.0},
        ])  # fmt: skip
        loop: culprits.Node = {"node": "loop", "kind": "thread", "pid": 1, "tid": 1, "share": 0.9, "waits_for": ["a", "b"]}
        worker: culprits.Node = {"node": "a", "kind": "process", "pid": 7, "tid": None, "share": 0.5, "waits_for": []}
        server: culprits.Node = {"node": "b", "kind": "net", "pid": None, "name": "127.0.0.1:4321", "share": 0.3, "waits_for": []}
        helper: culprits.Node = {"node": "c", "kind": "thread", "pid": 1, "tid": 5, "share": 0.6, "waits_for": []}
        device: culprits.Node = {"node": "d", "kind": "device", "pid": None, "share": 0.2, "lost": 0.0, "waits_for": []}
        for chain, begin, end, right in (
            ([loop, worker, server], 10.0, 11.0, True),
            ([loop, {**worker, "share": 0.2}, server], 10.0, 11.0, False),
            ([loop, worker, server], 13.0, 20.0, False),
            ([loop, worker, server], 10.0, 20.0, True),
            ([loop, {**worker, "share": None}, server], 13.0, 20.0, True),
            ([loop, worker, helper], 13.0, 20.0, True),
            ([{**loop, "waits_for": []}], 13.0, 20.0, False),
            # The device, where hardly anything is lost.
            ([loop, {**worker, "lost": 0.3}, device], 10.0, 11.0, True),
            ([loop, {**worker, "lost": 0.05}, device], 10.0, 11.0, False),
            ([loop, worker], 5.0, 8.0, None),
            ([], 10.0, 11.0, None),
            (None, 10.0, 11.0, None),
        ):
            result = scoring.Result("w", 1, "io", "remote-service")
            scoring.judge_details(result, {"chain": chain}, by_name("remote-metrics"), truth, begin, end)
            self.assertEqual(result.culprit_right, right, (chain, begin, end))

    def test_calibration(self) -> None:
        def result(confidence: float | None, right: bool, cause: str = "right", seen: str = "io") -> scoring.Result:
            return scoring.Result("w", 1, "io", "lock", seen, "lock", confidence, class_right=right, cause=cause)

        results = [result(0.9, True), result(0.8, True), result(0.8, False, "wrong"), result(0.6, True, "wrong")]
        # What claims nothing is not counted.
        others = [result(0.2, False, "wrong", "unknown"), result(None, False, "wrong", scoring.NO_VERDICT)]
        self.assertEqual(scoring.claims(results + others), [(0.9, True), (0.8, True), (0.8, False), (0.6, False)])
        self.assertAlmostEqual(known(scoring.brier(results + others)), (0.01 + 0.04 + 0.64 + 0.36) / 4)
        self.assertAlmostEqual(known(scoring.calibration_error(results)), (0.1 + 0.6 + 0.6) / 4)
        self.assertRegex(scoring.reliability(results), r"0\.8–0\.9 +2 +0\.80 +50%\n0\.9–1\.0 +1 +0\.90 +100%")
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
            with open(source, "w", encoding="utf-8") as file:
                file.write('//! were right with 1.4 times the odds that\n    ODDS = 1.4, "times", "with a slope of 1.06 (Platt)";\n')
            before = [
                calibration.Claim("--no-stacks", "decode", False, 0.9, False),
                calibration.Claim("--no-stacks", "hung", False, 0.9, False),
                calibration.Claim("--no-stacks", "no-program-of-this-name", False, 0.9, False),
                calibration.Claim("--no-stacks", "collate", False, 0.9, True),
                calibration.Claim("elsewhere", "of-others", False, 0.9, True),
            ]
            calibration.write(kept, before)
            with mock.patch.object(calibrate, "SOURCE", source), contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(calibrate.main([runs, "--csv", kept, "--set-odds"]), 0)
            claims = calibration.read(kept)
            with open(source, encoding="utf-8") as file:
                written = file.read()
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

    def test_random_programs(self) -> None:
        for seed in range(1, 400):
            plan = random_plans.plan(seed, 2)
            self.assertEqual(plan, random_plans.plan(seed, 2))
            label = by_name(f"random-{seed}")
            self.assertEqual(label.name, f"random-{seed}")
            self.assertTrue(label.about and len(label.acceptable()) >= 1)
            self.assertEqual(plan.feeders == 0, plan.supply in random_plans.BY_THE_LOOP)
            parts = {"host": plan.host_s, "device": plan.device_s + plan.compute_s, "elsewhere": plan.elsewhere_s}
            if plan.longest != "supply":
                self.assertGreaterEqual(parts[plan.longest], max(parts.values()) - 1e-9, label.about)
        with self.assertRaises(KeyError):
            by_name("random-x")

    def test_kinds_of_ends(self) -> None:
        for node, end, right in (
            ({"kind": "device", "pid": 1}, {"kind": "device"}, True),
            ({"kind": "lock", "name": "/a"}, {"kind": "lock", "path": "/a"}, True),
            ({"kind": "lock", "name": "/b"}, {"kind": "lock", "path": "/a"}, False),
            ({"kind": "disk", "name": "vda"}, {"kind": "disk", "name": "vda"}, True),
            ({"kind": "mount", "name": "vda"}, {"kind": "disk", "name": "vda"}, False),
            ({"kind": "gil", "tid": 3}, {"kind": "gil"}, True),
            ({"kind": "timer", "pid": 8}, {"kind": "process", "pid": 8}, True),
            ({"kind": "process", "pid": 8, "tid": None}, {"kind": "thread", "pid": 8, "tid": 8}, False),
        ):
            self.assertEqual(culprits.is_right(node, [end]), right, (node, end))

    def test_ends_of_the_chain_are_summed_up(self) -> None:
        results = [scoring.Result("w", n, "io", "lock", culprit_right=right) for n, right in enumerate((True, False, None))]
        self.assertRegex(scoring.tables(results), r"chain's end is the true culprit +1 of 2 ")
        self.assertIn("chain's end wrong", scoring.row(results[1]))

    def test_steps_within(self) -> None:
        results = [scoring.Result("w", n, "cpu", None, steps_true=10.0, steps_seen=seen) for n, seen in
                   enumerate((10.0, 10.29, 9.5, None))]  # fmt: skip
        total = scoring.summarise(results)
        self.assertAlmostEqual(total["steps_within"], 2 / 3)
        self.assertEqual((total["steps_scored"], total["steps_missing"]), (3, 1))

    def test_the_held_out_have_a_column_of_their_own(self) -> None:
        right = scoring.Result("a", 1, "cpu", None, class_right=True)
        results = [right, scoring.Result("b", 1, "cpu", None, held_out=True)]
        self.assertRegex(scoring.tables(results), r"class right +50\.0% +0\.0%")
        self.assertEqual(scoring.as_json(results)["summary_held_out"]["runs"], 1)

    def test_null_parts_of_a_verdict(self) -> None:
        result = self.judged(**{"class": "data-loader", "shares": None, "gpu_idle": None, "steps": None})
        self.assertIsNone(result.wait_error)


def called(*words: str) -> argparse.Namespace:
    """The arguments of a call of evaluate.py."""
    return command.arguments(list(words))


class Samples(unittest.TestCase):
    ALL = list(LABELS)

    def counts(self, labels: list[Label]) -> Counter[str]:
        return Counter(stratum for label in labels for stratum in sample.strata(label))

    def test_each_stratum_has_its_share(self) -> None:
        there = self.counts(self.ALL)
        for count, seeds in ((24, range(1, 9)), (8, (1, 2)), (60, (1,))):
            share = {stratum: count * number / len(self.ALL) for stratum, number in there.items()}
            for seed in seeds:
                drawn = sample.draw(self.ALL, count, seed)
                self.assertEqual(len({label.name for label in drawn}), count)
                has = self.counts(drawn)
                for family in ("class", "kind"):
                    of = [stratum for stratum in there if stratum.startswith(family)]
                    empty = [stratum for stratum in of if not has[stratum]]
                    much = [stratum for stratum in of if has[stratum] >= share[stratum] + 2]
                    self.assertFalse(empty and much, (count, seed, empty, much))
                    little = [stratum for stratum in of if has[stratum] <= share[stratum] - 2]
                    self.assertFalse(little, (count, seed))
                    if count >= 24:
                        self.assertFalse(much, (count, seed))
                        self.assertFalse(empty and family == "class", (count, seed, empty))

    def test_a_seed_always_draws_the_same(self) -> None:
        of = [[label.name for label in sample.draw(self.ALL, 24, seed)] for seed in (5, 5, 6)]
        self.assertEqual(of[0], of[1])
        self.assertNotEqual(of[0], of[2])
        # In the order of the table, whatever was drawn first.
        names = [label.name for label in self.ALL]
        self.assertEqual(of[0], sorted(of[0], key=names.index))
        self.assertEqual(sample.draw(self.ALL, 10_000, 1), self.ALL)

    def test_other_seeds_draw_others(self) -> None:
        times = Counter(label.name for seed in range(12) for label in sample.draw(self.ALL, 24, seed))
        self.assertGreater(len(times), 0.7 * len(self.ALL))
        # Alone in its class, or one of two.
        often = {name for name, number in times.items() if number > 9}
        self.assertLessEqual(len(often), 3, often)

    def test_kinds_come_from_the_labels(self) -> None:
        for name, kind in (
            ("too-few-workers", "loader"), ("in-process-loading", "in-process"), ("pool-imap", "chain"),
            ("grain-process", "library"), ("rank-straggler-ddp", "rank"), ("hf-trainer-callback", "library"),
        ):  # fmt: skip
            self.assertEqual(sample.kind(by_name(name)), kind)
        self.assertRegex(sample.about([by_name("decode"), by_name("fifo")]), r"class data-loader 1, io 1\nkind  loader 1, storage 1")

    def test_as_an_option(self) -> None:
        drawn = command.chosen(called("--sample", "24", "--seed", "3"))
        self.assertEqual(drawn, sample.draw(self.ALL, 24, 3))
        held_out = command.chosen(called("--sample", "9", "--held-out", "only"))
        self.assertTrue(len(held_out) == 9 and all(label.held_out for label in held_out))
        for wrong in (("--sample", "0"), ("--sample", "3", "--quick"), ("--sample", "3", "--random", "3")):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                called(*wrong)


#: Stands in for the checker: a verdict contradicts itself as often as its `off` says.
CHECKER = """#!{python}
import json, sys
for line in sys.stdin:
    print(json.dumps(["%d%% is not %d%%" % (n, n + 1) for n in range(json.loads(line).get("off", 0))]))
"""


class Contradictions(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "trainmon")
        self.checker = os.path.join(folder.name, "examples", "contradictions")

    def build(self, text: str = CHECKER) -> None:
        os.makedirs(os.path.dirname(self.checker))
        with open(self.checker, "w", encoding="utf-8") as file:
            file.write(text.format(python=sys.executable))
        os.chmod(self.checker, 0o755)

    def test_what_the_checker_says(self) -> None:
        self.assertIsNone(contradictions.of(self.program, {}))
        self.build()
        self.assertEqual(contradictions.checker(self.program), self.checker)
        self.assertEqual(contradictions.of(self.program, {"class": "io", "summary": "Größe\n"}), [])
        self.assertEqual(contradictions.of(self.program, {"off": 2}), ["0% is not 1%", "1% is not 2%"])

    def test_a_checker_without_an_answer(self) -> None:
        self.build("#!/bin/sh\nexit 1\n")
        self.assertIsNone(contradictions.of(self.program, {"off": 1}))
        with open(self.checker, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho no JSON\n")
        self.assertIsNone(contradictions.of(self.program, {"off": 1}))

    def test_each_run_is_checked(self) -> None:
        self.build()

        class Job:
            pid, device, folder = os.getpid(), "", ""

            def __enter__(self) -> Job:
                return self

            def __exit__(self, *_error: object) -> None:
                pass

            def wait_until_watchable(self) -> None:
                pass

            def stretch(self) -> mock.Mock:
                return mock.Mock(begin=0.0, ended=8.0, others=0.0)

            def whole_truth_until(self, _end: float, steps: bool) -> Truth:
                return Truth()

        monitor = mock.Mock(program=self.program)
        monitor.launch.return_value = Job()
        monitor.beside.return_value = (monitor, 1)
        seen = recordings.Watched(1.0, 9.0, {"class": "io", "cause": "lock", "confidence": 0.9, "off": 1}, [])
        label = dataclasses.replace(by_name("decode"), start="started")
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(recordings, "watched", return_value=seen):
            wrong = os.path.join(folder, "wrong")
            Job.folder = folder
            with open(os.path.join(folder, "run.tmz"), "wb"):
                pass
            result = verdicts.one_run(label, 1, monitor, 8.0, None, kept_wrong=wrong)
            self.assertEqual(os.listdir(wrong), ["decode-1.tmz"])
        self.assertIsNone(result.error)
        self.assertEqual(result.contradictions, ["0% is not 1%"])
        self.assertIn("CONFIDENTLY WRONG, contradicts itself", scoring.row(result))

    def test_they_are_named_and_counted(self) -> None:
        def result(name: str, **more: Any) -> scoring.Result:
            made = {"class_right": True, "seen_class": "io", "seen_cause": "lock", "confidence": 0.9, **more}
            return scoring.Result(name, 1, "io", "lock", **made)

        agrees = result("agrees", contradictions=[])
        not_checked = result("not-checked")
        both = result("both", contradictions=["a is not b", "c is not d"], class_right=False)
        text = scoring.tables([agrees, not_checked, both])
        self.assertRegex(text, r"contradicting itself +1 of 2 ")
        self.assertIn("sure and wrong        both #1: io/lock 0.90\n", text)
        self.assertTrue(text.endswith("contradicts itself    both #1: io/lock 0.90: a is not b (and 1 more)"))
        self.assertEqual(scoring.as_json([both])["runs"][0]["contradictions"], both.contradictions)
        self.assertEqual(scoring.named([agrees, not_checked]), [])

        for arguments, results, good in (
            ((), [both], True),
            (("--no-contradictions",), [agrees], True),
            (("--no-contradictions",), [agrees, both], False),
            (("--no-contradictions",), [agrees, not_checked], False),
            # Without a verdict there is nothing to check.
            (("--no-contradictions",), [agrees, scoring.Result("w", 1, "io", None, error="none")], True),
        ):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                total = scoring.summarise(results)
                self.assertEqual(command.agree_with_themselves(total, called(*arguments)), good, arguments)
            self.assertEqual(bool(said.getvalue()), not good)

    def test_the_checker_must_be_there_when_it_is_asked_for(self) -> None:
        with open(self.program, "w", encoding="utf-8"):
            pass
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(command.main(["--trainmon", self.program, "--nvml-lib", "none", "--no-contradictions"]), 1)
        self.assertIn("needs the example `contradictions`", said.getvalue())


class Recordings(unittest.TestCase):
    def test_lines_across_frames(self) -> None:
        import zstandard

        with tempfile.NamedTemporaryFile(suffix=".tmz") as file:
            for piece in (b"{}\n", b"1\n2\n", b"3\n"):
                file.write(zstandard.compress(piece))
            file.flush()
            self.assertEqual(recordings.lines_of(file.name), [b"{}", b"1", b"2", b"3"])

    def test_each_beginning_is_judged(self) -> None:
        import zstandard

        class Said(Monitor):
            """A trainmon that is right from the third sample on."""

            def run(self, device: str, *arguments: str, timeout: float) -> bytes:
                samples = len(recordings.lines_of(arguments[arguments.index("--replay") + 1])) - 1
                return json.dumps({"class": "cpu" if samples >= 3 else "unknown"}).encode()

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.tmz")
            lines = ["{}", *(json.dumps({"monotonic_ns": n * 10**9}) for n in (10, 11, 12, 13))]
            with open(path, "wb") as file:
                file.write(zstandard.compress("".join(f"{line}\n" for line in lines).encode()))
            seen = recordings.watched(Said("", None), "", path)
        self.assertEqual((seen.begin, seen.end, seen.verdict["class"]), (10.0, 13.0, "cpu"))
        self.assertEqual(seen.classes, [(10.0, "unknown"), (11.0, "unknown"), (12.0, "cpu"), (13.0, "cpu")])


class WhatIf(unittest.TestCase):
    def test_workers_out_of_titles(self) -> None:
        for title, workers in (
            ("Raise num_workers from 4 to 7", 7),
            ("Set num_workers to 2", 2),
            ("Set num_workers to at least 1 in the DataLoader", 1),
            ("Set persistent_workers=True", None),
            ("", None),
        ):
            self.assertEqual(whatif.advised_workers(title), workers)

    def test_what_is_changed(self) -> None:
        label, given = known(whatif.changed(by_name("too-few-workers"), {"title": "Raise num_workers from 1 to 2"}))
        self.assertEqual((label.entry, given), ("loader_cases:too_few_workers", {"workers": "2"}))
        self.assertIsNone(whatif.changed(by_name("too-few-workers"), {"title": "Make transforms cheaper"}))
        label, given = known(whatif.changed(by_name("main-thread"), {"title": "Log less"}))
        self.assertEqual((label.entry, given), ("cpu_cases:main_thread_fixed", {}))
        label, given = known(whatif.changed(by_name("cgroup-throttled"), {"title": "Raise the quota"}))
        self.assertEqual((label.needs, given), ((), {}))
        # Of a program made at random, whatever the advice says.
        made = next(one for one in map(by_name, (f"random-{seed}" for seed in range(99))) if one.more_feeders)
        label, given = known(whatif.changed(made, {"title": "Cache what is read"}))
        self.assertEqual((label.entry, given), (made.entry, {"workers": str(made.more_feeders)}))
        self.assertEqual(known(whatif.changed(made, {"title": "Set num_workers to 7"}))[1], {"workers": "7"})
        label, _given = known(whatif.changed(by_name("io-throttled"), {"title": "Lift the limit"}))
        self.assertEqual(label.needs, ("real-disk",))

    def test_comparing(self) -> None:
        one = whatif.Comparison("w", False, bound=2.1, predicted_step_ms=50.0, before=10.0, after=18.0)
        self.assertEqual((one.measured, one.predicted, one.right, one.bound_holds), (1.8, 2.0, True, True))
        wrong = dataclasses.replace(one, predicted_step_ms=40.0, bound=1.6)
        self.assertEqual((wrong.right, wrong.bound_holds), (False, False))
        above = dataclasses.replace(one, bound=None, ceiling=1.6)
        self.assertEqual((above.bound_holds, dataclasses.replace(above, ceiling=1.7).bound_holds), (False, True))
        silent = dataclasses.replace(one, predicted_step_ms=None)
        self.assertEqual((silent.right, silent.bound_holds), (None, True))
        failed = whatif.Comparison("w", True, why_not="no advice")
        total = whatif.sums([one, wrong, silent, failed])
        self.assertEqual((total["predictions"], total["predictions_within"]), (2, 0.5))
        self.assertEqual((total["bounds"], total["not_compared"]), (3, 1))
        self.assertIn("ABOVE THE BOUND", whatif.row(wrong))
        self.assertIn("no advice", whatif.row(failed))


class Pauses(unittest.TestCase):
    def test_gaps_in_a_window(self) -> None:
        truth = written([{"a": 10.0 + n, "b": 10.0 + n, "c": 11.0 + n, "gap": 0.001 * n} for n in range(9)])
        self.assertAlmostEqual(known(truth.longest_gap(10.0, 14.5)), 0.004)
        self.assertAlmostEqual(known(truth.longest_gap(14.5, 14.6)), 0.004)
        self.assertIsNone(written([{"a": 1.0, "b": 1.0, "c": 2.0}]).longest_gap(0.0, 9.0))
        self.assertIn("4.00 ms", slowdown.report_pauses({False: [0.004], True: []}))


class TwoBuilds(unittest.TestCase):
    def cost(self, mode: str, young: float | None, steady: float = 2.0, **more: Any) -> Cost:
        return Cost(mode, 60.0, 3.0, young, steady, None, 20.0, 0, **more)

    def test_ratios_of_pairs(self) -> None:
        pairs = [
            cost.Pair(self.cost("headless", 10.0), self.cost("headless", 20.0)),
            cost.Pair(self.cost("screen", 30.0, first_frame_ms=90.0), self.cost("screen", 20.0, first_frame_ms=60.0)),
            cost.Pair(self.cost("headless", 12.0), self.cost("headless", 10.0)),
            cost.Pair(self.cost("headless", 11.0), self.cost("headless", None)),
            cost.Pair(self.cost("headless", 9.0), self.cost("headless", 10.0)),
        ]
        text, highest = cost.report_pairs(pairs)
        self.assertRegex(text, r"headless +young % +3 +10\.00 +10\.00 +0\.900 +0\.500 +1\.200")
        self.assertRegex(text, r"screen +frame ms +1 +90 +60 +1\.500")
        # Of the young screen: neither the frame's ratio nor a single pair of the others counts.
        self.assertEqual(highest, 1.5)
        self.assertNotIn("settled", text)
        self.assertNotIn("did not exit", text)
        odd = cost.Pair(dataclasses.replace(pairs[0].this, status=3), pairs[0].other)
        self.assertIn("did not exit with 0: headless 3", cost.report_pairs([odd])[0])
        self.assertEqual(cost.report_pairs([])[1], None)

    def test_builds_take_turns(self) -> None:
        this, other = mock.Mock(), mock.Mock()
        order: list[bool] = []

        def run(mode: str) -> Callable[[mock.Mock, object, float], Cost]:
            def run(monitor: mock.Mock, _job: object, _seconds: float) -> Cost:
                order.append(monitor is this)
                return self.cost(mode, 10.0 if monitor is this else 20.0)

            return run

        with mock.patch.multiple(
            cost, Launched=mock.MagicMock(), headless=run("headless"), screen=run("screen"), time=mock.Mock()
        ), contextlib.redirect_stdout(io.StringIO()):
            pairs = cost.compare(this, other, 50.0, 2, None)
        self.assertEqual(order, [True, False, True, False, False, True, False, True])
        self.assertEqual([(pair.this.young_cpu_pct, pair.other.young_cpu_pct) for pair in pairs], [(10.0, 20.0)] * 4)

    def test_options(self) -> None:
        self.assertEqual((called("--cost", "--against", "x").pairs, called("--slowdown").pairs), (3, 8))
        for wrong in (("--against", "x"), ("--cost", "--max-ratio", "1.1")):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                called(*wrong)


class Sidecars(unittest.TestCase):
    LABEL = by_name("decode")

    def made(self, wait: float | None = 0.6, **verdict: Any) -> dict[str, Any]:
        said = {"class": "data-loader", "cause": "decode", "confidence": 0.93, "summary": "", "shares": None}
        return keeping.sidecar(self.LABEL, {**said, **verdict}, wait, 8.0)

    def test_the_truth_is_the_labels(self) -> None:
        made = self.made(cause="transform", shares={"input_wait": 0.57})
        self.assertEqual((made["class"], made["cause"]), (self.LABEL.klass, self.LABEL.cause))
        self.assertEqual((made["input_wait"], made["min_confidence"]), ([0.52, 0.68], 0.8))
        self.assertIsNone(self.made(wait=None)["input_wait"])

    def test_other_verdicts_are_refused(self) -> None:
        for verdict in (
            {"class": "cpu"},
            {"cause": "collate", "wait": None},
            {"cause": None, "wait": None},
            {"shares": {"input_wait": 0.4}},
            {"shares": None},
        ):
            with self.assertRaises(keeping.Refused, msg=verdict):
                self.made(**verdict)


class Labels(unittest.TestCase):
    def test_words_names_and_entries(self) -> None:
        self.assertEqual(len({label.name for label in LABELS}), len(LABELS))
        for label in LABELS:
            for entry in filter(None, (label.entry, label.fixed)):
                file, function = entry.split(":")
                with open(os.path.join(WORKLOADS, f"{file}.py"), encoding="utf-8") as source:
                    self.assertIn(f"def {function}(job: Job)", source.read(), label.name)
            for gone in label.fixed_without:
                self.assertIn(gone, [*label.companions, *(need.partition("=")[0] for need in label.needs)])
            for klass, _cause in label.acceptable():
                self.assertIn(klass, scoring.CLASSES)

    def test_each_has_its_row_in_the_readme(self) -> None:
        with open(os.path.join(WORKLOADS, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        for label in LABELS:
            self.assertIn(f"| `{label.name}`", readme)

    def test_a_part_is_held_out(self) -> None:
        share = sum(label.held_out for label in LABELS) / len(LABELS)
        self.assertTrue(0.2 <= share <= 0.4, share)


class SimulatedGpu(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "device.bin")
        self.gpu = simulated_gpu.SimulatedGpu(self.path)

    def tearDown(self) -> None:
        self.gpu._release()
        self.folder.cleanup()

    def word(self, field: str) -> int:
        with open(self.path, "rb") as file:
            content = file.read()
        self.assertEqual((content[:8], len(content)), (simulated_gpu.MAGIC, simulated_gpu.FILE_BYTES))
        at = simulated_gpu.RECORD_BYTES + simulated_gpu.FIELDS[field]
        return int.from_bytes(content[at : at + 8], "little")

    def test_busy_time_is_exact(self) -> None:
        for _ in range(5):
            self.gpu.launch(0.004)
        self.assertLess(self.gpu.busy_s(), 0.02)
        self.gpu.synchronize()
        self.assertAlmostEqual(self.gpu.busy_s(), 0.02, places=6)
        self.assertEqual(self.word("enqueued_ns"), 20_000_000)
        self.assertEqual(self.word("sequence") % 2, 0)
        self.assertEqual(self.word("owner_pid"), os.getpid())

    def test_the_launch_queue_is_bounded(self) -> None:
        for _ in range(simulated_gpu.MAX_QUEUED_LAUNCHES + 50):
            self.gpu.launch(0.0002)
        self.assertGreater(self.gpu.synced_s, 0.0)
        self.assertLessEqual(len(self.gpu._queue), simulated_gpu.MAX_QUEUED_LAUNCHES)

    def test_a_neighbour_takes_its_share(self) -> None:
        self.gpu.share_with(1, 0.5)
        self.gpu.launch(0.01)
        self.gpu.synchronize()
        self.assertEqual(self.word("neighbour_enqueued_ns"), 10_000_000)
        self.assertEqual(self.word("enqueued_ns"), 10_000_000)

    def test_a_spin_is_native_and_lets_other_threads_run(self) -> None:
        library = launch.simulated_cuda()
        self.assertIsNotNone(library, "cargo build --release --examples builds it")
        with mock.patch.dict(os.environ, {"TRAINMON_SIMULATED_CUDA": library, "TRAINMON_SIMULATED_SYNC": "spin"}):
            gpu = simulated_gpu.SimulatedGpu(self.path)
        counted, waits = 0, True

        def count() -> None:
            nonlocal counted
            while waits:
                counted += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        for _ in range(5):
            gpu.launch(0.03)
        began, used = time.monotonic(), time.thread_time()
        gpu.wait_until_ahead(0.05)
        self.assertAlmostEqual(time.monotonic() - began, 0.1, delta=0.03)
        gpu.synchronize()
        took, used = time.monotonic() - began, time.thread_time() - used
        waits = False
        thread.join()
        self.assertGreaterEqual(took, 0.14)
        self.assertGreater(counted, 10)
        self.assertGreater(used, 0.2 * took)
        self.assertAlmostEqual(gpu.synced_s, took, delta=0.02)
        self.assertAlmostEqual(gpu.busy_s(), 0.15, places=6)
        self.assertEqual((self.word("enqueued_ns"), self.word("sequence") % 2), (150_000_000, 0))
        for _ in range(simulated_gpu.MAX_QUEUED_LAUNCHES + 50):
            gpu.launch(0.0002)
        self.assertGreater(gpu.synced_s, took + 0.005)
        # Taken in turns with a neighbour the host does the waiting.
        gpu.share_with(1, 0.5)
        gpu.launch(0.01)
        gpu.synchronize()
        self.assertEqual(self.word("neighbour_enqueued_ns"), 10_000_000)
        gpu._release()

    def test_release_gives_the_device_back(self) -> None:
        self.gpu._release()
        self.assertEqual(self.word("owner_pid"), 0)
