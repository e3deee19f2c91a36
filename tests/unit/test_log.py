"""The lines of docs/log.md that read a log in pandas, polars and DuckDB: each column gets the type that the page says, even where it has
no value at all.
"""

from __future__ import annotations

import importlib.util
import os
import re
import unittest
from pathlib import Path
from typing import Any

from measure.paths import ROOT
from unit.support import InFolder

PAGE = Path(ROOT, "docs/log.md").read_text(encoding="utf-8")
#: A value of each type, as trainmon writes it.
VALUES = {"time": "2026-02-03T04:05:06.789+01:00", "text": "data-loader", "number": "7.50"}


def columns() -> dict[str, str]:
    """The columns of a log with one GPU, each with its type."""
    rows = re.findall(r"^\| `(\w+)` \| (time|text|number) \|", PAGE, re.MULTILINE)
    return {name.replace("gpuN_", "gpu0_"): kind for name, kind in rows}


def code(language: str, part: str) -> str:
    """The example in this language that has this in it."""
    [found] = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if part in text]
    return str(found)


#: Packages that are not needed elsewhere.
HAS = {package: importlib.util.find_spec(package) is not None for package in ("pandas", "polars", "duckdb")}


class Log(InFolder):
    """A log in the folder `run.csv` is read from."""

    def setUp(self) -> None:
        super().setUp()
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        self.types = columns()

    def write(self, empty: set[str], rows: int = 300) -> None:
        """A log in which columns of these types, and columns after the first hundred rows, have no value."""
        fields = [VALUES[kind] if kind == "time" or name in ("phase", "class") or kind not in empty else "" for name, kind in self.types.items()]
        lines = [",".join(self.types), *[",".join(fields)] * rows]
        Path("run.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def check(self, read: Any, words: dict[str, tuple[str, ...]]) -> None:
        """Reads logs with values, with some, and with none."""
        for empty in (set(), {"number"}, {"text"}, {"number", "text"}):
            self.write(empty)
            got = read()
            self.assertEqual(set(got), set(self.types))
            wrong = {name: got[name] for name, kind in self.types.items() if not got[name].startswith(words[kind])}
            self.assertEqual(wrong, {}, f"empty: {empty}")

    def test_the_page_names_every_type(self) -> None:
        kinds = list(self.types.values())
        self.assertEqual((self.types["timestamp"], self.types["gpu0_uuid"], self.types["waits_for"]), ("time", "text", "text"))
        self.assertEqual((kinds.count("time"), kinds.count("text")), (1, 6))
        self.assertGreater(kinds.count("number"), 50)

    @unittest.skipUnless(HAS["pandas"], "pandas is not installed")
    def test_pandas(self) -> None:
        import pandas

        line = code("python", "pandas.read_csv")

        def read() -> dict[str, str]:
            names: dict[str, Any] = {"pandas": pandas}
            exec(line, names)
            return {str(name): str(kind) for name, kind in names["run"].dtypes.items()}

        # UUIDs and reasons are missing only where the GPU is lost from the first row on; they are read as numbers, not as words.
        self.types = {name: kind for name, kind in self.types.items() if not name.endswith(("_uuid", "_throttle"))}
        self.check(read, {"time": ("datetime64",), "text": ("str", "object"), "number": ("float64", "int64")})

    @unittest.skipUnless(HAS["polars"], "polars is not installed")
    def test_polars(self) -> None:
        line = code("python", "polars.read_csv")

        def read() -> dict[str, str]:
            names: dict[str, Any] = {}
            exec(line, names)
            return {name: str(kind) for name, kind in names["run"].schema.items()}

        self.check(read, {"time": ("Datetime",), "text": ("String",), "number": ("Float64", "Int64")})

    @unittest.skipUnless(HAS["duckdb"], "duckdb is not installed")
    def test_duckdb(self) -> None:
        import duckdb

        line = code("sql", "run.csv")

        def read() -> dict[str, str]:
            run = duckdb.sql(line)
            return dict(zip(run.columns, map(str, run.types)))

        self.check(read, {"time": ("TIMESTAMP",), "text": ("VARCHAR",), "number": ("DOUBLE",)})


if __name__ == "__main__":
    unittest.main()
