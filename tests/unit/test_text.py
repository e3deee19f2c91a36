"""Tests of numbers, and of how tables and foreign text are printed."""

from __future__ import annotations

import unittest

from measure import numbers, text


class Text(unittest.TestCase):
    def test_percentiles_are_values_that_were_measured(self) -> None:
        for values, share, found in (
            ([3.0, 1.0, 2.0], 0.5, 2.0),
            ([float(n) for n in range(1, 51)], 0.95, 48.0),
            ([float(n) for n in range(1, 11)], 0.9, 9.0),
            ([7.0], 0.95, 7.0),
            ([1.0, 2.0, None], 0.0, 1.0),
            ([], 0.5, None),
        ):
            self.assertEqual(numbers.percentile(values, share), found)

    def test_foreign_text_is_printed_without_its_controls(self) -> None:
        self.assertEqual(text.printable("a\x1b[2J\u009bb\n"), "a [2J b ")
        self.assertEqual(text.printable("a\x1bb", "?"), "a?b")

    def test_cells_keep_their_table_whole(self) -> None:
        self.assertEqual(text.markdown(("a", "b"), [(1, "x | y\nz")]), ["| a | b |", "| --- | --- |", "| 1 | x \\| y z |"])
