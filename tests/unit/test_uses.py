"""Tests of how verdicts on uses of libraries are compared with what is true."""

from __future__ import annotations

import ast
import dataclasses
import os
import threading
import unittest
from typing import Any
from unittest import mock

from measure import uses
from unit.support import InFolder, known
from uses import tally
from uses.labels import SILENCE, USES, Use
from uses.training_labels import TRAINING
from uses.two_labels import TWO

FOREST = Use(
    "forest", "scikit-learn", "boosting", ("cpu/cpu-training", "data-loader"), "trees", ("grow", "tree.py"), ("n_jobs",), ('.to("cuda")',),
    also="io/checkpoint-write", parts={"loading": (0.2, 0.4)},
)  # fmt: skip


class Answers(unittest.TestCase):
    def test_class_and_cause(self) -> None:
        for klass, cause, true in (
            ("cpu", "cpu-training", True),
            ("cpu", "main-thread", False),
            ("cpu", None, False),
            ("data-loader", "decode", True),
            ("data-loader", None, True),
            ("idle", None, False),
            ("unknown", None, True),
        ):
            verdict = {"class": klass, "cause": cause, "summary": "Too little could be read."}
            self.assertEqual(uses.honest(FOREST, verdict), true, verdict)
        self.assertFalse(uses.honest(FOREST, {"class": "unknown", "summary": ""}))
        self.assertFalse(uses.honest(FOREST, {}))

    def test_others_are_blamed_only_where_they_compute(self) -> None:
        verdict = {"class": "cpu", "cause": "noisy-neighbour"}
        self.assertTrue(uses.honest(FOREST, verdict, others=1.0))
        self.assertFalse(uses.honest(FOREST, verdict, others=0.1))

    def test_parts(self) -> None:
        self.assertIsNone(uses.mislabeled(FOREST, {"loading": 0.3, "saving": 0.9}))
        self.assertEqual(uses.mislabeled(FOREST, {"loading": 0.5}), "loading takes 0.50 of the time, not 0.2 to 0.4")
        self.assertIn("0.00", known(uses.mislabeled(FOREST, {})))

    def test_rate(self) -> None:
        def error(steps: dict[str, Any] | None, truth: float | None = 10.0) -> float | None:
            return uses.rate_error(FOREST, {"steps": steps}, truth)

        self.assertAlmostEqual(known(error({"per_s": 11.0, "unit": "trees"})), 0.1)
        # A version that does not name units.
        self.assertAlmostEqual(known(error({"per_s": 9.0})), -0.1)
        for steps in (None, {"per_s": None}, {"per_s": 10.0, "unit": "steps"}):
            self.assertIsNone(error(steps), steps)
        self.assertIsNone(error({"per_s": 10.0}, None))

    def test_place(self) -> None:
        def right(*frames: tuple[str, str]) -> bool:
            return uses.right_place(FOREST, {"place": [{"function": function, "file": file} for function, file in frames]})

        self.assertTrue(right(("main", "train.py"), ("fit", "forest.py"), ("Tree.grow", "/site-packages/_tree.py")))
        self.assertTrue(right(("fit", "/site-packages/tree.py")))
        self.assertFalse(right(("grow", "a.py"), ("b", "b.py"), ("c", "c.py")))
        self.assertFalse(right())

    def test_advice(self) -> None:
        def good(use: Use, *titles: str, cause: str = "cpu-training") -> bool:
            return uses.allowed(use, {"class": "cpu", "cause": cause, "advice": [{"title": title, "why": None} for title in titles]})

        self.assertTrue(good(FOREST, "Set n_jobs=2", "Fewer trees"))
        self.assertFalse(good(FOREST, "Fewer trees", "Set n_jobs=2"))
        self.assertFalse(good(FOREST, "Set n_jobs=2", 'Move it with .to("CUDA")'))
        self.assertFalse(good(FOREST))
        self.assertTrue(good(FOREST, "Stop rustc", cause="noisy-neighbour"))
        silent = Use("svc", "scikit-learn", "training", ("cpu",))
        self.assertTrue(good(silent))
        self.assertFalse(good(silent, "Anything"))
        self.assertTrue(good(Use("svc", "", "training", (), advice=(SILENCE, "n_jobs"))))

    def test_advice_that_gains_too_little(self) -> None:
        for bound, right in ((1.02, False), (1.05, True), (None, True)):
            verdict = {"class": "cpu", "cause": "sleeps", "advice": [{"title": "Set n_jobs=2", "speedup_at_most": bound}]}
            self.assertEqual(uses.allowed(FOREST, verdict), right, bound)

    def test_advice_that_the_program_follows(self) -> None:
        use = dataclasses.replace(FOREST, advice=("n_jobs", "trees"), fixable=True, follows=("n_jobs",))
        for title, follows in (("Set n_jobs=2", True), ("Fewer trees", False), ("Sleep less", False)):
            self.assertEqual(uses.followed(use, {"advice": [{"title": title}]}), follows, title)
        self.assertTrue(uses.followed(dataclasses.replace(use, follows=()), {"advice": [{"title": "Fewer trees"}]}))
        self.assertFalse(uses.followed(dataclasses.replace(use, fixable=False), {"advice": [{"title": "Set n_jobs=2"}]}))

    def test_both_limits(self) -> None:
        def both(first: str, *others: str) -> bool:
            answers = [dict(zip(("class", "cause"), answer.split("/"))) for answer in (first, *others)]
            return uses.names_both(FOREST, {**answers[0], "other_findings": answers[1:]})

        self.assertTrue(both("cpu/cpu-training", "io/checkpoint-write"))
        self.assertTrue(both("io/checkpoint-write", "cpu/sleeps", "data-loader/decode"))
        self.assertFalse(both("cpu/cpu-training", "cpu/sleeps"))
        self.assertFalse(both("io/checkpoint-write"))

    def test_gain(self) -> None:
        for gain, bound, kept in ((1.5, 2.0, True), (1.49, 2.0, False), (2.05, 2.0, True), (2.2, 2.0, False), (1.0, 1.0, True)):
            self.assertEqual(uses.gain_kept(gain, bound), kept, (gain, bound))

    def test_a_row_and_its_sums(self) -> None:
        sums = uses.Sums()
        verdict = {
            "class": "cpu", "cause": "sleeps", "confidence": 0.9, "steps": {"per_s": 10.1, "unit": "trees"},
            "place": [{"function": "grow", "file": "tree.py", "line": 7}], "advice": [{"title": "Set n_jobs=2"}],
            "job": {"kind": "boosting", "library": "XGBoost"},
        }  # fmt: skip
        text = "\n".join(uses.row(FOREST, verdict, uses.Truth(10.0, {}), sums))
        self.assertIn("SURE AND WRONG", text)
        self.assertIn("counted yes: 10.10 trees/s beside 10.00 trees, +1.0%", text)
        self.assertIn("grow (tree.py:7): yes", text)
        self.assertIn("class and cause honest: 0 of 1", sums.lines())
        self.assertIn("library: 0 of 1", sums.lines())
        self.assertIn("kind: 1 of 1", sums.lines())


