"""Profiles that torch makes here, on the CPU: what takes the time is named. Needs torch and the release build."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure.paths import ROOT, TRAINMON
from measure.profiles.made_here import STEPS, TRUTH

#: Seconds for a program of some steps on a machine that is busy with something else.
SECONDS = 120


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@unittest.skipUnless(find_spec("torch") and os.path.exists(TRAINMON), "needs torch and the release build")
class MadeHere(unittest.TestCase):
    def traces(self, name: str, folder: str) -> list[Path]:
        ranks = 2 if name == "gloo" else 1
        environment = {**os.environ, "MASTER_PORT": free_port()}
        files = [Path(folder, f"{name}-{rank}.json") for rank in range(ranks)]
        commands = [
            [sys.executable, "-m", "measure.profiles.made_here", name, str(file), *([str(rank), str(ranks)] if ranks > 1 else [])]
            for rank, file in enumerate(files)
        ]
        running = [
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for command in commands
        ]
        self.assertEqual([process.wait(SECONDS) for process in running], [0] * ranks)
        return files

    def verdict(self, name: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = self.traces(name, folder)[0]
            ran = subprocess.run([TRAINMON, "diagnose", str(file), "--json"], capture_output=True, text=True, timeout=SECONDS, check=True)
            return dict(json.loads(ran.stdout))

    def test_each_is_named(self) -> None:
        # Each takes a core while it imports torch.
        with ThreadPoolExecutor(2) as pool:
            verdicts = pool.map(self.verdict, TRUTH)
        for (name, (kind, cause, word)), verdict in zip(TRUTH.items(), verdicts):
            with self.subTest(name):
                said = verdict["summary"] + " ".join(culprit["name"] for culprit in verdict["culprits"])
                self.assertEqual((verdict["class"], verdict["cause"]), (kind, cause), said)
                self.assertIn(word, said)
                self.assertEqual(verdict["profile"]["steps"], STEPS)
