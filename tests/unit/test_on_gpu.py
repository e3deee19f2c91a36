"""Tests of the check for real devices, without one: parsing, comparing, judging, and the stand-ins of --fake."""

from __future__ import annotations

import io
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

from measure import unpack
from measure.evaluation import scoring
from measure.gpu import beside, check, devices, fake_smi, readings, smi
from measure.gpu.labelled import PROGRAMS, by_name
from measure.gpu.readings import AGREES, DIFFERS, NOT_OFFERED, Look, Sampled
from measure.gpu.report import Report
from measure.paths import MEASURE, TESTS
from unit.support import InFolder, known
from workloads import simulated_gpu

FAKE_SMI = os.path.join(MEASURE, "gpu/fake_smi.py")
RECORDING = os.path.join(TESTS, "recordings/compute-bound-block.tmz")
#: Of an A100 with MIG, an A10G, and one that fell off the bus.
CSV = """0, NVIDIA A100-SXM4-80GB, [N/A], [Insufficient Permissions], 81920, 87.10, 0x0000000000000004, Enabled
1, NVIDIA A10G, 97, 21000, 23028, 150.25, 0x0000000000000000, [N/A]
2, NVIDIA A10G, [GPU is lost], [GPU is lost], [Unknown Error], [Not Supported], [Not Supported], [GPU is lost]
"""
FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total", "power.draw", "clocks_event_reasons.active", "mig.mode.current")


def reading(name: str) -> readings.Reading:
    return next(one for one in readings.READINGS if one.name == name)


def compared(name: str, ours: list[Any], theirs: list[Any], phases: list[str] | None = None) -> readings.Compared:
    """One reading of device 0, by pairs of trainmon's raw value and nvidia-smi's text."""
    one = reading(name)
    key = {"utilisation": "utilization_pct", "power limit": "power_limit_mw", "clock event reasons": "clock_event_reasons",
           "MIG": "mig", "memory used": "memory_used_bytes", "UUID": "uuid"}[name]  # fmt: skip
    phases = phases or ["working"] * len(ours)
    pairs = [
        (Look(phase, 0.0, [{"index": "0", one.names[0]: right}], []), Sampled(phase, 0.0, [{"index": 0, key: left}]))
        for phase, left, right in zip(phases, ours, theirs)
    ]
    return known(readings.compare(one, one.names[0], 0, pairs))


class Parsing(InFolder):
    def test_what_is_no_value_is_none(self) -> None:
        rows = smi.table(CSV, FIELDS)
        self.assertEqual([row["name"] for row in rows], ["NVIDIA A100-SXM4-80GB", "NVIDIA A10G", "NVIDIA A10G"])
        self.assertEqual([row["utilization.gpu"] for row in rows], [None, "97", None])
        self.assertEqual([smi.number(row["memory.used"]) for row in rows], [None, 21000.0, None])
        self.assertEqual([smi.number(row["clocks_event_reasons.active"]) for row in rows], [4.0, 0.0, None])
        self.assertEqual([readings.enabled(row["mig.mode.current"]) for row in rows], [1.0, None, None])
        self.assertEqual(rows[2]["power.draw"], None)

    def test_numbers_with_units_and_words(self) -> None:
        self.assertEqual(smi.number("300.00 W"), 300.0)
        self.assertEqual(smi.number("0x0000000000000044"), 68.0)
        for text in (None, "", "Default", "0xzz"):
            self.assertIsNone(smi.number(text))

    def test_a_line_of_another_length_is_refused(self) -> None:
        with self.assertRaisesRegex(smi.SmiFailed, "gave 2 fields for 3"):
            smi.table("0, 1\n", ("index", "name", "uuid"))

    def test_processes_of_several_devices(self) -> None:
        found = smi.apps("71, GPU-aa, 512\n72, GPU-bb, [N/A]\n[Not Found], GPU-bb, [N/A]\n")
        self.assertEqual(found, [smi.App(71, "GPU-aa", 512.0), smi.App(72, "GPU-bb", None)])
        self.assertEqual(smi.apps(""), [])

    def test_fields_that_are_not_known_go_and_older_names_are_tried(self) -> None:
        known = {"index", "uuid", "clocks_throttle_reasons.active"}

        def run(_self: smi.Smi, *arguments: str) -> str:
            fields = arguments[0].partition("=")[2].split(",")
            for field in fields:
                if field not in known:
                    raise smi.SmiFailed(f'nvidia-smi: exit 2: Field "{field}" is not a valid field to query.')
            return ", ".join("1" for _ in fields) + "\n"

        reasons, other = ("clocks_event_reasons.active", "clocks_throttle_reasons.active"), ("no.such.field",)
        with mock.patch.object(smi.Smi, "_run", run):
            chosen = smi.Smi(["nvidia-smi"]).choose([("index",), ("uuid",), reasons, other])
        self.assertEqual(chosen, {("index",): "index", ("uuid",): "uuid", reasons: reasons[1], other: None})

    def test_other_failures_are_one_line(self) -> None:
        says = "#!/bin/sh\necho 'NVIDIA-SMI has failed because'\necho 'it could not talk to the driver.'\nexit 9\n"
        with self.assertRaisesRegex(smi.SmiFailed, "exit 9: .* driver.$"):
            smi.Smi([self.executable("nvidia-smi", says)]).choose([("index",)])
        with self.assertRaisesRegex(smi.SmiFailed, "not found; it comes with the driver"):
            smi.Smi([os.path.join(self.folder, "no-such-program")]).query()