class Tally(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.path = os.path.join(self.folder, "tally")
        tally.create(self.path)
        for name, value in (("_path", self.path), ("_slot", None)):
            patch = mock.patch.object(tally, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def test_units_of_threads_and_processes(self) -> None:
        def work() -> None:
            for _ in range(1000):
                tally.units()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        child = os.fork()
        if not child:
            tally.units(5)
            os._exit(0)
        os.waitpid(child, 0)
        found = tally.read(self.path)
        self.assertEqual((found.units, found.counting), (4005, os.getpid()))

    def test_a_part_that_goes_on(self) -> None:
        with mock.patch("time.monotonic", side_effect=[100.0, 103.0, 103.0, 200.0, 205.0]):
            with tally.part("loading"):
                pass
            self.assertEqual(tally.read(self.path).parts, {"loading": 3.0})
            goes_on = tally.part("loading")
            goes_on.__enter__()
            self.assertEqual(tally.read(self.path).parts, {"loading": 8.0})

    def test_shares_and_rates_between_two_readings(self) -> None:
        first = tally.Reading(100.0, units=10, last=99.0, parts={"loading": 40.0})
        last = tally.Reading(110.0, units=30, last=109.0, parts={"loading": 43.0, "saving": 1.0})
        self.assertEqual(uses.Truth.between(first, last), uses.Truth(2.0, {"loading": 0.3, "saving": 0.1}))
        self.assertIsNone(uses.Truth.between(first, first).units_per_s)

    def test_without_a_file_nothing_happens(self) -> None:
        with mock.patch.object(tally, "_path", None), tally.part("loading"):
            tally.units()
        self.assertEqual(tally.read(self.path).units, 0)


class Plans(unittest.TestCase):
    USE = dataclasses.replace(FOREST, plan={"loading": ("num_workers",), "metrics": ("Every N Steps",)})

    def parts(self, *steps: tuple[str, float | None]) -> list[tuple[str, float]]:
        return uses.parts_of_plan(self.USE, {"plan": [{"title": title, "step_ms": step_ms} for title, step_ms in steps]})

    def test_its_steps_are_parts_of_the_program_up_to_the_first_that_is_none(self) -> None:
        metrics, loading = ("Do it only every N steps", 20.0), ("Set num_workers=2", 10)
        self.assertEqual(self.parts(metrics, loading), [("metrics", 20.0), ("loading", 10.0)])
        self.assertEqual(self.parts(metrics, ("Save less often", 15.0), loading), [("metrics", 20.0)])
        self.assertEqual(self.parts(metrics, metrics), [("metrics", 20.0)], "the same again")
        self.assertEqual(self.parts((metrics[0], None), loading), [], "no steps are counted")
        self.assertEqual(uses.parts_of_plan(self.USE, {"plan": None}), [])

    def test_a_plan_is_followed_part_by_part_and_compared_with_the_speed_it_promised(self) -> None:
        verdict = {"steps": {"per_s": 10.0}, "plan": [{"title": "num_workers", "step_ms": 80.0}, {"title": "every n steps", "step_ms": 40.0}]}
        rates = {(): 11.0, ("loading",): 13.75, ("loading", "metrics"): 22.0}
        sums = uses.Sums()

        def alone(_use: Use, _fixed: bool, parts: tuple[str, ...] = ()) -> float:
            return rates[tuple(parts)]

        with mock.patch.object(uses, "rate_alone", alone):
            lines = list(uses.plan_lines(self.USE, verdict, sums))
        self.assertEqual(sums.lines(), ["step of a plan: 1 of 2"])
        self.assertIn("with loading fixed yes: 1.25× measured, 1.25× planned", lines[0])
        self.assertIn("with loading, metrics fixed NO: 2.00× measured, 2.50× planned", lines[1])


class Labels(unittest.TestCase):
    def test_each_program_has_one_row_and_uses_what_it_says(self) -> None:
        programs = {name[:-3] for name in os.listdir(uses.FOLDER) if name.endswith(".py")}
        programs -= {"__init__", "tally", "labels", "training_labels", "two_labels"}
        rows = (*USES, *TRAINING, *TWO)
        self.assertEqual(sorted(use.name for use in rows), sorted(programs))
        for use in rows:
            with open(os.path.join(uses.FOLDER, f"{use.name}.py"), encoding="utf-8") as file:
                text = file.read()
            named = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
            self.assertIn("tally", text, use.name)
            self.assertEqual(use.fixable, "tally.fixed" in text, use.name)
            self.assertLessEqual({*use.parts, *use.plan}, named, use.name)
            self.assertEqual(bool(use.plan), "tally.fixes(" in text, use.name)
            self.assertTrue(use.honest, use.name)
            self.assertTrue(any(one != use.also for one in use.honest), use.name)
