"""Tests of how `measure measured` finds and replaces the tables of docs/measured.md."""

from __future__ import annotations

import contextlib
import io
import unittest

from measure import measured

DOCUMENT = """# Measured

<!-- cost: python measure evaluate --cost -->

| old | 1 |

<!-- end -->

Words between the tables.

<!-- class: python measure evaluate --again DIR -->
<!-- end -->
"""


class Tables(unittest.TestCase):
    def test_names_and_commands(self) -> None:
        commands = {"cost": "python measure evaluate --cost", "class": "python measure evaluate --again DIR"}
        self.assertEqual(measured.tables(DOCUMENT), commands)

    def test_only_the_named_table_changes(self) -> None:
        text = measured.replaced(DOCUMENT, "cost", "row 1 of 2\n\n| a | b |\n| - | - |\n\n| c |\ndone\n")
        self.assertEqual(text, DOCUMENT.replace("| old | 1 |", "| a | b |\n| - | - |\n\n| c |"))
        both = measured.replaced(text, "class", "| new |")
        self.assertIn("DIR -->\n\n| new |\n\n<!-- end -->\n", both)
        self.assertEqual(measured.replaced(both, "class", "| new |"), both)

    def test_no_table_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "no table"):
            measured.replaced(DOCUMENT, "cost", "cost was not measured: no workload\n")

    def test_the_document_has_tables_whose_commands_exist(self) -> None:
        known = measured.tables(measured.DOCUMENT.read_text(encoding="utf-8"))
        self.assertTrue(known)
        for command in known.values():
            self.assertRegex(command, r"^python measure (evaluate --?)?\w")

    def called(self, *arguments: str) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return measured.main(list(arguments)), said.getvalue()

    def test_an_unknown_table_and_missing_runs(self) -> None:
        status, said = self.called("speed")
        self.assertEqual(status, 2)
        self.assertIn("no table 'speed'; there are", said)
        status, said = self.called("class")
        self.assertEqual(status, 2)
        self.assertIn("--runs DIR", said)


if __name__ == "__main__":
    unittest.main()
