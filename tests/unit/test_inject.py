"""Tests of the script that `trainmon profile --inject` has a job run, under this Python: the script needs nothing of 3.14."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, ClassVar

from measure.inject_driver import InjectJob, Waiting, wait_until
from measure.paths import TRAINMON
from unit.support import InFolder


def account(waiting: Waiting) -> dict[str, Any]:
    """The account that trainmon gives of the trace."""
    ran = subprocess.run([TRAINMON, "diagnose", str(waiting.folder / "trace.json"), "--json"], capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout)["profile"])


def waits(steps: list[tuple[float, float, float]]) -> float:
    """The share of the time that waits for data."""
    return sum(got - begin for begin, got, _end in steps) / (steps[-1][2] - steps[0][0])


def two_at_a_time(check: Callable[[Any], None], values: Iterable[Any]) -> None:
    """Checks each value with a job of its own."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(check, values))


@unittest.skipUnless(find_spec("torch") and os.path.exists(TRAINMON), "needs torch and the release build")
class Script(InFolder):
    #: Jobs that tests have left as they were, by their options: starting one takes longer than most tests.
    idle: ClassVar[dict[tuple[str, ...], InjectJob]] = {}

    @classmethod
    def tearDownClass(cls) -> None:
        for job in cls.idle.values():
            job.end()

    def job(self, *options: str) -> InjectJob:
        """A job that has begun to train. It goes on to the next test if `clean` finds that this one has left nothing in it."""
        job = self.idle.pop(options, None) or InjectJob(*options)
        self.addCleanup(self.leave, job)
        job.go_on()
        job.train()
        return job

    def leave(self, job: InjectJob) -> None:
        if job not in self.idle.values():
            job.end()

    def waiting(self, job: InjectJob, **parameters: Any) -> Waiting:
        waiting = Waiting(tempfile.mkdtemp(dir=self.folder), job, **parameters)
        self.addCleanup(waiting.gone)
        return waiting

    def profiled(self, job: InjectJob, **parameters: Any) -> Waiting:
        """Has the job run the script, and waits until nothing of it runs any more."""
        waiting = self.waiting(job, **parameters)
        job.ask(f"run {waiting.script}")
        waiting.ends_as("written")
        wait_until(lambda: not job.has_thread())
        return waiting

    def clean(self, job: InjectJob, before: dict[str, Any]) -> None:
        """Nothing is left in the job, and it has said nothing."""
        wait_until(lambda: not job.has_thread())
        self.assertEqual(job.ask("state"), before)
        self.assertEqual(job.said(), "")
        job.pause()
        self.idle[job.options] = job

    def test_a_window_is_as_the_job_logs_it_and_leaves_nothing(self) -> None:
        job = self.job()
        before = job.ask("state")
        begin = time.monotonic()
        waiting = self.profiled(job, seconds=2.0)
        profile, steps = account(waiting), job.steps_between(begin, begin + 2.0)
        self.assertLessEqual(abs(profile["steps"] - len(steps)), 4, (profile["steps"], len(steps)))
        self.assertAlmostEqual(profile["loop"]["input_wait"], waits(steps), delta=0.05)
        self.assertEqual((profile["with_shapes"], profile["with_stack"]), (True, False))
        self.clean(job, before)
        self.assertEqual(waiting.left(), ["lock", "status", "trace.json"])

    def test_steps_are_exactly_those_asked_for(self) -> None:
        job = self.job()
        before = job.ask("state")
        profile = account(self.profiled(job, steps=7, seconds=30.0))
        self.assertEqual((profile["steps"], profile["steps_by"]), (7, "profiler-step"))
        self.clean(job, before)

    def test_with_functions_nothing_is_left_either(self) -> None:
        job = self.job()
        before = job.ask("state")
        profile = account(self.profiled(job, stacks=1))
        self.assertTrue(profile["with_stack"])
        self.clean(job, before)

    def test_a_loop_in_another_thread_is_recorded(self) -> None:
        job = self.job("--thread")
        before = job.ask("state")
        begin = time.monotonic()
        profile, steps = account(self.profiled(job)), job.steps_between(begin, begin + 1.0)
        self.assertLessEqual(abs(profile["steps"] - len(steps)), 4, (profile["steps"], len(steps)))
        self.clean(job, before)

    def test_a_main_thread_in_a_long_call_is_not_waited_for(self) -> None:
        job = self.job("--thread")
        before = job.ask("state")
        waiting = self.waiting(job, late=0.5)
        job.ask(f"run {waiting.script}")
        began = time.monotonic()
        job.tell("hold 6")
        waiting.ends_as("written")
        self.assertLess(time.monotonic() - began, 5.0)
        self.assertGreater(account(waiting)["steps"], 10)
        job.answer()
        self.clean(job, before)

    def test_a_job_that_is_profiled_is_left_alone(self) -> None:
        with InjectJob() as job:
            job.train()
            waiting = self.waiting(job)
            self.assertEqual(job.ask(f"profile {waiting.script}"), 5)
            waiting.ends_as("profiled")
            self.assertFalse(job.has_thread())

    def test_the_jobs_own_profiler_goes_first(self) -> None:
        with InjectJob() as job:
            job.train()
            waiting = self.waiting(job, seconds=20.0)
            job.ask(f"run {waiting.script}")
            job.train(5)
            before = time.monotonic()
            self.assertEqual(job.ask("profile"), 5)
            waiting.ends_as("written")
            self.assertLess(time.monotonic() - before, 10.0)
            self.assertEqual(job.ask("profile"), 5)

    def test_a_job_without_torch(self) -> None:
        with InjectJob("--no-torch") as job:
            before = job.ask("state")
            waiting = self.waiting(job)
            job.ask(f"run {waiting.script}")
            waiting.ends_as("no-torch")
            self.clean(job, before)

    def test_workers_that_are_forked_meanwhile_record_nothing(self) -> None:
        for stacks in (0, 1):
            job = self.job("--epoch", "40")
            before = job.ask("state")
            waiting = self.waiting(job, seconds=4.0, stacks=stacks)
            job.ask(f"run {waiting.script}")
            waiting.ends_as("written")
            job.train(100)
            # 12 MiB, and 56 where the operators of a worker are recorded.
            self.assertLess(job.ask("growth"), 30.0)
            self.clean(job, before)

    def test_a_trace_that_cannot_be_written_is_told(self) -> None:
        job = self.job()
        before = job.ask("state")
        waiting = self.waiting(job)
        (waiting.folder / "part").mkdir()
        job.ask(f"run {waiting.script}")
        self.assertIn("File exists", waiting.ends_as("failed")["why"])
        self.clean(job, before)

    def test_a_full_disk_is_told(self) -> None:
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "none", self.folder]).returncode:
            self.skipTest("only root may mount a small disk")
        self.addCleanup(subprocess.run, ["umount", self.folder], check=True)
        job = self.job()
        before = job.ask("state")
        waiting = self.waiting(job)
        job.ask(f"run {waiting.script}")
        self.assertIn("free", waiting.ends_as("failed")["why"])
        self.clean(job, before)
        waiting.gone()

    def test_without_trainmon_the_profiler_ends_and_the_files_go(self) -> None:
        job = self.job()
        before = job.ask("state")
        waiting = self.waiting(job, seconds=60.0)
        job.ask(f"run {waiting.script}")
        job.train(5)
        waiting.gone()
        wait_until(lambda: not waiting.folder.exists(), 10.0)
        self.clean(job, before)

    def test_a_script_that_comes_late_does_nothing_but_remove_itself(self) -> None:
        job = self.job()
        before = job.ask("state")
        waiting = self.waiting(job)
        waiting.gone()
        job.ask(f"run {waiting.script}")
        self.assertFalse(waiting.folder.exists())
        self.clean(job, before)

    def test_a_fork_of_the_job_does_nothing(self) -> None:
        job = self.job()
        waiting = self.waiting(job, pid=job.pid + 1)
        job.ask(f"run {waiting.script}")
        self.assertEqual(waiting.left(), ["lock", "script.py", "status"])
        self.assertFalse(job.has_thread())

    def end_meanwhile(self, awaited: bool) -> None:
        with InjectJob() as job:
            job.train()
            waiting = self.waiting(job, seconds=60.0)
            job.ask(f"run {waiting.script}")
            if not awaited:
                waiting.gone()
            job.tell("end")
            self.assertEqual((job.process.wait(30), job.said()), (0, ""))
            self.assertEqual("trace.json" in waiting.left(), awaited)

    def test_a_job_that_ends_meanwhile_ends_as_ever(self) -> None:
        two_at_a_time(self.end_meanwhile, (True, False))

    def interrupt(self, at: float) -> None:
        with InjectJob() as job:
            job.train()
            waiting = self.waiting(job)
            job.tell(f"run {waiting.script}")
            time.sleep(at)
            job.process.send_signal(signal.SIGINT)
            job.process.wait(30)
            self.assertIn("KeyboardInterrupt", job.said(), at)

    def test_an_interrupt_reaches_the_job(self) -> None:
        two_at_a_time(self.interrupt, (0.0, 0.3, 0.99, 1.0, 1.01))


if __name__ == "__main__":
    unittest.main()
