"""Tests of what `measure package` is made of, without compiling."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import unittest
import zipfile

from measure.release import build, try_archives, try_wheel, wheel
from unit.support import InFolder

NAME = "trainmon-1.2.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
INFO = "trainmon-1.2.3.dist-info"
#: Some time in 2026, seconds since 1970.
EPOCH = 1790000000


def made(folder: str, epoch: int = EPOCH) -> str:
    """A small wheel, as maturin makes it, built in /home/me/trainmon."""
    path = os.path.join(folder, NAME)
    files = {
        "trainmon-1.2.3.data/scripts/trainmon": b"\x7fELF",
        f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: trainmon\nVersion: 1.2.3\nRequires-Dist: py-spy>=0.4.1\n",
        f"{INFO}/licenses/LICENSE-MIT": b"MIT License",
        f"{INFO}/licenses/LICENSE-APACHE": b"Apache License",
        f"{INFO}/sboms/trainmon.cyclonedx.json": b'{"ref": "path+file:///home/me/trainmon#1", '
        b'"purl": "pkg:cargo/ratatui@1"}',
        f"{INFO}/RECORD": b"",
    }
    wheel.write(path, files, epoch)
    return path


class Wheels(InFolder):
    def test_every_file_is_recorded_and_the_program_may_be_run(self) -> None:
        with zipfile.ZipFile(made(self.folder)) as archive:
            record = archive.read(f"{INFO}/RECORD").decode().splitlines()
            self.assertEqual([line.split(",")[0] for line in record], archive.namelist())
            modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
        self.assertEqual(record[-1], f"{INFO}/RECORD,,")
        self.assertIn("sha256=", record[0])
        self.assertEqual([name for name, mode in modes.items() if mode & 1], ["trainmon-1.2.3.data/scripts/trainmon"])

    def test_the_place_of_the_build_is_taken_out_and_the_bytes_are_the_same(self) -> None:
        contents = []
        for epoch in (EPOCH, EPOCH + 4000):
            path = made(self.folder, epoch)
            with self.assertRaisesRegex(build.Failed, "where it was built"):
                try_wheel.contents(path, "1.2.3", "/home/me")
            wheel.settle(path, "/home/me/trainmon", EPOCH)
            try_wheel.contents(path, "1.2.3", "/home/me")
            with open(path, "rb") as file:
                contents.append(file.read())
        self.assertEqual(contents[0], contents[1])

    def test_what_is_missing_or_of_another_version_is_told(self) -> None:
        path = made(self.folder)
        with self.assertRaisesRegex(build.Failed, "does not have version 1.2.4"):
            try_wheel.contents(path, "1.2.4", "/nowhere")
        files = wheel.read(path)
        files[f"{INFO}/licenses/LICENSE-MIT"] = b""
        wheel.write(path, files, EPOCH)
        with self.assertRaisesRegex(build.Failed, "LICENSE-MIT"):
            try_wheel.contents(path, "1.2.3", "/nowhere")

    def test_another_version_is_one_throughout(self) -> None:
        copy = wheel.with_version(made(self.folder), "0.0.1", self.folder)
        files = wheel.read(copy)
        self.assertTrue(os.path.basename(copy).startswith("trainmon-0.0.1-py3-"))
        self.assertFalse([name for name in files if "1.2.3" in name])
        self.assertIn(b"\nVersion: 0.0.1\n", files["trainmon-0.0.1.dist-info/METADATA"])

    def test_another_platform_is_in_the_name(self) -> None:
        copy = wheel.with_platform(made(self.folder), "manylinux_2_17_aarch64", self.folder)
        self.assertEqual(os.path.basename(copy), "trainmon-1.2.3-py3-none-manylinux_2_17_aarch64.whl")


class Programs(unittest.TestCase):
    def elf(self, *kinds: int) -> str:
        """The beginning of a program with these program headers."""
        headers = b"".join(struct.pack("<IIQQQQQQ", kind, 0, 0, 0, 0, 0, 0, 0) for kind in kinds)
        begin = b"\x7fELF\x02\x01\x01" + bytes(9)
        head = begin + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(kinds), 0, 0, 0)
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(head + headers)
        self.addCleanup(os.unlink, file.name)
        return file.name

    def test_a_program_is_static_where_it_names_no_linker(self) -> None:
        self.assertTrue(try_archives.is_static(self.elf(1, 2)))
        self.assertFalse(try_archives.is_static(self.elf(1, 3, 2)))
        with self.assertRaises(build.Failed):
            try_archives.is_static(__file__)

    def test_a_command_that_fails_says_why(self) -> None:
        with self.assertRaisesRegex(build.Failed, "ended with 3:\nno such thing"):
            build.run(sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)")
