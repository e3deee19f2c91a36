"""Tests of `measure profiles`: the plain account against small traces counted by hand, and how it is compared with trainmon's."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

from measure.profiles import command, made_up, speed
from measure.profiles.intervals import length, union, within, without
from measure.profiles.reference import Account, Event, NotATrace, account, complete, innermost, nanoseconds
from measure.profiles.run import Ran, measured
from unit.support import InFolder

LOOP, AUTOGRAD, LOADER = (1, 1), (1, 2), (1, 3)


def event(category: str, name: str, begin: float, lasts: float, thread: tuple[int, int] = LOOP, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": thread[0], "tid": thread[1], "ts": begin, "dur": lasts, "args": args}


def kernel(begin: float, lasts: float, name: str = "gemm", device: int = 0, **args: Any) -> dict[str, Any]:
    return event("kernel", name, begin, lasts, (device, 7), device=device, **args)


def launch(begin: float, lasts: float = 1, thread: tuple[int, int] = LOOP) -> dict[str, Any]:
    return event("cuda_runtime", "cudaLaunchKernel", begin, lasts, thread)


def step(number: int, begin: float, lasts: float) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", begin, lasts)


def row(*events: dict[str, Any]) -> dict[str, Any]:
    return Account(list(complete(events))).row()


class Intervals(InFolder):
    def test_sets_of_time(self) -> None:
        self.assertEqual(union([(5, 6), (0, 2), (1, 3), (3, 4), (9, 9)]), [(0, 4), (5, 6)])
        self.assertEqual(within([(0, 4), (5, 6), (8, 9)], (3, 8)), [(3, 4), (5, 6)])
        self.assertEqual(without([(0, 10), (20, 30)], [(0, 1), (3, 4), (9, 25), (28, 40)]), [(1, 3), (4, 9), (25, 28)])
        self.assertEqual(without([(0, 10)], []), [(0, 10)])
        self.assertEqual(without([(2, 3), (4, 5)], [(0, 9)]), [])
        self.assertEqual(length([(0, 4), (5, 6)]), 5)


class Reference(InFolder):
    def test_shares_are_of_the_steps(self) -> None:
        # 100 µs of steps. Kernels: 10 to 30 and 20 to 40 overlap, a collective 35 to 55, a copy 70 to 80, and one that begins too early.
        found = row(
            step(1, 0, 50), step(2, 50, 50), kernel(10, 20), kernel(20, 20), kernel(35, 20, "ncclDevKernel_AllReduce_Sum"), kernel(-10, 12),
            event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 70, 10, (0, 9), device=0, bytes=4096),
            event("gpu_memset", "Memset (Device)", 78, 4, (0, 7), device=0), kernel(200, 50),
        )  # fmt: skip
        self.assertEqual((found["window_ms"], found["steps"], found["device"]), (0.1, 2, 0))
        self.assertAlmostEqual(found["compute"], 0.32)
        self.assertAlmostEqual(found["communication"], 0.20)
        self.assertAlmostEqual(found["exposed"], 0.15)
        self.assertAlmostEqual(found["copy"], 0.12)
        self.assertAlmostEqual(found["busy"], 0.02 + 0.45 + 0.12)
        self.assertEqual((found["kernels"], found["median_kernel_us"]), (4, 20.0))
        self.assertEqual(found["copies"], [{"direction": "host-to-device", "pageable": True, "count": 1, "bytes": 4096, "ms": 0.01}])
        # The loop is in its annotations.
        self.assertEqual(found["idle_by"], {"input_wait": 0.0, "sync": 0.0, "launch": 0.0, "operator": 0.41, "python": 0.0})

    def test_reasons_come_in_order_and_from_several_threads(self) -> None:
        # Between 0 and 100 the GPU runs from 90 on.
        found = row(
            event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20),
            event("cpu_op", "aten::stack", 5, 10),  # inside the wait: still the wait
            event("cpu_op", "aten::mm", 20, 30), launch(25, 5), event("cuda_runtime", "cudaStreamSynchronize", 60, 10),
            event("cpu_op", "AddmmBackward0", 55, 10, AUTOGRAD), launch(58, 4, AUTOGRAD), event("cpu_op", "ignored", 70, 20, LOADER),
            event("python_function", "train.py(3): main", 0, 100), kernel(90, 10),
        )  # fmt: skip
        self.assertEqual((found["window_ms"], found["steps"]), (0.1, 0))
        # Launches at 25 to 30 and 58 to 60, where the wait for the GPU begins; operators at 20 to 25, 30 to 50 and 55 to 58.
        self.assertEqual(found["idle_by"], {"input_wait": 0.2, "sync": 0.1, "launch": 0.07, "operator": 0.28, "python": 0.25})
        self.assertEqual((found["input_wait"], found["sync"]), (0.2, 0.1))
        self.assertEqual(found["syncs"], [{"call": "cudaStreamSynchronize", "count": 1, "wait_ms": 0.01}])

    def test_the_innermost_event_began_last(self) -> None:
        def one(begin: int, end: int, category: str) -> Event:
            return Event(category, "", LOOP, begin, end, {})

        found = innermost([one(0, 50, "python_function"), one(10, 30, "cpu_op"), one(10, 12, "cuda_runtime"), one(25, 40, "cuda_runtime")])
        self.assertEqual(
            [(interval, reason) for interval, reason in found],
            [((0, 10), "python"), ((10, 12), "launch"), ((12, 25), "operator"), ((25, 30), "launch"), ((30, 40), "launch"), ((40, 50), "python")],
        )

    def test_the_gpu_is_that_with_most_kernels(self) -> None:
        found = row(kernel(0, 10), kernel(20, 10, device=3), kernel(40, 10, device=3), launch(0))
        # The window is that of the loop and of this GPU.
        self.assertEqual((found["device"], found["kernels"], found["window_ms"]), (3, 2, 0.05))

    def test_old_categories_and_fractions(self) -> None:
        old = [{**kernel(10.5, 4.25), "cat": "Kernel", "args": {}, "pid": 2}, {**launch(0, 20), "cat": "Runtime"}]
        old.append({**event("Memcpy", "Memcpy DtoH (Device -> Pinned)", 16, 1, (2, 7))})
        found = row(*old)
        self.assertEqual((found["device"], found["window_ms"], found["busy"], found["median_kernel_us"]), (2, 0.02, 0.2625, 4.25))
        self.assertEqual(found["copies"][0]["pageable"], False)

    def test_times_are_exact(self) -> None:
        self.assertEqual(nanoseconds(9_007_199_254_740_993), 9_007_199_254_740_993_000)
        unusable: list[Any] = [None, True, [], "x", float("nan"), float("inf")]
        for nothing in unusable:
            self.assertIsNone(nanoseconds(nothing), nothing)
        path = os.path.join(self.folder, "trace.json.gz")
        with gzip.open(path, "wt") as file:
            file.write('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9007199254740993.125, "dur": 0.75}]}')
        self.assertEqual(account(path)["median_kernel_us"], 0.75)

    def test_what_is_no_trace_is_refused(self) -> None:
        for text in ("", "{}", '{"traceEvents": {}}', '{"traceEvents": [', "[]"):
            path = Path(self.folder, "trace.json")
            path.write_text(text, encoding="utf-8")
            with self.assertRaises(NotATrace, msg=text):
                account(str(path))


def profile(**changes: Any) -> dict[str, Any]:
    """trainmon's account of the made-up step."""
    gpu = {
        "index": 0, "busy": 0.5, "compute": 0.5, "communication": 0.0, "exposed": 0.0, "copy": 0.0, "kernels": 40, "median_kernel_us": 5.0,
        "idle_by": {"input_wait": 0.2, "sync": 0.1, "launch": 0.1, "operator": 0.1, "python": 0.0},
    }  # fmt: skip
    syncs = [{"call": "cudaStreamSynchronize", "count": 3, "wait_ms": 1.0}, {"call": "cudaStreamSynchronize", "count": 1, "wait_ms": 0.5}]
    syncs.append({"call": "cudaMemcpyAsync", "count": 9, "wait_ms": 8.0, "copies": "host-to-device"})
    return {
        "window_ms": 100.0, "steps": 2, "devices": [{**gpu, **changes}], "loop": {"input_wait": 0.2, "sync": 0.1}, "syncs": syncs, "copies": [],
    }  # fmt: skip


