<<<<<<< ours
"""Counts code lines and numeric constants. The count is a Rust program, which reads the source as the tests of its structure do:
see tests/support/size.rs, and its `--help`.
=======
"""The size of the program: code lines of each crate, and the numbers that tune rates, waits and diagnosis.

    python tests/dev.py size                  this tree
    python tests/dev.py size --root DIR       another tree
    python tests/dev.py size --names          also lists each constant and its file
    python tests/dev.py size --most-lines 37600 --most-constants 200 --most-tabled 120

The last form exits with 1 if there are more, and says of which.

A code line is a line of a Rust file in src or crates/*/src that is neither blank nor only a comment. Tests do not count: neither an item behind
`#[cfg(test)]` or `#[test]`, nor a file that is a module behind one.

Constants count in the crates rates, waits and diagnosis, outside tests. Each row of a `thresholds!` table counts as one, and so does each
other `const` of type `f64` or `f32`. A constant of a tuple type, such as `(f64, f64)`, counts once for each number in it.
Constants of integer types are shown separately and are not in the sum, because they are mostly sizes, limits and clock units.
Arrays and structs do not count: they list facts, or refer to numbers that have their own row.
>>>>>>> theirs
"""

from __future__ import annotations

<<<<<<< ours
import subprocess

from measure.paths import ROOT
=======
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness import options
from harness.paths import ROOT

NAME = "dev.py size"
#: Where constants are counted, below the `src` of any crate.
ENGINE = ("rates", "waits", "diagnosis")

#: Text that is not code: comments and the insides of literals. A lifetime is not a character literal.
_BORING = re.compile(
    r"""
    (?P<comment> //[^\n]* )
  | (?P<block> /\* )
  | (?P<raw> \b(?:br|cr|r)(?P<hashes>\#*)" )
  | (?P<string> "(?:[^"\\]|\\.)*" )
  | (?P<char> '(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))' )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_MARK, _BRACKET, _MARK = re.compile(r"/\*|\*/"), re.compile(r"[][(){}]"), re.compile(r"[][(){};,]")
_TEST = re.compile(r"#\[(?:cfg\((?:all\()?test\b[^\]]*|test|tokio::test[^\]]*)\]")
_ATTRIBUTE = re.compile(r"\s*#\[")
_MODULE = re.compile(r"\bmod\s+(?:r#)?(\w+)\s*;")
_PATH = re.compile(r'#\[path\s*=\s*"([^"]*)"\]')
_TABLE = re.compile(r"\bthresholds!\s*\{")
_ROW = re.compile(r"\b([A-Z][A-Z0-9_]*)\s*=\s*[-\d]")
_NUMBER = r"(?:f32|f64|[iu](?:8|16|32|64|128|size))"
_CONSTANT = re.compile(rf"\b(?:const|static)\s+(?:r#)?([A-Z_][A-Z0-9_]*)\s*:\s*({_NUMBER}|\((?:\s*{_NUMBER}\s*,?)+\))\s*=")
#: Items that end with a semicolon, even if they contain braces.
_STATEMENTS = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?(?:use|const|static|type|let|extern crate)\b(?!\s+(?:fn|unsafe)\b)")
_ITEMS = re.compile(
    r"(?:pub(?:\([^)]*\))?\s+)?"
    r"(?:mod|fn|impl|struct|enum|trait|unsafe|async|const|extern|macro_rules!|union|thread_local!|proptest!)"
)


#: Smaller parts of src are not listed.
LEAST_PART = 500

TABLED, OTHER, INTEGER = "tabled", "other", "integer"


@dataclass(frozen=True)
class Constant:
    """One `const`, or one row of a table."""

    kind: str
    name: str
    #: More than one for a tuple.
    numbers: int = 1
    file: str = ""


@dataclass
class Size:
    """What a tree holds."""

    lines: int = 0
    files: int = 0
    constants: list[Constant] = field(default_factory=list)
    #: Code lines by folder or file directly in src.
    parts: dict[str, int] = field(default_factory=dict)

    def numbers(self, kind: str) -> int:
        """How many numbers the constants of one kind hold."""
        return sum(constant.numbers for constant in self.constants if constant.kind == kind)

    @property
    def counted(self) -> int:
        """The numbers that the engine is tuned with."""
        return self.numbers(TABLED) + self.numbers(OTHER)


def bare(source: str) -> str:
    """The source without its comments, and with every literal's inside crossed out; as long as it was, line by line."""
    parts: list[str] = []
    at = 0
    while found := _BORING.search(source, at):
        begin, end = found.span()
        if found["block"]:
            end = _end_of_block_comment(source, end)
        elif found["raw"]:
            close = source.find('"' + found["hashes"], end)
            end = len(source) if close < 0 else close + 1 + len(found["hashes"])
        is_comment = found["comment"] is not None or found["block"] is not None
        crossed = source[begin:end]
        parts += [source[at:begin], re.sub(r"\S", " " if is_comment else "x", crossed)]
        at = end
    return "".join(parts) + source[at:]


def _end_of_block_comment(source: str, at: int) -> int:
    """Block comments nest in Rust."""
    depth = 1
    while depth:
        found = _BLOCK_MARK.search(source, at)
        if found is None:
            return len(source)
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at


def _closing(code: str, at: int) -> int:
    """The position after the bracket that closes the one at `at`."""
    depth = 0
    for found in _BRACKET.finditer(code, at):
        depth += 1 if found[0] in "[({" else -1
        if depth == 0:
            return found.end()
    return len(code)


