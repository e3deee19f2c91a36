"""Tests of the evaluation's own arithmetic: `python -m unittest discover tests`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [TESTS, os.path.join(TESTS, "workloads")]

import record_workloads  # noqa: E402
import simulated_gpu  # noqa: E402
from evaluation import scoring  # noqa: E402
from labels import LABELS, by_name  # noqa: E402
from truth import Truth  # noqa: E402


def written(lines: list[dict], tail: str = "") -> Truth:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
    try:
        return Truth.read(file.name)
    finally:
        os.unlink(file.name)


class TruthWindows(unittest.TestCase):
    STEPS = [{"a": 10.0 + n, "b": 10.5 + n, "c": 10.9 + n, "busy": 0.3 * n, "sync": 0.1 * n} for n in range(10)]

    def test_waits_are_clipped_to_the_window(self):
        truth = written(self.STEPS)
        self.assertAlmostEqual(truth.wait_share(10.0, 19.0), 0.5)
        self.assertAlmostEqual(truth.wait_share(10.25, 10.75), 0.5)
        self.assertAlmostEqual(truth.wait_share(10.5, 10.9), 0.0)

    def test_a_wait_in_progress_counts(self):
        self.assertAlmostEqual(written(self.STEPS).wait_share(19.9, 21.9), 1.0)

    def test_steps_and_device_time(self):
        truth = written(self.STEPS)
        self.assertAlmostEqual(truth.steps_per_s(10.0, 19.0), 1.0)
        self.assertAlmostEqual(truth.busy_share(11.0, 18.0), 0.3)
        self.assertAlmostEqual(truth.sync_share(11.0, 18.0), 0.1)

    def test_a_torn_line_is_not_there_yet(self):
        truth = written([{"workload": "x", "pid": 1}, *self.STEPS, {"event": "ready", "t": 1.0}], '{"a": 3')
        self.assertEqual((len(truth.steps), truth.header["pid"], truth.events["ready"]["t"]), (10, 1, 1.0))

    def test_nothing_gives_nothing(self):
        self.assertIsNone(Truth().wait_share(0.0, 1.0))
        self.assertIsNone(Truth().busy_share(0.0, 1.0))
        self.assertIsNone(written(self.STEPS).wait_share(12.0, 12.0))
        self.assertEqual(Truth.read("/nonexistent/truth").steps, [])


class Scoring(unittest.TestCase):
    ANSWERS = (("data-loader", "decode"), ("data-loader", "too-few-workers"), ("cpu", None))

    def judged(self, **verdict) -> scoring.Result:
        result = scoring.Result("w", 1, "data-loader", "decode")
        scoring.judge(result, verdict, self.ANSWERS)
        return result

    def test_class_and_cause(self):
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

    def test_confident_and_wrong(self):
        self.assertTrue(self.judged(**{"class": "gpu", "confidence": 0.8}).confident_and_wrong)
        self.assertFalse(self.judged(**{"class": "gpu", "confidence": 0.79}).confident_and_wrong)
        self.assertFalse(self.judged(**{"class": "cpu", "confidence": 0.99}).confident_and_wrong)

    def test_summary(self):
        good = self.judged(**{"class": "cpu", "shares": {"input_wait": 0.6}, "first_verdict_s": 3.0})
        good.wait_true = 0.5
        failed = scoring.Result("w", 2, "data-loader", "decode", error="exit 3: no such process")
        total = scoring.summarise([good, failed])
        self.assertEqual((total["class_accuracy"], total["failed"], total["wait_scored"]), (0.5, 1, 1))
        self.assertAlmostEqual(total["wait_error_mean"], 0.1)
        self.assertEqual(total["first_verdict_median_s"], 3.0)
        self.assertIn("50%", scoring.tables([good, failed]))
        json.dumps(scoring.as_json([good, failed]))

    def test_null_parts_of_a_verdict(self):
        result = self.judged(**{"class": "data-loader", "shares": None, "gpu_idle": None, "steps": None})
        self.assertIsNone(result.wait_error)

    def test_percentile(self):
        self.assertEqual(scoring.percentile([float(n) for n in range(1, 11)], 0.9), 9.0)
        self.assertEqual(scoring.percentile([4.0], 0.9), 4.0)
        self.assertIsNone(scoring.percentile([], 0.9))


class Sidecars(unittest.TestCase):
    LABEL = by_name("decode")

    def made(self, wait: float | None = 0.6, **verdict) -> dict:
        said = {"class": "data-loader", "cause": "decode", "confidence": 0.93, "summary": "", "shares": None}
        return record_workloads.sidecar(self.LABEL, {**said, **verdict}, wait, 8.0)

    def test_the_truth_is_the_labels(self):
        made = self.made(cause="transform", shares={"input_wait": 0.57})
        self.assertEqual((made["class"], made["cause"]), (self.LABEL.klass, self.LABEL.cause))
        self.assertEqual((made["input_wait"], made["min_confidence"]), ([0.52, 0.68], 0.8))
        self.assertIsNone(self.made(wait=None)["input_wait"])

    def test_other_verdicts_are_refused(self):
        for verdict in (
            {"class": "cpu"},
            {"cause": "collate", "wait": None},
            {"cause": None, "wait": None},
            {"shares": {"input_wait": 0.4}},
            {"shares": None},
        ):
            with self.assertRaises(record_workloads.Refused, msg=verdict):
                self.made(**verdict)


class Labels(unittest.TestCase):
    def test_words_names_and_entries(self):
        self.assertEqual(len({label.name for label in LABELS}), len(LABELS))
        for label in LABELS:
            file, function = label.entry.split(":")
            with open(os.path.join(TESTS, "workloads", f"{file}.py"), encoding="utf-8") as source:
                self.assertIn(f"def {function}(job: Job)", source.read(), label.name)
            for klass, _cause in label.acceptable():
                self.assertIn(klass, scoring.CLASSES)

    def test_each_has_its_row_in_the_readme(self):
        with open(os.path.join(TESTS, "workloads", "README.md"), encoding="utf-8") as file:
            readme = file.read()
        for label in LABELS:
            self.assertIn(f"| `{label.name}`", readme)

    def test_a_part_is_held_out(self):
        share = sum(label.held_out for label in LABELS) / len(LABELS)
        self.assertTrue(0.2 <= share <= 0.4, share)


class SimulatedGpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "device.bin")
        self.gpu = simulated_gpu.SimulatedGpu(self.path)

    def tearDown(self):
        self.gpu._release()
        self.folder.cleanup()

    def word(self, field: str) -> int:
        with open(self.path, "rb") as file:
            content = file.read()
        self.assertEqual((content[:8], len(content)), (simulated_gpu.MAGIC, simulated_gpu.FILE_BYTES))
        at = simulated_gpu.RECORD_BYTES + simulated_gpu.FIELDS[field]
        return int.from_bytes(content[at : at + 8], "little")

    def test_busy_time_is_exact(self):
        for _ in range(5):
            self.gpu.launch(0.004)
        self.assertLess(self.gpu.busy_s(), 0.02)
        self.gpu.synchronize()
        self.assertAlmostEqual(self.gpu.busy_s(), 0.02, places=6)
        self.assertEqual(self.word("enqueued_ns"), 20_000_000)
        self.assertEqual(self.word("sequence") % 2, 0)
        self.assertEqual(self.word("owner_pid"), os.getpid())

    def test_the_launch_queue_is_bounded(self):
        for _ in range(simulated_gpu.MAX_QUEUED_LAUNCHES + 50):
            self.gpu.launch(0.0002)
        self.assertGreater(self.gpu.synced_s, 0.0)
        self.assertLessEqual(len(self.gpu._queue), simulated_gpu.MAX_QUEUED_LAUNCHES)

    def test_a_neighbour_takes_its_share(self):
        self.gpu.share_with(1, 0.5)
        self.gpu.launch(0.01)
        self.gpu.synchronize()
        self.assertEqual(self.word("neighbour_enqueued_ns"), 10_000_000)
        self.assertEqual(self.word("enqueued_ns"), 10_000_000)

    def test_release_gives_the_device_back(self):
        self.gpu._release()
        self.assertEqual(self.word("owner_pid"), 0)


if __name__ == "__main__":
    unittest.main()
