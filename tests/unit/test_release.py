"""Tests of what decides whether a tag can become a release."""

from __future__ import annotations

import unittest
from pathlib import Path

from measure.paths import ROOT
from measure.release import ready
from measure.release.build import Failed
from measure.release.features import features

MANIFEST = """
[workspace.package]
version = "1.2.3"
[workspace.dependencies]
trainmon-base = { version = "1.2.3", path = "crates/base" }
serde = "1"
"""
LOCK = '[[package]]\nname = "trainmon-base"\nversion = "1.2.3"\n'
CHANGELOG = """# Changelog

## [1.2.3] - 2026-03-01

Faster.

### Added

- A page.

## [1.2.2] - 2026-02-01

Slower.
"""


class Ready(unittest.TestCase):
    def test_a_tag_must_fit_every_version(self) -> None:
        self.assertEqual(ready.check_version("v1.2.3", MANIFEST, LOCK), "1.2.3")
        for tag, manifest, lock, says in [
            ("v1.2.4", MANIFEST, LOCK, "tag v1.2.3"),
            ("1.2.3", MANIFEST, LOCK, "tag v1.2.3"),
            ("v1.2.3", MANIFEST.replace('{ version = "1.2.3"', '{ version = "1.2.2"'), LOCK, "trainmon-base 1.2.2"),
            ("v1.2.3", MANIFEST, LOCK.replace("1.2.3", "1.2.2"), "cargo check"),
            ("v1.2.3", MANIFEST, LOCK.replace("trainmon-base", "other"), "cargo check"),
        ]:
            with self.assertRaisesRegex(Failed, says):
                ready.check_version(tag, manifest, lock)

    def test_the_notes_are_the_part_of_one_version(self) -> None:
        self.assertEqual(ready.notes("1.2.3", CHANGELOG), "Faster.\n\n### Added\n\n- A page.\n")
        self.assertEqual(ready.notes("1.2.2", CHANGELOG), "Slower.\n")
        for version, changelog, says in [
            ("1.2.4", CHANGELOG, "no heading"),
            ("1.2.3", CHANGELOG.replace("2026-03-01", "Unreleased"), "date"),
            ("1.2.2", CHANGELOG.replace("Slower.", ""), "says nothing"),
        ]:
            with self.assertRaisesRegex(Failed, says):
                ready.notes(version, changelog)

    def test_this_tree_fits_its_own_version(self) -> None:
        manifest, lock = (Path(ROOT, name).read_text(encoding="utf-8") for name in ("Cargo.toml", "Cargo.lock"))
        version = manifest.split('version = "', 1)[1].split('"', 1)[0]
        self.assertEqual(ready.check_version(f"v{version}", manifest, lock), version)
        self.assertEqual(features(), ["serve", "mcp", "fleet", "import", "trace"])


if __name__ == "__main__":
    unittest.main()