class Comparing(unittest.TestCase):
    def test_what_agrees_and_what_differs(self) -> None:
        mib, limits = 1 << 20, ["300.00", "300.00", "300.00", "280.00"]
        for name, ours, theirs, outcome, note in (
            ("utilisation", [97, 90, 100], ["100", "99", "95"], AGREES, ""),
            ("utilisation", [40, 40, 100], ["100", "99", "95"], DIFFERS, "apart while working"),
            # What does not move may not differ at all.
            ("power limit", [300_000], ["280.00"], DIFFERS, "apart while working"),
            # A part of a large value.
            ("memory used", [80_000 * mib], ["80700"], AGREES, ""),
            ("memory used", [1_000 * mib], ["1100"], DIFFERS, "apart while working"),
            ("clock event reasons", [4], ["0x0000000000000004"], AGREES, ""),
            ("clock event reasons", [4], ["0x0000000000000044"], DIFFERS, "apart while working"),
            ("UUID", ["GPU-aa"], ["GPU-aa"], AGREES, ""),
            ("UUID", ["GPU-aa"], ["GPU-ab"], DIFFERS, "apart while working"),
            ("MIG", [True], ["Enabled"], AGREES, ""),
            ("utilisation", [None], [None], NOT_OFFERED, "neither"),
            # A zero made up for what nobody measured is the error to find.
            ("utilisation", [0], [None], DIFFERS, "nvidia-smi has none"),
            ("utilisation", [None], ["0"], DIFFERS, "trainmon has none"),
        ):
            row = compared(name, ours, theirs)
            self.assertEqual((row.outcome, row.note), (outcome, note), (name, ours, theirs))
        row = compared("utilisation", [97, 90, 100], ["100", "99", "95"])
        self.assertEqual((row.pairs, row.distances), (3, {"working": 5.0}))
        self.assertEqual((compared("utilisation", [0], [None]).ours, compared("utilisation", [None], [None]).theirs), ("0 %", "–"))
        # In one phase of two.
        self.assertEqual(compared("power limit", [300_000] * 4, limits, ["idle"] * 3 + ["working"]).note, "apart while working")

    def test_a_field_that_this_nvidia_smi_does_not_know(self) -> None:
        pair = Look("idle", 0.0, [{"index": "0"}], []), Sampled("idle", 0.0, [{"index": 0, "decoder_pct": 3}])
        row = known(readings.compare(reading("decoder"), None, 0, [pair]))
        self.assertEqual((row.outcome, row.note), (NOT_OFFERED, "this nvidia-smi does not know the field"))

    def test_pairs_are_near_and_of_one_phase(self) -> None:
        looks = [Look("idle", 1.0, [], []), Look("idle", 9.0, [], []), Look("working", 2.0, [], [])]
        samples = [Sampled("idle", 1.4, []), Sampled("idle", 0.8, []), Sampled("working", 3.0, [])]
        self.assertEqual(readings.pairs(looks, samples), [(looks[0], samples[1])])

    def test_several_devices_and_their_processes(self) -> None:
        def device(index: int, pids: list[int]) -> readings.Device:
            held = [{"pid": pid, "memory_bytes": 512 << 20, "compute": True} for pid in pids]
            return {"index": index, "uuid": f"GPU-{index}", "utilization_pct": 50 * index, "processes": held}

        rows: list[smi.Row] = [{"index": str(index), "uuid": f"GPU-{index}", "utilization.gpu": str(50 * index)} for index in (0, 1)]
        looks = [Look("working", 5.0, rows, [smi.App(71, "GPU-1", 512.0)])]
        table = readings.all_rows(looks, [Sampled("working", 5.1, [device(0, [72]), device(1, [71])])], {("utilization.gpu",): "utilization.gpu"})
        of = {(row.device, row.reading): row for row in table}
        self.assertEqual((of["0", "utilisation"].outcome, of["1", "utilisation"].theirs), (AGREES, "50 %"))
        self.assertEqual((of["0", "compute processes"].outcome, of["1", "compute processes"].outcome), (DIFFERS, AGREES))
        self.assertEqual(of["1", "memory of processes"].outcome, AGREES)

    def test_power_from_the_energy_counter(self) -> None:
        samples = [Sampled("idle", t, [{"index": 0, "energy_mj": 1000 + int(t * 70_000)}]) for t in (0.0, 0.5, 1.0)]
        readings.with_energy(samples)
        self.assertNotIn("energy_w", samples[0].devices[0])
        self.assertAlmostEqual(samples[2].devices[0]["energy_w"], 70.0)


