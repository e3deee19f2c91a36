//! The screen as a picture: a buffer of cells as an SVG that needs no other file and looks the same with any font.
//!
//! A cell is 8×16 units. The layers are backgrounds, shapes and text. Chart characters (blocks, braille, box-drawing
//! lines) become shapes. Text is written in runs, each with its position and length, so that columns line up in a font
//! of any width. Everything of the same color shares one element, which keeps the file small.
//!
//! anstyle-svg's picture of the same screen is 1.3 times (80×24) to twice (200×60) as large. It leaves all characters
//! to the reader's fonts, one line each: charts need a font with braille, and columns shift if another font is used
//! instead.

#[path = "svg_shapes.rs"]
mod shapes;

use std::collections::BTreeMap;
use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

use self::shapes::{Rectangle, Shape};
use trainmon::text::fit;
use trainmon::tui::theme::{ANSI, ColorSlot, Palette, Rgb};

/// Width of a cell.
const WIDTH: u32 = 8;
/// Height of a cell.
const HEIGHT: u32 = 16;
/// From the top of a cell to the baseline.
const BASELINE: u32 = 12;
/// In most monospaced fonts a letter is 0.6 times as wide as the font is high: 13.3 × 0.6 = 8.
const FONT: &str = r#"font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="13.3""#;

/// Attributes of text. Of two lines only the first is drawn: an element can have one.
const ATTRIBUTES: [(Modifier, &str); 4] = [
    (Modifier::BOLD, " font-weight=\"bold\""),
    (Modifier::ITALIC, " font-style=\"italic\""),
    (Modifier::UNDERLINED, " text-decoration=\"underline\""),
    (Modifier::CROSSED_OUT, " text-decoration=\"line-through\""),
];

/// `buffer` as an SVG document. Colors that are left to the terminal become `palette`'s text and background; named ones
/// become xterm's. The text of cells is not trusted: anything that could end an element, control a terminal or reorder
/// a line is made harmless.
pub fn svg(buffer: &Buffer, palette: &Palette) -> String {
    let mut picture = Picture {
        ground: palette.rgb(ColorSlot::Background),
        ink: palette.rgb(ColorSlot::Text),
        ..Picture::default()
    };
    let area = buffer.area;
    for (y, row) in (0u32..).zip(buffer.content.chunks(usize::from(area.width.max(1)))) {
        picture.row(y * HEIGHT, row);
    }
    picture.document(u32::from(area.width) * WIDTH, u32::from(area.height) * HEIGHT)
}

/// What a terminal shows for `color`, with xterm's defaults for the named ones; `None` for the terminal's own foreground or
/// background.
fn shown(color: Color) -> Option<Rgb> {
    match color {
        Color::Reset => None,
        Color::Rgb(r, g, b) => Some(Rgb(r, g, b)),
        Color::Indexed(index) => Some(Rgb::indexed(index)),
        named => ANSI.iter().find(|(_, known, _)| *known == named).map(|(_, _, rgb)| *rgb),
    }
}

/// What the text of a run has in common: color and attributes, as their bits.
type SvgStyle = (Rgb, u16);

/// The current run of text.
struct SvgRun {
    style: SvgStyle,
    x: u32,
    cells: u32,
    text: String,
    /// A blank after it, which becomes part of it only if more text follows.
    blank: bool,
    /// The character that it repeats, if some monospaced fonts do not have it.
    only: Option<String>,
}

/// What is drawn, by color and then by line inside a cell, 0–3: parts on the same line are joined.
#[derive(Default)]
struct Picture {
    ground: Rgb,
    ink: Rgb,
    grounds: BTreeMap<(Rgb, u32), Vec<Rectangle>>,
    shapes: BTreeMap<(Rgb, u32), Vec<Rectangle>>,
    /// Rows of dots, 4 units for each dot.
    dots: BTreeMap<(Rgb, u32), Vec<Rectangle>>,
    /// Finished elements.
    texts: BTreeMap<SvgStyle, String>,
}

/// Adds a rectangle, joined to the last one if it continues that one to the right.
fn add(list: &mut Vec<Rectangle>, (x, y, width, height): Rectangle) {
    match list.last_mut() {
        Some(last) if last.0 + last.2 == x && last.1 == y && last.3 == height => last.2 += width,
        _ => list.push((x, y, width, height)),
    }
}

impl Picture {
    /// A cell's foreground and background after reversing and dimming.
    fn colors(&self, cell: &Cell) -> (Rgb, Rgb) {
        let (mut front, mut back) = (shown(cell.fg).unwrap_or(self.ink), shown(cell.bg).unwrap_or(self.ground));
        if cell.modifier.contains(Modifier::REVERSED) {
            std::mem::swap(&mut front, &mut back);
        }
        if cell.modifier.contains(Modifier::DIM) {
            // Five eighths of the foreground on the background.
            let mix = |front: u8, back: u8| ((u16::from(front) * 5 + u16::from(back) * 3) / 8) as u8;
            front = Rgb(mix(front.0, back.0), mix(front.1, back.1), mix(front.2, back.2));
        }
        (front, back)
    }

