"""That `measure golden` writes what a program makes, and sees each difference."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from measure import golden

#: A program that lists one command, writes the file after `-o`, and otherwise prints its arguments.
PROGRAM = """#!/bin/sh
if [ "$*" = help ]; then
    printf 'Commands:\\n  look  Look\\n        further\\n\\nArguments:\\n'
elif [ "$3" = -o ] && [ "$4" != - ]; then
    echo "%s" > "$4"
else
    echo "$@"; echo note >&2; exit 3
fi
"""


class Golden(unittest.TestCase):
    def test_two_programs_that_differ_in_one_kind_of_file(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for program in ("old", "new"):
                path = folder / program
                path.write_text(PROGRAM.replace("%s", program), encoding="utf-8")
                path.chmod(0o755)
            written = io.StringIO()
            with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
                first = golden.main([str(folder / "a"), "--trainmon", str(folder / "old")])
                same = golden.main([str(folder / "b"), "--trainmon", str(folder / "old"), "--against", str(folder / "a")])
                changed = golden.main([str(folder / "c"), "--trainmon", str(folder / "new"), "--against", str(folder / "a")])
            self.assertEqual((first, same, changed), (0, 0, 1))
            page = "profile-small-kernels.html"
            self.assertIn(f"differs: {page}\n", written.getvalue())
            self.assertNotIn("differs: profile-small-kernels.md", written.getvalue())
            self.assertEqual((folder / "c" / page).read_text(encoding="utf-8"), "new\n")
            help_text = (folder / "c/help-look.txt").read_text(encoding="utf-8")
            self.assertEqual(help_text, "look --help\n\n--- standard error, exit status 3\nnote\n")

    def test_a_file_that_only_one_of_them_made_differs(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            old, new = Path(name, "old"), Path(name, "new")
            for path in (old, new):
                path.mkdir()
                (path / "same").write_bytes(b"1")
            (new / "more").write_bytes(b"")
            self.assertEqual(golden.differing(old, new), ["more"])


if __name__ == "__main__":
    unittest.main()