class Comparing(InFolder):
    def differing(self, **changes: Any) -> list[str]:
        found = command.differences(command.told(profile(**changes), 0), command.told(profile(), 0))
        return [one.line() for one in found if one.matters]

    def test_shares_may_differ_by_half_a_point_and_counts_not_at_all(self) -> None:
        self.assertEqual(self.differing(busy=0.5049, median_kernel_us=5.2), [])
        self.assertEqual(self.differing(busy=0.506, kernels=41), ["busy: 50.60%, not 50.00%", "kernels: 41, not 40"])

    def test_calls_of_one_name_are_summed_and_copies_are_none(self) -> None:
        self.assertEqual(command.told(profile(), 0)["syncs"], [{"call": "cudaStreamSynchronize", "count": 4, "wait_ms": 1.5}])

    def test_groups_that_only_one_of_both_has_are_told(self) -> None:
        ours, reference = command.told(profile(), 0), command.told(profile(), 0)
        reference["copies"] = [{"direction": "host-to-device", "pageable": None, "count": 3, "bytes": 12, "ms": 5.0}]
        found = [one.line() for one in command.differences(ours, reference) if one.matters]
        self.assertEqual(found[:2], ["copy host-to-device: count: None, not 3", "copy host-to-device: bytes: None, not 12"])

    def test_a_file_that_is_no_trace_must_be_refused(self) -> None:
        def ran(status: int, output: str = "") -> Ran:
            return Ran(status, output, "trainmon: no trace\n", 0.1, 0.1, 10.0, True)

        verdict = {"class": "gpu", "cause": None, "confidence": 0.5, "summary": "…", "profile": profile()}
        self.assertEqual(command.judged("a.json", ran(1), None)[1], 0)
        self.assertEqual(command.judged("a.json", ran(0, json.dumps(verdict)), None)[1], 1)
        lines, wrong = command.judged("a.json", ran(0, json.dumps(verdict)), {"file": "a.json", **command.told(profile(), 0)})
        self.assertEqual(wrong, 0, lines)
        self.assertIn("largest difference 0.00 points", lines[-1])