    /// Backgrounds, shapes and text of the row whose top is at `y`.
    fn row(&mut self, y: u32, row: &[Cell]) {
        let mut run: Option<SvgRun> = None;
        let mut covered = 0; // cells under the right half of a wide character
        for (at, cell) in (0u32..).zip(row) {
            let x = at * WIDTH;
            let (front, back) = self.colors(cell);
            if back != self.ground {
                add(self.grounds.entry((back, 0)).or_default(), (x, y, WIDTH, HEIGHT));
            }
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let symbol = if cell.modifier.contains(Modifier::HIDDEN) { " " } else { cell.symbol() };
            if let Some(shape) = Shape::from_symbol(symbol) {
                self.end(y, run.take());
                self.shape(&shape, (x, y), front);
                continue;
            }
            let symbol = fit(symbol, (row.len() - at as usize).min(2));
            covered = (symbol.width() as u32).saturating_sub(1);
            let shown = Modifier::from_iter(ATTRIBUTES.map(|(attribute, _)| attribute));
            let style = (front, (cell.modifier & shown).bits());
            run = self.text(run, style, (x, y), symbol, covered + 1);
        }
        self.end(y, run);
    }

    fn shape(&mut self, shape: &Shape, (x, y): (u32, u32), front: Rgb) {
        match shape {
            Shape::Rectangles(rectangles) => {
                for (left, top, width, height) in rectangles {
                    add(self.shapes.entry((front, 0)).or_default(), (x + left, y + top, *width, *height));
                }
            }
            Shape::Shade(quarters) => {
                for line in 0..4 {
                    add(self.shapes.entry((front, line)).or_default(), (x, y + line * 4, WIDTH, *quarters));
                }
            }
            Shape::Dots(bits) => {
                for (line, side) in (0..4).flat_map(|line| [(line, 0), (line, 1)]) {
                    if shapes::has_dot(*bits, side, line) {
                        let dots = self.dots.entry((front, line)).or_default();
                        add(dots, (x + side * 4 + 1, y + line * 4 + 2, 4, 2));
                    }
                }
            }
        }
    }

    /// Adds a cell's text to the run, or ends the run and begins a new one.
    fn text(
        &mut self,
        run: Option<SvgRun>,
        style: SvgStyle,
        (x, y): (u32, u32),
        symbol: String,
        cells: u32,
    ) -> Option<SvgRun> {
        // A line under or through blanks is visible.
        let lined = Modifier::from_bits_truncate(style.1).intersects(Modifier::UNDERLINED | Modifier::CROSSED_OUT);
        let blank = !lined && symbol.chars().all(|c| c == ' ' || c == '\u{A0}');
        // Every monospaced font has these; others may come from another font with another width.
        let common = symbol.chars().all(|c| matches!(c, ' '..='~' | '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{FF}'));
        let only = (!common).then(|| symbol.clone());
        match run {
            Some(run) if blank && !run.blank && run.only.is_none() => Some(SvgRun { blank: true, ..run }),
            Some(mut run)
                if !blank && run.style == style && run.only == only && (common || !run.blank && cells == 1) =>
            {
                if std::mem::take(&mut run.blank) {
                    run.text.push(' ');
                    run.cells += 1;
                }
                run.text.push_str(&symbol);
                run.cells += cells;
                Some(run)
            }
            run => {
                self.end(y, run);
                (!blank).then_some(SvgRun { style, x, cells, text: symbol, blank: false, only })
            }
        }
    }

    /// Writes a run as an element.
    fn end(&mut self, y: u32, run: Option<SvgRun>) {
        let Some(run) = run else { return };
        let out = self.texts.entry(run.style).or_default();
        let (x, y, length) = (run.x, y + BASELINE, run.cells * WIDTH);
        let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\">");
        for c in run.text.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                // XML 1.0 (2.2) has neither; control characters went when the text was fitted.
                '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
                c => out.push(c),
            }
        }
        out.push_str("</text>\n");
    }

    fn document(&self, width: u32, height: u32) -> String {
        // Writing to a string cannot fail.
        let mut out = String::with_capacity(64 * 1024);
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" {FONT} xml:space=\"preserve\">",
        );
        let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>", hex(self.ground));
        for list in [&self.grounds, &self.shapes] {
            paths(&mut out, list, "fill=", |out, (x, y, width, height)| {
                let _ = write!(out, "M{x} {y}h{width}v{height}h-{width}z");
            });
        }
        // A dashed line: dots of 2×2, every 4.
        let dashed = "stroke-width=\"2\" stroke-dasharray=\"2\" fill=\"none\" stroke=";
        paths(&mut out, &self.dots, dashed, |out, (x, y, width, _)| {
            let _ = write!(out, "M{x} {y}h{}", width - 2);
        });
        for ((color, bits), texts) in &self.texts {
            let _ = write!(out, "<g fill=\"{}\"", hex(*color));
            let mut modifier = Modifier::from_bits_truncate(*bits);
            if modifier.contains(Modifier::UNDERLINED) {
                modifier.remove(Modifier::CROSSED_OUT);
            }
            for (_, attribute) in ATTRIBUTES.iter().filter(|(known, _)| modifier.contains(*known)) {
                out.push_str(attribute);
            }
            let _ = write!(out, ">\n{texts}</g>\n");
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Writes one path for each color: `attributes` ends with the attribute that takes the color; `piece` draws a
/// rectangle.
fn paths(
    out: &mut String,
    lists: &BTreeMap<(Rgb, u32), Vec<Rectangle>>,
    attributes: &str,
    piece: impl Fn(&mut String, Rectangle),
) {
    let mut before = None;
    for ((color, _), list) in lists {
        if before != Some(color) {
            let end = if before.is_some() { "\"/>\n" } else { "" };
            let _ = write!(out, "{end}<path {attributes}\"{}\" d=\"", hex(*color));
            before = Some(color);
        }
        list.iter().for_each(|rectangle| piece(out, *rectangle));
    }
    if before.is_some() {
        out.push_str("\"/>\n");
    }
}

fn hex(Rgb(red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
