"""Tests of how `python measure` finds its commands."""

from __future__ import annotations

import contextlib
import importlib
import io
import unittest

from measure import __main__ as measure


class Commands(unittest.TestCase):
    def called(self, *words: str) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            return measure.main(list(words)), said.getvalue()

    def test_every_command_is_told_and_can_be_called(self) -> None:
        told = self.called("--help")[1]
        for name, module in measure.COMMANDS.items():
            self.assertIn(f"python measure {name} ", told)
            self.assertTrue(callable(importlib.import_module(module).main), name)

    def test_another_word_is_bad_usage(self) -> None:
        self.assertEqual(self.called("nonsense"), (2, f"measure: no command 'nonsense'; there are {', '.join(measure.COMMANDS)}\n"))
        self.assertEqual(self.called()[0], 2)
