"""The HTML of `trainmon report` in a real browser: it works without a network and without scripts, at the width of a telephone, by
keyboard, and passes axe, the checker of accessibility. Its charts share one time axis, whose labels neither repeat nor touch, and its
numbers agree with each other. Needs the release build, and Debian's chromium.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import unittest
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from measure.browser import BROWSER, Browser
from measure.paths import ROOT, TRAINMON

#: One with a GPU and workers, one with eight ranks, one whose verdict changes, one that saves, one without a GPU, and one whose advice
#: has a word that is wider than a telephone.
RECORDINGS = (
    "h100-resnet-four-workers", "eight-ranks-loader", "change", "checkpoint-write", "cpu-training", "host-device-sync",
)  # fmt: skip
#: Traces with a profile that is drawn: a GPU that waits, and several streams.
TRACES = ("waits-item.json", "two-streams-exposed.json")
WIDTHS = (390, 800, 1400)
SCHEMES = ("light", "dark")
#: Labels closer than this read as one, pixels.
GAP = 4
DAY_S = 86400

#: Keeps what is written on each canvas since it was last cleared, with its place on the canvas in pixels.
RECORD = """{
    const written = new Map(), draws = CanvasRenderingContext2D.prototype, { clearRect, fillText } = draws;
    draws.clearRect = function (...area) { written.set(this.canvas, []); return clearRect.apply(this, area); };
    draws.fillText = function (text, x, y, ...more) {
        const wide = this.measureText(text).width, left = x - { right: wide, center: wide / 2 }[this.textAlign] ?? x;
        if (text) written.get(this.canvas).push({ text, left, right: left + wide, y, side: this.textAlign === "right" });
        return fillText.call(this, text, x, y, ...more);
    };
    window.written = () => [...document.querySelectorAll("canvas")].map((canvas) => [canvas.width, written.get(canvas)]);
}"""


@cache
def page(recording: str = "segmentation", *options: str) -> str:
    """The report of a recording, or of a trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.html")
        file = os.path.join(ROOT, f"tests/fixtures/profiles/{recording}" if recording in TRACES else f"tests/recordings/{recording}.tmz")
        subprocess.run([TRAINMON, "report", file, "-o", path, *options], check=True, capture_output=True)
        return Path(path).read_text(encoding="utf-8")


def stretched(text: str, seconds: float) -> str:
    """A report whose charts last so long."""

    def longer(found: re.Match[str]) -> str:
        edges = json.loads(found[1])
        return json.dumps([edges[0] + (edge - edges[0]) / (edges[-1] - edges[0]) * seconds for edge in edges])

    return re.sub(r'(?<="edges":)(\[.*?\])', longer, text)


def text_of(html: str) -> str:
    """A report's own text, without its style, scripts and markup."""
    return re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", html, flags=re.DOTALL)


