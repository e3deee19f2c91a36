"""Tests of the labels, of the programs made at random, and of the simulated device."""

from __future__ import annotations

import os
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from measure.evaluation import scoring
from measure.paths import WORKLOADS
from unit.support import InFolder
from workloads import culprits, launch, random_plans, simulated_gpu
from workloads.labels import LABELS, by_name


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
        readme = Path(WORKLOADS, "README.md").read_text(encoding="utf-8")
        for label in LABELS:
            self.assertIn(f"| `{label.name}`", readme)

    def test_a_part_is_held_out(self) -> None:
        share = sum(label.held_out for label in LABELS) / len(LABELS)
        self.assertTrue(0.2 <= share <= 0.4, share)

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


class Ends(unittest.TestCase):
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


class SimulatedGpu(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.path = os.path.join(self.folder, "device.bin")
        self.gpu = simulated_gpu.SimulatedGpu(self.path)
        self.addCleanup(self.gpu._release)

    def word(self, field: str) -> int:
        content = Path(self.path).read_bytes()
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
        # Asleep it would use a hundredth; on a busy machine a spin gets less than all.
        self.assertGreater(used, 0.05 * took)
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