class Judging(unittest.TestCase):
    def row(self, klass: str, cause: str | None, confidence: float, idle: float, busy: float) -> beside.Watched:
        label = by_name("loader-bound")
        result = scoring.Result(label.name, 1, label.klass, label.cause)
        verdict = {"class": klass, "cause": cause, "confidence": confidence, "gpu_idle": {"total": idle}}
        scoring.judge(result, verdict, label.acceptable())
        result.busy_true = busy
        row = beside.Watched(label.name, "data-loader/too-few-workers")
        beside.fill(row, result, verdict, compare_idle=True)
        return row

    def test_right(self) -> None:
        row = self.row("data-loader", "too-few-workers", 0.9, 0.75, 0.22)
        self.assertTrue(row.passed)
        self.assertEqual(row.why_not, "")

    def test_wrong_class_cause_or_idle_share(self) -> None:
        row = self.row("gpu", "compute-bound", 0.9, 0.75, 0.25)
        self.assertEqual((row.passed, row.why_not), (False, "wrong class, and sure"))
        row = self.row("data-loader", "collate", 0.9, 0.75, 0.25)
        self.assertEqual((row.passed, row.why_not), (False, "another cause"))
        row = self.row("data-loader", "transform", 0.9, 0.40, 0.25)
        self.assertEqual((row.passed, row.why_not), (False, "idle share off by 35 points"))

    def test_a_verdict_that_contradicts_itself_does_not_pass(self) -> None:
        row = self.row("data-loader", "too-few-workers", 0.9, 0.75, 0.25)
        row.contradiction = "the five shares add up to 1.20"
        self.assertEqual((row.passed, row.why_not), (False, "contradicts itself: the five shares add up to 1.20"))

    def test_a_crowded_machine_is_said_beside_a_wrong_verdict(self) -> None:
        row = self.row("cpu", "noisy-neighbour", 0.9, 0.75, 0.25)
        row.cores_of_others = 1.0 * len(os.sched_getaffinity(0))
        self.assertIn("repeat it on a quiet machine", row.why_not)

    def test_only_all_of_it_is_a_pass(self) -> None:
        good = readings.Compared("utilisation", "0", "97 %", "98 %", AGREES)
        bad = readings.Compared("power", "0", "90 W", "150 W", DIFFERS)
        right, wrong = self.row("data-loader", "transform", 0.9, 0.75, 0.25), beside.Watched("init", "idle", error="died")
        self.assertTrue(Report({}, [good], [right]).passed)
        for case in (
            Report({}, [good, bad], [right]), Report({}, [good], [right, wrong]), Report({}, [good], [right], failures=["no py-spy"]),
            Report({}, [], [right]), Report({}, [good], []),
        ):  # fmt: skip
            self.assertFalse(case.passed, case)

    def test_labels_are_sound(self) -> None:
        self.assertEqual(len({label.name for label in PROGRAMS}), len(PROGRAMS))
        source = Path(MEASURE, "gpu/programs.py").read_text(encoding="utf-8")
        for label in PROGRAMS:
            self.assertIn(f"def {label.entry.partition(':')[2]}(", source, label.name)


