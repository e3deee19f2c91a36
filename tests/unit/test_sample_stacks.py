"""Tests of the script that takes stacks with the reader of Python 3.15, with a made-up reader in place of that."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "crates/sources/assets/sample_stacks.py"
#: A module with what the script uses of `_remote_debugging`.
READER = """
import collections, sys, types
Frame = collections.namedtuple("Frame", "filename location funcname opcode")
Thread = collections.namedtuple("Thread", "thread_id status frame_info")
Interpreter = collections.namedtuple("Interpreter", "interpreter_id threads")
class RemoteUnwinder:
    def __init__(self, pid, *, all_threads, gc, cache_frames):
        if cache_frames:
            raise ValueError("the cache writes into the memory of the process")
        if pid == 4:
            raise TypeError("an unexpected keyword")
        if pid == 1:
            raise PermissionError(1, "Operation not permitted")
        self.calls, self.pid = 0, pid
    def get_stack_trace(self):
        self.calls += 1
        if self.pid == 2 or self.calls % 3 == 0:
            raise RuntimeError("changed while it was read")
        if self.pid == 3 and self.calls > 1:
            raise ProcessLookupError(3, "No such process")
        deep = [Frame("/srv/a;b.py", (7, 7, 0, 9), "odd\\nname", None), Frame("~", None, "<native>", None)]
        return [Interpreter(0, [Thread(50, 0, deep), Thread(51, 0, [])])]
module = types.ModuleType("_remote_debugging")
module.RemoteUnwinder = RemoteUnwinder
sys.modules["_remote_debugging"] = module
"""


class SampleStacks(unittest.TestCase):
    def sampled(self, pid: int, reader: str = READER) -> tuple[str, str]:
        """What the script writes, and what it says."""
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "stacks")
            arguments = ["-I", "-S", "-B", "-c", reader + SCRIPT.read_text(), str(pid), "1", "30", str(output)]
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode == 0, output.exists(), done.stderr)
            return output.read_text() if output.exists() else "", done.stderr

    def test_stacks_are_counted_outermost_first(self) -> None:
        written, said = self.sampled(50)
        self.assertEqual(said, "")
        rows = [line.rsplit(" ", 1) for line in written.splitlines()]
        self.assertEqual([stack for stack, _ in rows], ["thread (50);<native> (~:0);odd name (/srv/a;b.py:7)", "thread (51)"])
        # A third of the looks fails.
        self.assertTrue(all(10 <= int(samples) <= 20 for _, samples in rows), rows)

    def test_a_process_that_ends_leaves_what_was_seen(self) -> None:
        self.assertEqual(self.sampled(3)[0].count(" 1\n"), 2)

    def test_why_there_is_nothing_is_said(self) -> None:
        changed = (4, "no known reader of stacks: TypeError: an unexpected keyword")
        for pid, says in ((1, "PermissionError: [Errno 1] Operation not permitted"), (2, "RuntimeError: changed while"), changed):
            written, said = self.sampled(pid)
            self.assertEqual(written, "")
            self.assertTrue(said.startswith(says), said)
        self.assertTrue(self.sampled(50, "import sys\nsys.modules['_remote_debugging'] = None\n")[1].startswith("no reader of stacks"))


if __name__ == "__main__":
    unittest.main()
