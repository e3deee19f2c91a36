"""Tests of how dev.py finds its commands."""

from __future__ import annotations

import contextlib
import importlib
import io
import unittest

import dev


class Commands(unittest.TestCase):
    def called(self, *words: str) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            return dev.main(list(words)), said.getvalue()

    def test_every_command_is_told_and_can_be_called(self) -> None:
        told = self.called("--help")[1]
        for name, module in dev.COMMANDS.items():
            self.assertIn(f"dev.py {name} ", told)
            self.assertTrue(callable(importlib.import_module(module).main), name)

    def test_another_word_is_bad_usage(self) -> None:
        self.assertEqual(self.called("nonsense"), (2, f"dev.py: no command 'nonsense'; there are {', '.join(dev.COMMANDS)}\n"))
        self.assertEqual(self.called()[0], 2)