def end_of_item(code: str, at: int) -> int:
    """Where the item ends that begins at `at`, its attributes first: at its semicolon, its closing brace, or for a
    field, a variant or an arm, its comma."""
    while found := _ATTRIBUTE.match(code, at):
        at = _closing(code, found.end() - 1)
    at += len(code[at:]) - len(code[at:].lstrip())
    to_semicolon = _STATEMENTS.match(code, at) is not None
    to_comma = not to_semicolon and _ITEMS.match(code, at) is None
    while found := _MARK.search(code, at):
        if found[0] == ";" or (found[0] == "," and to_comma):
            return found.end()
        if found[0] in "])}":
            return found.start()
        at = found.end()
        if found[0] in "[({":
            at = _closing(code, found.start())
            if found[0] == "{" and not to_semicolon:
                return at
    return len(code)


def without_tests(source: str) -> tuple[str, list[tuple[str, str | None]]]:
    """Code without comments and tests, and the modules in files of their own that are tests: (name, path if given)."""
    code = bare(source)
    modules: list[tuple[str, str | None]] = []
    at = 0
    while found := _TEST.search(code, at):
        end = end_of_item(code, found.start())
        item = code[found.start() : end]
        module = _MODULE.search(item)
        if module is not None:
            modules.append((module[1], _path_of(source, found.start(), end)))
        code = code[: found.start()] + re.sub(r"\S", " ", item) + code[end:]
        at = found.start() + 1
    return code, modules


def _path_of(source: str, begin: int, end: int) -> str | None:
    """What `#[path]` says of the module between; it may stand on the line before its first attribute, too."""
    before = source[:begin].rstrip().rsplit("\n", 1)[-1]
    found = _PATH.search(source, begin, end) or _PATH.search(before)
    return found[1] if found else None


def _file_of(inside: str, name: str, path: str | None) -> str | None:
    """The file of a module that the file `inside` names."""
    folder, base = os.path.split(inside)
    if path is not None:
        candidates = [os.path.join(folder, path)]
    else:
        own = folder if base in ("mod.rs", "lib.rs", "main.rs") else os.path.join(folder, base[: -len(".rs")])
        candidates = [os.path.join(own, f"{name}.rs"), os.path.join(own, name, "mod.rs")]
    return next((os.path.normpath(one) for one in candidates if os.path.exists(one)), None)


def _modules(path: str, source: str) -> Iterator[str]:
    """The files of all modules that a file names."""
    for found in _MODULE.finditer(bare(source)):
        file = _file_of(path, found[1], _path_of(source, found.start(), found.end()))
        if file is not None:
            yield file


def measure(root: str) -> Size:
    """The size of the tree at `root`; raises OSError where it has no src."""
    sources: dict[str, str] = {}
    if not os.path.isdir(os.path.join(root, "src")):
        raise FileNotFoundError(f"{root} has no folder src")
    for source in (os.path.join(root, "src"), *glob.glob(os.path.join(root, "crates/*/src"))):
        for folder, _folders, files in os.walk(source):
            for name in files:
                if name.endswith(".rs"):
                    path = os.path.normpath(os.path.join(folder, name))
                    with open(path, encoding="utf-8") as file:
                        sources[path] = file.read()
    code: dict[str, str] = {}
    tests: list[str] = []
    for path, source in sources.items():
        code[path], modules = without_tests(source)
        tests += filter(None, (_file_of(path, name, given) for name, given in modules))
        if re.match(r"(?:\s*#!\[[^\]]*\])*?\s*#!\[cfg\(test\)\]", bare(source)):
            tests.append(path)
    while tests:
        path = tests.pop()
        if code.pop(path, None) is not None:
            tests += _modules(path, sources[path])
    size = Size(files=len(code))
    for path, text in sorted(code.items()):
        lines = sum(1 for line in text.split("\n") if line.strip())
        size.lines += lines
        inside = os.path.relpath(path, root)
        where, below = inside.replace(os.sep, "/").split("src/", 1)
        part = os.path.basename(where.rstrip("/")) or "the program"
        size.parts[part] = size.parts.get(part, 0) + lines
        # A crate of one room has it in no folder of its own.
        has_rooms = os.path.isdir(os.path.join(root, where, "src", part)) or not where
        room = below if has_rooms else f"{part}/{below}"
        if room.startswith(tuple(f"{folder}{end}" for folder in ENGINE for end in ("/", ".rs"))):
            size.constants += [replace(constant, file=inside) for constant in constants(text)]
    return size


def constants(code: str) -> list[Constant]:
    """The constants in code without comments and tests."""
    found: list[Constant] = []
    for table in _TABLE.finditer(code):
        found += [Constant(TABLED, name) for name in _ROW.findall(code[table.end() : _closing(code, table.end() - 1)])]
    for name, kind in _CONSTANT.findall(code):
        numbers = re.findall(_NUMBER, kind)
        floats = [number for number in numbers if number.startswith("f")]
        found.append(Constant(OTHER if floats else INTEGER, name, len(floats or numbers)))
    return found


def report(size: Size) -> str:
    parts = sorted(size.parts.items(), key=lambda part: -part[1])
    rows = (
        ("code lines", size.lines, f"in {size.files} files"),
        *((f"  {part}", lines, "") for part, lines in parts if lines >= LEAST_PART),
        ("numeric constants in rates, waits and diagnosis", size.counted, ""),
        ("  in `thresholds!` tables", size.numbers(TABLED), ""),
        ("  others, floating point", size.numbers(OTHER), ""),
        ("integers beside them, not in the sum", size.numbers(INTEGER), ""),
    )
    return "\n".join(f"{what:42}{count:>7}   {more}".rstrip() for what, count, more in rows)
>>>>>>> theirs


def main(words: list[str]) -> int:
    return subprocess.run(["cargo", "run", "--quiet", "--example", "size", "--", *words], cwd=ROOT, check=False).returncode
