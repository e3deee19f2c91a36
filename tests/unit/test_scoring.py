"""Tests of how verdicts are held against labels, and against themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

from measure import contradictions, recordings
from measure.evaluation import command, scoring, verdicts
from unit.support import InFolder, written
from workloads import culprits, stages
from workloads.labels import by_name
from workloads.truth import StageClock, Truth


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
            ({"class": "data-loader", "cause": None, "shares": None, "gpu_idle": None, "steps": None}, True, "unnamed"),
            ({"class": "cpu", "cause": "noisy-neighbour"}, True, "right"),
            ({"class": "gpu", "cause": None}, False, "wrong"),
            ({}, False, "wrong"),
        ):
            result = self.judged(**verdict)
            self.assertEqual((result.class_right, result.cause, result.wait_error), (right, cause, None), verdict)

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

    def test_ends_of_the_chain_are_summed_up(self) -> None:
        results = [scoring.Result("w", n, "io", "lock", culprit_right=right) for n, right in enumerate((True, False, None))]
        self.assertRegex(scoring.tables(results), r"wait chain ends at the culprit +1 of 2 ")
        self.assertIn("chain's end wrong", scoring.row(results[1]))

    def test_markdown_leaves_out_what_was_not_scored(self) -> None:
        results = [
            scoring.Result("w", n, "io", None, "io", confidence=0.9, class_right=True, culprit_right=n > 0) for n in range(2)
        ]
        text = scoring.as_markdown(results)
        self.assertIn("| class right | 100.0% | - |\n", text)
        self.assertIn("| wait chain ends at the culprit | 1 of 2 | - |\n", text)
        self.assertNotIn("stall", text)
        self.assertNotIn("0 of 0", text)
        self.assertTrue(text.endswith("| 0.9–1.0 | 2 | 0.90 | 100% |"), text)

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


#: Stands in for the checker: a verdict contradicts itself as often as its `off` says.
CHECKER = """#!{python}
import json, sys
for line in sys.stdin:
    print(json.dumps(["%d%% is not %d%%" % (n, n + 1) for n in range(json.loads(line).get("off", 0))]))
"""


class Contradictions(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.program = os.path.join(self.folder, "trainmon")

    def build(self, text: str = CHECKER) -> str:
        return self.executable("examples/contradictions", text.format(python=sys.executable))

    def test_what_the_checker_says(self) -> None:
        self.assertIsNone(contradictions.find(self.program, {}))
        checker = self.build()
        self.assertEqual(contradictions.checker(self.program), checker)
        self.assertEqual(contradictions.find(self.program, {"class": "io", "summary": "Größe\n"}), [])
        self.assertEqual(contradictions.find(self.program, {"off": 2}), ["0% is not 1%", "1% is not 2%"])

    def test_a_checker_without_an_answer(self) -> None:
        self.build("#!/bin/sh\nexit 1\n")
        self.assertIsNone(contradictions.find(self.program, {"off": 1}))
        self.build("#!/bin/sh\necho no JSON\n")
        self.assertIsNone(contradictions.find(self.program, {"off": 1}))

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
        self.assertRegex(text, r"contradicts itself +1 of 2 ")
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
                self.assertEqual(command.agree_with_themselves(total, command.arguments(list(arguments))), good, arguments)
            self.assertEqual(bool(said.getvalue()), not good)

    def test_the_checker_must_be_there_when_it_is_asked_for(self) -> None:
        with open(self.program, "w", encoding="utf-8"):
            pass
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(command.main(["--trainmon", self.program, "--nvml-lib", "none", "--no-contradictions"]), 1)
        self.assertIn("needs the example `contradictions`", said.getvalue())