class Reporting(unittest.TestCase):
    ENVIRONMENT = {"simulated": True, "devices": ["Simulated H200"], "driver": None}

    def test_the_title_says_that_nothing_was_real(self) -> None:
        self.assertIn("SIMULATED", Report(self.ENVIRONMENT).title)
        devices = {"simulated": False, "devices": ["NVIDIA A10G", "NVIDIA A10G", None]}
        self.assertEqual(Report(devices).title, "# trainmon on NVIDIA A10G")

    def test_tables_hold_what_was_seen(self) -> None:
        row = readings.Compared("utilisation", "0", "–", "97 %", DIFFERS, "a | b")
        watched = beside.Watched("loader-bound", "data-loader/too-few-workers", error="it died")
        text = Report(self.ENVIRONMENT, [row], [watched], [("nvmlInit", "1 µs", "2 µs")], ["py-spy not found"]).markdown()
        self.assertIn("| 0 | utilisation | – | 97 % | differs | – | a \\| b |", text)
        self.assertIn("it died |", text)
        self.assertIn("- py-spy not found", text)
        whole = Report(self.ENVIRONMENT, [row], [watched]).as_json()
        self.assertEqual((whole["passed"], whole["programs"][0]["why_not"]), (False, "it died"))
        json.dumps(whole)


class StandIns(unittest.TestCase):
    def asked(self, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, FAKE_SMI, *arguments]
        return subprocess.run(command, env={**os.environ, "TRAINMON_SIMULATED_DEVICE": path}, capture_output=True, text=True, timeout=20)

    def test_it_reads_the_state_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "device.bin")
            simulated_gpu.create(path, devices=2)
            with open(path, "r+b") as file:
                file.seek(simulated_gpu.RECORD_BYTES * 2 + simulated_gpu.FIELDS["owner_pid"])
                file.write(struct.pack("<Q", os.getpid()))
            stand_in = smi.Smi([sys.executable, FAKE_SMI], {**os.environ, "TRAINMON_SIMULATED_DEVICE": path})
            wanted = [one.names for one in readings.READINGS if one.names] + [("index",)]
            chosen = stand_in.choose(wanted)
            self.assertEqual(chosen["pcie.link.gen.gpucurrent", "pcie.link.gen.current"], "pcie.link.gen.current")
            rows = stand_in.query()
            self.assertEqual([(row["index"], row["utilization.gpu"], row["power.draw"]) for row in rows], [("0", "0", "70.00"), ("1", "0", "70.00")])
            self.assertEqual([(app.pid, app.uuid) for app in stand_in.apps()], [(os.getpid(), rows[1]["uuid"])])
            self.assertEqual(self.asked(path, "--query-gpu=index,nonsense").returncode, 2)

    def test_utilisation_is_of_the_time_between_two_looks(self) -> None:
        device = {"enqueued_ns": 0, "free_at_ns": 0, "owner_pid": 1, "neighbour_enqueued_ns": 0, "neighbour_free_at_ns": 0, "neighbour_pid": 0}
        later = {**device, "enqueued_ns": 600, "free_at_ns": 1_100}
        self.assertAlmostEqual(fake_smi.utilisation(device, 0, later, 1_000), 0.5)
        self.assertEqual(fake_smi.utilisation(device, 0, {**later, "owner_pid": 0}, 1_000), 0.0)


