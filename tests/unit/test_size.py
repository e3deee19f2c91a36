"""Tests of what `measure size` counts, on a small tree that is made up."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

from measure import size
from measure.paths import ROOT

TREE = {
    # Three code lines; what is in the module `checks` is none.
    "src/lib.rs": '''//! The head.
mod rates;
mod diagnosis;
#[cfg(test)]
mod checks;

/* A comment /* in a comment */
   mod not_there; */
const SHARE: f64 = 0.5; // no engine: its constants are not counted
''',
    "src/checks.rs": "mod more;\nconst A: f64 = 1.0;\n",
    "src/checks/more.rs": "const B: f64 = 1.0;\n",
    # Ten.
    "src/rates/mod.rs": r'''
const LEAST: f64 = 0.05;
pub(super) const SPAN: (f64, f64) = (0.3, 1.5);
/// const IN_A_COMMENT: f64 = 1.0;
const MOST: usize = 64;
const NAMES: [&str; 2] = ["const IN_A_STRING: f64 = 1.0;", r#"a " quote"#];
const LANES: [f64; 2] = [250e6, 500e6];
fn quote<'a>(of: &'a str) -> bool { of.starts_with('"') || of.ends_with('\'') }
fn body() {
    // nothing

    let text = "a
        string";
    #[cfg(test)]
    let noted = { 1 };
}

#[cfg(test)]
#[path = "rates_tests.rs"]
mod tests;

#[cfg(test)]
use std::{fs, io};
''',
    "src/rates/rates_tests.rs": "const OF_TESTS: f64 = 2.0;\n",
    # Eight.
    "src/diagnosis/mod.rs": '''
thresholds! {
    /// What it is.
    LOST = 0.10, "share", "because THAT = 3 { no brace }";
    BELOW = -3.0, "points", "why";
}
struct Kept {
    shown: f64,
    #[cfg(test)]
    counted: u32,
}
const SURE: Sureness = Sureness { least: 0.5, most: 0.9 };

#[cfg(test)]
mod tests {
    thresholds! { OF_TESTS = 1.0, "share", "none"; }
    #[test]
    fn one() {}
}
''',
}


def written(folder: str) -> None:
    for name, text in TREE.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")


class Sizes(unittest.TestCase):
    def test_what_counts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            written(folder)
            measured = size.measure(folder)
        named = {(constant.kind, constant.name): constant.numbers for constant in measured.constants}
        self.assertEqual(named, {
            (size.TABLED, "LOST"): 1, (size.TABLED, "BELOW"): 1, (size.OTHER, "LEAST"): 1, (size.OTHER, "SPAN"): 2,
            (size.INTEGER, "MOST"): 1,
        })  # fmt: skip
        self.assertEqual(measured.counted, 5)
        self.assertEqual((measured.lines, measured.files), (3 + 10 + 8, 3))

    def test_literals_and_comments_are_crossed_out(self) -> None:
        source = 'a("// no comment", b\'"\', r##"x"# y"##) /* b /* c */ d */ e // f\n\'g: loop {}\n'
        bare = size.bare(source)
        self.assertEqual((len(bare), bare.count("\n")), (len(source), 2))
        for gone in ("comment", "y", "d", "f"):
            self.assertNotIn(f" {gone}", bare)
        for stays in ("a(", " e ", "'g: loop {}"):
            self.assertIn(stays, bare)

    def called(self, *arguments: str) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return size.main(list(arguments)), said.getvalue()

    def test_limits(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            written(folder)
            limits = ("--root", folder, "--most-lines", "21", "--most-tabled", "2")
            self.assertEqual(self.called(*limits, "--most-constants", "5")[0], 0)
            status, said = self.called(*limits, "--most-constants", "4", "--names")
            self.assertEqual(status, 1)
            self.assertIn("5 numeric constants are more than 4", said)
            self.assertRegex(said, r"other +src/rates/mod\.rs +SPAN \(2\)")
            self.assertEqual(self.called("--root", os.path.join(folder, "src"))[0], 1)

    def test_this_tree(self) -> None:
        measured = size.measure(ROOT)
        self.assertGreater(measured.lines, 20_000)
        self.assertGreater(measured.numbers(size.TABLED), 20)
        files = {constant.file for constant in measured.constants}
        self.assertFalse([file for file in files if file.endswith("tests.rs")])