class MadeUp(InFolder):
    def test_it_has_the_steps_and_shares_of_one(self) -> None:
        paths = [os.path.join(self.folder, name) for name in ("one.json", "many.json.gz")]
        sizes = [made_up.write_to(path, steps) for path, steps in zip(paths, (1, 50))]
        one, many = (account(path) for path in paths)
        self.assertAlmostEqual(sizes[1] / sizes[0], 50, delta=3)
        self.assertEqual((many["steps"], many["kernels"]), (50, 50 * one["kernels"]))
        for share in ("busy", "compute", "copy", "input_wait", "sync"):
            self.assertAlmostEqual(one[share], many[share], places=2)
        self.assertGreater(one["idle_by"]["operator"], 0.1)

    def test_sizes_are_met(self) -> None:
        path = os.path.join(self.folder, "trace.json.gz")
        made_up.write_to(path, made_up.steps_of(500_000, compressed=True))
        self.assertAlmostEqual(os.path.getsize(path) / 500_000, 1, delta=0.2)
        self.assertEqual([speed.parsed("100"), speed.parsed("10gz")], [(100, False), (10, True)])
        with self.assertRaises(ValueError):
            speed.parsed("1e3")

    def test_ids_are_new_in_each_step(self) -> None:
        path = os.path.join(self.folder, "trace.json")
        made_up.write_to(path, 2)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        launched = [one["args"]["correlation"] for one in events if one.get("cat") == "kernel"]
        self.assertEqual(len(set(launched)), len(launched))
        self.assertEqual(sorted(one["name"] for one in events if one["name"].startswith("ProfilerStep")), ["ProfilerStep#10", "ProfilerStep#11"])


class Measuring(InFolder):
    def test_status_output_time_and_memory_are_those_of_the_program(self) -> None:
        program = self.executable("program", "#!/bin/sh\necho out; echo first >&2; echo last >&2; exit 1\n")
        ran = measured([program], 10)
        self.assertEqual((ran.status, ran.output, ran.message(), ran.in_time), (1, "out\n", "last", True))

    def test_a_program_that_does_not_end_is_killed(self) -> None:
        ran = measured(["sleep", "60"], 0.2)
        self.assertFalse(ran.in_time)
        self.assertLess(ran.wall_s, 5)
        self.assertEqual(ran.status, -9)