class MadeUpCuda:
    """torch as far as gpu/devices.py calls it, on a device whose matrix products take 2 ms, small ones 0.1, sums 0.5."""

    float16 = float32 = None

    def __init__(self) -> None:
        self.now = self.free_at = 0.0
        self.kernels = 0
        made_up = self

        class Event:
            def __init__(self, enable_timing: bool):
                self.at = 0.0

            def record(self) -> None:
                self.at = max(made_up.now, made_up.free_at)

            def query(self) -> bool:
                return self.at <= made_up.now

            def synchronize(self) -> None:
                made_up.now = max(made_up.now, self.at)

            def elapsed_time(self, end: Event) -> float:
                return (end.at - self.at) * 1e3

        self.cuda = mock.Mock(Event=Event, get_device_capability=lambda: (9, 0))

    def kernel(self, seconds: float) -> None:
        self.kernels += 1
        self.free_at = max(self.now, self.free_at) + seconds

    def randn(self, *shape: int, **_options: Any) -> tuple[int, ...]:
        return shape

    ones = zeros = empty = randn

    def empty_like(self, other: tuple[int, ...]) -> tuple[int, ...]:
        return other

    def mm(self, one: tuple[int, ...], _other: object, out: object) -> None:
        self.kernel(0.002 if one[0] == devices.LARGE else 0.0001)

    def add(self, _one: object, _other: object, out: object) -> None:
        self.kernel(0.0005)


class Calibrating(unittest.TestCase):
    def test_work_lasts_as_long_as_asked_and_counts_once_it_is_done(self) -> None:
        made_up = MadeUpCuda()
        with mock.patch.object(devices, "torch", made_up):
            device = devices.CudaDevice()
            device.compute(0.05)
            self.assertEqual(device.busy_s(), 0.0)
            made_up.now = made_up.free_at
            self.assertAlmostEqual(device.busy_s(), 0.05)
            made_up.now += 1.0
            self.assertAlmostEqual(device.busy_s(), 0.05)
            # Too short for large matrices.
            device.compute(0.001)
            made_up.now, before = made_up.free_at + 1.0, made_up.kernels
            self.assertAlmostEqual(device.busy_s(), 0.051)
            device.compute(0.001)
            self.assertEqual(made_up.kernels - before, 10)
            sums = device.sums()
            sums(0.005)
            made_up.now = made_up.free_at
            self.assertAlmostEqual(device.busy_s(), 0.057)

    def test_time_waited_is_counted_around_the_wait(self) -> None:
        waiting = devices.Waiting()
        for _ in range(2):
            with waiting:
                time.sleep(0.02)
        self.assertGreaterEqual(waiting.seconds, 0.04)


class Running(InFolder):
    def said(self, *arguments: str) -> tuple[int, str]:
        with redirect_stderr(io.StringIO()) as errors:
            return check.main(list(arguments)), errors.getvalue()

    def test_what_is_missing_is_one_line(self) -> None:
        out, program = os.path.join(self.folder, "out"), os.path.join(self.folder, "trainmon")
        library = os.path.join(self.folder, "none.so")
        status, text = self.said("--out", out, "--trainmon", program)
        self.assertEqual((status, text.count("\n")), (2, 1))
        self.assertIn("--trainmon", text)
        self.executable("trainmon", "#!/bin/sh\n")
        status, text = self.said("--out", out, "--trainmon", program, "--fake", "--nvml-lib", library)
        self.assertEqual((status, text.count("\n")), (2, 1))
        self.assertIn("cargo build --release --examples", text)
        with mock.patch("torch.cuda.is_available", return_value=False):
            status, text = self.said("--out", out, "--trainmon", program)
        self.assertEqual(status, 2)
        self.assertIn("no CUDA device", text)
        self.assertFalse(os.path.exists(out))

    def test_recordings_unpack_without_a_package(self) -> None:
        content = Path(RECORDING).read_bytes()
        self.assertEqual(unpack.by_library(content), unpack.unpacked(content))
        with self.assertRaises(ValueError):
            unpack.by_library(b"no recording at all")

    def test_samples_of_a_recording(self) -> None:
        with open(RECORDING, "rb") as file:
            lines = unpack.unpacked(file.read()).splitlines()
        found = beside.sampled(lines[1:], "working")
        self.assertGreater(len(found), 5)
        self.assertEqual(found[-1].devices[0]["name"], "Simulated H200")
        self.assertEqual(found[-1].devices[0]["driver"], "580.95.05")
        self.assertTrue(all(before.moment < after.moment for before, after in itertools.pairwise(found)))
