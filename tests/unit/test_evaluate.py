"""Tests of what measure evaluate draws, keeps, compares and takes as options."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import tempfile
import unittest
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from measure import recordings
from measure.evaluation import again, command, cost, keeping, sample, whatif
from measure.evaluation.cost import Cost
from measure.monitor import Monitor
from unit.support import known
from workloads.labels import LABELS, Label, by_name
from workloads.truth import Truth


def called(*words: str) -> argparse.Namespace:
    """The arguments of a call of measure evaluate."""
    return command.arguments(list(words))


class RunsThatAreKept(unittest.TestCase):
    def test_they_come_back_with_what_is_true_of_them_and_without_stacks_where_asked(self) -> None:
        import zstandard

        label = LABELS[0]
        with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as folder:
            truth_path, recording = os.path.join(source, "truth.jsonl"), os.path.join(source, "any.tmz")
            Path(truth_path).write_text(json.dumps({"a": 10.0, "b": 10.5, "c": 10.9, "busy": 0.0, "sync": 0.0}) + "\n", encoding="utf-8")
            samples = [{"monotonic_ns": 1, "stacks": {"windows": []}}, {"monotonic_ns": 2}]
            lines = [b'{"schema":2}', *(json.dumps(sample).encode() for sample in samples), b""]
            Path(recording).write_bytes(zstandard.compress(b"\n".join(lines)))
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
            Path(path).write_bytes(zstandard.compress("".join(f"{line}\n" for line in lines).encode()))
            seen = recordings.watched(Said("", None), "", path)
        self.assertEqual((seen.begin, seen.end, seen.verdict["class"]), (10.0, 13.0, "cpu"))
        self.assertEqual(seen.classes, [(10.0, "unknown"), (11.0, "unknown"), (12.0, "cpu"), (13.0, "cpu")])


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
        self.assertRegex(text, r"headless +to 15 s +3 +10\.00 +10\.00 +0\.900 +0\.500 +1\.200")
        self.assertRegex(text, r"screen +frame ms +1 +90 +60 +1\.500")
        # Of the young screen: neither the frame's ratio nor a single pair of the others counts.
        self.assertEqual(highest, 1.5)
        self.assertNotIn("later", text)
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
