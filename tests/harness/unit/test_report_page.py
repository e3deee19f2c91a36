"""The HTML of `trainmon report` in a real browser: it works without a network and without scripts, at the width of a telephone, by
keyboard, and passes axe, the checker of accessibility. Needs the release build, and Debian's chromium.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from harness.paths import ROOT, TRAINMON

RECORDING = os.path.join(ROOT, "tests/recordings/segmentation.tmz")
WIDTHS = {"telephone": 400, "desktop": 1280}
SCHEMES = {"light": "1", "dark": "0"}
#: The browser's clock runs ahead by this, so that nothing is waited for.
BUDGET_MS = 8000

#: Puts what `look` answers, or the error that stopped it, into the document, which `--dump-dom` prints.
LOOK = """
<script>
const errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
</script>
<script>%(library)s</script>
<script>
addEventListener("load", async () => {
  const tell = (id, value) => {
    const element = document.createElement("pre");
    element.id = id;
    element.textContent = JSON.stringify(value);
    document.documentElement.append(element);
  };
  try { tell("told", await (async () => { %(look)s })()); } catch (error) { errors.push(String(error)); }
  tell("errors", errors);
});
</script>
"""


#: tests/run.sh installs it where it is missing.
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@cache
def page() -> str:
    """The report of the recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.html")
        subprocess.run([TRAINMON, "report", RECORDING, "-o", path], check=True, capture_output=True)
        return Path(path).read_text(encoding="utf-8")


def document(text: str, width: int, scheme: str) -> str:
    """The document as the browser has it once everything has run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.html")
        Path(path).write_text(text, encoding="utf-8")
        command = [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile",
            f"--window-size={width},900", f"--virtual-time-budget={BUDGET_MS}",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            "--dump-dom", f"file://{path}",
        ]  # fmt: skip
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def seen(look: str, width: int = 1280, scheme: str = "light", library: str = "") -> Any:
    """What the script `look` answers in the report. Raises AssertionError if anything in it failed."""
    head, end = page().rsplit("</body>", 1)
    shown = document(f"{head}{LOOK % {'library': library, 'look': look}}</body>{end}", width, scheme)
    told = dict(re.findall(r'<pre id="(told|errors)">(.*?)</pre>', shown, re.DOTALL))
    errors = json.loads(html.unescape(told["errors"]))
    if errors:
        raise AssertionError(f"the page failed: {errors}")
    return json.loads(html.unescape(told["told"]))


@unittest.skipIf(BROWSER is None, "no browser: sudo apt-get install chromium")
class ReportPage(unittest.TestCase):
    def test_every_chart_is_replaced_by_one_that_zooms(self) -> None:
        counts = seen("""
            return [document.querySelectorAll("figure canvas").length, document.querySelectorAll("figure").length,
                document.querySelectorAll("figure svg").length, document.querySelectorAll(".zoom button").length];
        """)
        charts = page().count("<figure ")
        self.assertGreaterEqual(charts, 4)
        self.assertEqual(counts, [charts, charts, 0, 5])

    def test_it_works_by_keyboard(self) -> None:
        before, zoomed, after = seen("""
            const plot = document.querySelector("figure .uplot"), shown = () => document.querySelector(".zoom [role=status]").textContent;
            const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            if (plot.tabIndex !== 0) throw "a chart cannot have the focus";
            const before = shown(); press("+"); const zoomed = shown(); press("0");
            return [before, zoomed, shown()];
        """)
        self.assertRegex(before, r"^shown: \d\d:\d\d:\d\d to \d\d:\d\d:\d\d$")
        self.assertNotEqual(zoomed, before)
        self.assertEqual(after, before)

    def test_nothing_is_wider_than_the_window(self) -> None:
        for name, width in WIDTHS.items():
            with self.subTest(name):
                wide, window = seen("return [document.documentElement.scrollWidth, innerWidth];", width)
                self.assertLessEqual(wide, window)

    def test_it_passes_axe(self) -> None:
        library = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        look = """
            const found = await axe.run();
            const wrong = found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 200))]);
            return [found.passes.map((rule) => rule.id), wrong];
        """
        for width in WIDTHS.values():
            for scheme in SCHEMES:
                with self.subTest(f"{width}, {scheme}"):
                    held, wrong = seen(look, width, scheme, library)
                    self.assertEqual(wrong, [])
                    self.assertIn("color-contrast", held)

    def test_it_reads_without_scripts(self) -> None:
        # The browser cannot print a document whose scripts are switched off: take them out.
        shown = document(re.sub(r"<script.*?</script>", "", page(), flags=re.DOTALL), 1280, "light")
        self.assertNotIn("<canvas", shown)
        self.assertEqual(shown.count("<svg "), shown.count("<figure "))
        for part in ("DATA LOADER · too few workers", "▶ ", "dilate_mask", "Environment"):
            self.assertIn(part, shown)


if __name__ == "__main__":
    unittest.main()