@unittest.skipIf(BROWSER is None, "no browser: sudo apt-get install chromium")
class ReportPage(unittest.TestCase):
    browser: ClassVar[Browser]
    folder: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = cls.enterClassContext(Browser())
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def open(self, text: str, width: int = 1280, scheme: str = "light", *, scripts: bool = True) -> None:
        """Shows a report."""
        path = os.path.join(self.folder, "run.html")
        Path(path).write_text(text, encoding="utf-8")
        self.browser.show(path, width, scheme, scripts=scripts, first=RECORD)

    def test_every_chart_is_replaced_by_one_that_zooms(self) -> None:
        self.open(page())
        counts = self.browser.ask("""
            return [document.querySelectorAll("figure[id] canvas").length, document.querySelectorAll("figure[id]").length,
                document.querySelectorAll("figure svg").length, document.querySelectorAll(".zoom button").length];
        """)
        charts = page().count("<figure id=")
        self.assertGreaterEqual(charts, 4)
        self.assertEqual(counts, [charts, charts, 0, 5])

    def test_all_charts_and_the_verdicts_have_one_time_axis(self) -> None:
        look = """
            const ends = (found) => { const { left, right } = found.getBoundingClientRect(); return left + " " + right; };
            const plots = [...document.querySelectorAll(".u-over, .band, .band > div")];
            return [plots.length, [...new Set(plots.map(ends))]];
        """
        for recording, width in product(RECORDINGS, WIDTHS):
            with self.subTest(f"{recording}, {width}"):
                self.open(page(recording), width)
                count, ends = self.browser.ask(look)
                self.assertEqual(count, page(recording).count("<figure id=") + 2)
                self.assertEqual(len(ends), 1, ends)

    def labels(self) -> list[dict[str, Any]]:
        """Every label of every chart, checked: inside its canvas, unlike the others of its axis, and apart from them."""
        times = []
        for wide, labels in self.browser.ask("return written();"):
            for on_the_side in (True, False):
                axis = [label for label in labels if label["side"] == on_the_side]
                for label in axis:
                    self.assertTrue(label["left"] >= 0 and label["right"] <= wide, label)
                    row = [other for other in axis if other["y"] == label["y"] and other is not label]
                    apart = [other["left"] - label["right"] >= GAP or label["left"] - other["right"] >= GAP for other in row]
                    self.assertTrue(all(apart), (label, row))
                # The day stands below the first time of it.
                texts = [label["text"] for label in axis if re.fullmatch(r"[\d.:]+(k|%)?", label["text"])]
                dated = any(re.fullmatch(r"\d\d-\d\d", label["text"]) for label in axis)
                self.assertTrue(dated or len(set(texts)) == len(texts), texts)
                times += [] if on_the_side else axis
        return times

    def test_labels_neither_repeat_nor_touch(self) -> None:
        for recording, width in product(RECORDINGS, WIDTHS):
            with self.subTest(f"{recording}, {width}"):
                self.open(page(recording), width)
                self.assertGreaterEqual(len(self.labels()), 2)
                # As near as the charts go.
                self.browser.ask("for (let times = 0; times < 9; times++) document.querySelector('.zoom button').click();")
                self.assertGreaterEqual(len(self.labels()), 2)

    def test_labels_of_long_runs_name_the_day(self) -> None:
        for days, width in product((0.1, 0.9, 3, 40), WIDTHS):
            with self.subTest(f"{days} days, {width}"):
                self.open(stretched(page(), days * DAY_S), width)
                labels = [label["text"] for label in self.labels()]
                named = [text for text in labels if re.fullmatch(r"\d\d-\d\d", text)]
                self.assertGreaterEqual(len(labels), 2)
                self.assertTrue(named or days < 1, labels)
                self.assertEqual(len(set(named)), len(named), labels)

    def test_small_and_large_ranges_have_unlike_labels(self) -> None:
        for top in (0.001, 0.02, 1, 3, 5, 20_000, 5_000_000):
            with self.subTest(top):
                self.open(re.sub(r'(?<="unit":"/s","top":)[\d.]+', str(top), page()), 390)
                self.labels()

    def test_it_works_by_keyboard(self) -> None:
        self.open(page())
        before, zoomed, after = self.browser.ask("""
            const plot = document.querySelector("figure .uplot"), shown = () => document.querySelector(".zoom [role=status]").textContent;
            const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            if (plot.tabIndex !== 0) throw "a chart cannot have the focus";
            const before = shown(); press("+"); const zoomed = shown(); press("0");
            return [before, zoomed, shown()];
        """)
        self.assertRegex(before, r"^shown: \d\d:\d\d:\d\d to \d\d:\d\d:\d\d$")
        self.assertNotEqual(zoomed, before)
        self.assertEqual(after, before)

    def test_the_verdicts_zoom_with_the_charts(self) -> None:
        self.open(page("change"))
        whole, zoomed = self.browser.ask("""
            const band = document.querySelector(".band > div"), place = () => { const { left, right } = band.getBoundingClientRect(); return [left, right]; };
            const whole = place(); document.querySelector(".zoom button").click();
            return [whole, place()];
        """)
        middle = sum(whole) / 2
        self.assertEqual([round(middle + 2 * (end - middle)) for end in whole], [round(end) for end in zoomed])

    def test_nothing_is_cut_and_the_page_does_not_scroll_sideways(self) -> None:
        look = """
            const scrolls = (found) => ["auto", "scroll"].includes(getComputedStyle(found).overflowX);
            const outside = [], cut = [];
            for (const found of document.querySelectorAll("body *")) {
                let holder = found.parentElement;
                while (holder && !scrolls(holder)) holder = holder.parentElement;
                const { left, right, width } = found.getBoundingClientRect();
                // The names of a step's slices are cut where the slices end.
                const drawn = found.closest(".lanes > svg > svg");
                if (width && !holder && !drawn && (left < 0 || right > innerWidth)) outside.push(found.outerHTML.slice(0, 99));
                if (!scrolls(found) && found.textContent.trim() && found.clientWidth && found.scrollWidth > found.clientWidth + 1 && !found.closest(".uplot"))
                    cut.push([found.scrollWidth, found.clientWidth, found.outerHTML.slice(0, 99)]);
            }
            return { wide: document.documentElement.scrollWidth, outside, cut };
        """
        for recording, scripts in product(RECORDINGS + TRACES, (True, False)):
            with self.subTest(f"{recording}, scripts: {scripts}"):
                self.open(page(recording), 390, scripts=scripts)
                self.assertEqual(self.browser.ask(look), {"wide": 390, "outside": [], "cut": []})

    def test_cells_that_scroll_are_not_squeezed(self) -> None:
        for recording in ("eight-ranks-loader", *TRACES):
            self.open(page(recording), 390)
            narrowest = self.browser.ask("return Math.min(...[...document.querySelectorAll('.scrolls td')].map((cell) => cell.clientWidth));")
            self.assertGreater(narrowest, 40, recording)

    def test_all_lanes_of_a_step_have_one_time_axis(self) -> None:
        look = """
            const ends = (found) => { const { left, right } = found.getBoundingClientRect(); return left + " " + right; };
            const lanes = [...document.querySelectorAll(".lanes > svg, .lanes > .ends")];
            const names = [...document.querySelectorAll(".lanes text")].map((name) => name.getBoundingClientRect().height);
            return [lanes.length, [...new Set(lanes.map(ends))], names.filter((height) => height < 10 || height > 20)];
        """
        for trace, width in product(TRACES, WIDTHS):
            with self.subTest(f"{trace}, {width}"):
                self.open(page(trace), width)
                count, ends, odd = self.browser.ask(look)
                self.assertGreaterEqual(count, 4)
                self.assertEqual((len(ends), odd), (1, []), ends)

    def test_it_passes_axe(self) -> None:
        library = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        look = """
            const found = await axe.run();
            const wrong = found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 200))]);
            return [found.passes.map((rule) => rule.id), wrong];
        """
        for recording, width, scheme in product(("segmentation", "eight-ranks-loader", *TRACES), WIDTHS, SCHEMES):
            with self.subTest(f"{recording}, {width}, {scheme}"):
                self.open(page(recording, "--title", "Eight <GPUs>"), width, scheme)
                held, wrong = self.browser.ask(library + look)
                self.assertEqual(wrong, [])
                self.assertIn("color-contrast", held)

    def test_it_reads_without_scripts(self) -> None:
        self.open(page(), scripts=False)
        canvases, drawings, text = self.browser.ask("""
            return [document.querySelectorAll("canvas").length, document.querySelectorAll("svg").length, document.body.innerText];
        """)
        self.assertEqual((canvases, drawings), (0, page().count("<figure id=")))
        for part in ("DATA LOADER · too few workers", "▶ ", "dilate_mask", "Environment"):
            self.assertIn(part, text)

    def test_what_the_recording_has_is_drawn_and_listed(self) -> None:
        text = text_of(page("h100-resnet-four-workers", "--title", "Four <workers>"))
        for part in ("Four &lt;workers&gt;", "hottest GPU 43", "SM clock 1980 MHz", "to the GPUs ", "Network", "received "):
            self.assertIn(part, text)
        without = text_of(page("cpu-training"))
        for part in ("GPU temperature", "GPU clock", "PCIe"):
            self.assertNotIn(part, without)
        self.open(page("eight-ranks-loader"))
        rows = self.browser.ask("""
            const table = [...document.querySelectorAll("h2")].find((title) => title.textContent.startsWith("Ranks")).parentElement;
            return [...table.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent));
        """)
        self.assertEqual(rows[0], ["rank", "PID", "data", "GPU wait", "work", "saving", "other", "steps/s", "hottest line"])
        self.assertEqual([row[0] for row in rows[1:]], ["0, late", *(str(rank) for rank in range(1, 8))])
        self.assertTrue(all(re.fullmatch(r"\d+%", cell) for row in rows[1:] for cell in row[2:7]), rows)
        self.assertTrue(all(re.fullmatch(r"\d+(\.\d+)?", row[7]) for row in rows[1:]), rows)

    def test_times_and_numbers_agree(self) -> None:
        for recording in RECORDINGS:
            with self.subTest(recording):
                text = " ".join(text_of(page(recording)).split())
                # The run's begin and end: in the head, below the charts, where the drawing ends, and on the time axis.
                began, ended = re.findall(r"PID \d+ · [\d-]+ ([\d:]+) to ([\d:]+) ", text)[0]
                self.assertIn(f" {began} {ended} ", text)
                self.open(page(recording), 800)
                shown = self.browser.ask("return document.querySelector('.zoom [role=status]').textContent;")
                self.assertEqual(shown, f"shown: {began} to {ended}")
                self.assertIn(f"from for verdict cause {began} ", text)
                # Steps (at the head, below the time by verdict, and at their chart), and the shares of the whole run.
                rates = re.findall(r" steps ([\d.]+)/s", text) + re.findall(r"\d+ steps in [\w ]+ of training, ([\d.]+) per second", text)
                self.assertLessEqual(len(set(rates)), 1)
                self.assertEqual(len(rates), 1 if recording == "checkpoint-write" else 3, "one that saves is not in training")
                share = re.compile(r"(waiting for data|waiting for the GPU|own work|saving|other) (\d+)%")
                means = dict(share.findall(re.findall(r"Training loops?\b[\w, ]*0–100%, mean of the run:([^–]*)", text)[0]))
                whole = dict(share.findall(re.findall(r"Over the whole run[\w, ]*: ([^.]*%)\.", text)[0]))
                self.assertTrue(whole)
                self.assertEqual({name: means[name] for name in whole}, whole)
                waits = re.findall(r"while the loop waits for data [\w.]+ ?\w* (\d+)%", text)
                self.assertEqual(waits, [means["waiting for data"]] if waits else [])
                late = re.findall(r"0, late \d+ (\d+)%", text)
                self.assertEqual(late, re.findall(r"rank 0&#39;s loop goes waiting for data (\d+)%", text))

    def test_the_value_under_the_cursor_is_that_of_its_column(self) -> None:
        self.open(page("change"), 800)
        edges = json.loads(re.findall(r'"edges":(\[.*?\])', page("change"))[0])
        columns = len(edges) - 1
        told = self.browser.ask("""
            const over = document.querySelector("figure[id] .u-over"), { left, width, top } = over.getBoundingClientRect();
            const caption = over.closest("figure").querySelector("figcaption"), told = [];
            for (const share of [0.01, 0.5, 0.99]) {
                over.dispatchEvent(new MouseEvent("mouseenter", { clientX: left, clientY: top + 9 }));
                over.dispatchEvent(new MouseEvent("mousemove", { clientX: left + share * width, clientY: top + 9, bubbles: true }));
                await new Promise((ready) => requestAnimationFrame(() => setTimeout(ready)));
                told.push(caption.innerText);
            }
            return told;
        """)
        values = json.loads(re.findall(r'id="numbers">(.*?)</script>', page("change"))[0])["charts"][0]["series"][0]["values"]
        for share, caption in zip((0.01, 0.5, 0.99), told, strict=True):
            at = next(at for at in range(columns) if edges[at + 1] >= edges[0] + share * (edges[-1] - edges[0]))
            self.assertIn(f"steps {values[at]:g}/s", caption)


if __name__ == "__main__":
    unittest.main()
