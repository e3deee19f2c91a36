//! The screen as a picture: a buffer of cells as an SVG that needs nothing else and looks the same with any font.
//!
//! A cell is 8×16 units. From below there are grounds, shapes and text. Whatever charts are made of (blocks, braille,
//! lines of boxes) is drawn as shapes; text stands in runs, each with its place and length, so that columns line up in
//! a font of any width. What has the same colour shares one element, which keeps the file small.

mod shapes;

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

use self::shapes::Shape;
use super::theme::{Palette, Rgb, Slot};
use crate::text::fit;

/// Width of a cell.
const WIDTH: u32 = 8;
/// Height of a cell.
const HEIGHT: u32 = 16;
/// From the top of a cell to the line that letters stand on.
const BASELINE: u32 = 12;
/// A letter of most monospaced fonts is 0.6 as wide as the font is high: 13.3 × 0.6 = 8.
const FONT: &str = r#"font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="13.3""#;

/// `buffer` as an SVG document. Colours left to the terminal become `palette`'s text and background, named ones xterm's.
/// The text of cells is taken as hostile: what could end an element, steer a terminal or reorder a line is made harmless.
#[must_use]
pub fn svg(buffer: &Buffer, palette: &Palette) -> String {
    let mut picture =
        Picture { ground: palette.rgb(Slot::Background), ink: palette.rgb(Slot::Text), ..Picture::default() };
    let area = buffer.area;
    for (y, row) in (0u32..).zip(buffer.content.chunks(usize::from(area.width.max(1)))) {
        picture.cells(y * HEIGHT, row);
        for line in 0..4 {
            picture.lines(y * HEIGHT, row, line);
        }
    }
    picture.document(u32::from(area.width) * WIDTH, u32::from(area.height) * HEIGHT)
}

/// A cell's colours after reversing and dimming: in front and behind.
fn colours(cell: &Cell, ink: Rgb, ground: Rgb) -> (Rgb, Rgb) {
    let (mut front, mut back) = (Rgb::of(cell.fg).unwrap_or(ink), Rgb::of(cell.bg).unwrap_or(ground));
    if cell.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut front, &mut back);
    }
    if cell.modifier.contains(Modifier::DIM) {
        front = mixed(front, back);
    }
    (front, back)
}

/// Dim text: five eighths of `front` on `back`.
fn mixed(front: Rgb, back: Rgb) -> Rgb {
    let mix = |f: u8, b: u8| ((u16::from(f) * 5 + u16::from(b) * 3) / 8) as u8;
    Rgb(mix(front.0, back.0), mix(front.1, back.1), mix(front.2, back.2))
}

/// What a run of text has in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    colour: Rgb,
    /// Of bold, italic, underlined and crossed out.
    modifier: Modifier,
}

/// A run of text that is being gathered.
struct Run {
    look: Look,
    x: u32,
    cells: u32,
    text: String,
    /// Blanks behind it that are part of it only if more follows.
    blanks: u32,
    /// The one character that it repeats, where that is none that every monospaced font has.
    only: Option<String>,
}

/// Rectangles of one colour: x, y, width, height.
type Rectangles = Vec<(u32, u32, u32, u32)>;
/// Rows of dots of one colour: x, y, count.
type Dots = Vec<(u32, u32, u32)>;

#[derive(Default)]
struct Picture {
    ground: Rgb,
    ink: Rgb,
    grounds: Vec<(Rgb, Rectangles)>,
    shapes: Vec<(Rgb, Rectangles)>,
    dots: Vec<(Rgb, Dots)>,
    /// Elements, ready written.
    texts: Vec<(Look, String)>,
}

/// What was gathered under `key`.
fn under<K: PartialEq + Copy, V: Default>(list: &mut Vec<(K, V)>, key: K) -> Option<&mut V> {
    let at = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        list.push((key, V::default()));
        list.len() - 1
    });
    list.get_mut(at).map(|(_, value)| value)
}

/// Adds a rectangle, joined to the last one where it continues that to the right.
fn add(list: &mut Vec<(Rgb, Rectangles)>, colour: Rgb, (x, y, width, height): (u32, u32, u32, u32)) {
    let Some(rectangles) = under(list, colour) else { return };
    match rectangles.last_mut() {
        Some(last) if last.0 + last.2 == x && last.1 == y && last.3 == height => last.2 += width,
        _ => rectangles.push((x, y, width, height)),
    }
}

impl Picture {
    /// Grounds, shapes and text of the row whose top is at `y`.
    fn cells(&mut self, y: u32, row: &[Cell]) {
        let mut run: Option<Run> = None;
        let mut covered = 0; // cells under the right half of a wide character
        for (at, cell) in (0u32..).zip(row) {
            let x = at * WIDTH;
            let (front, back) = colours(cell, self.ink, self.ground);
            if back != self.ground {
                add(&mut self.grounds, back, (x, y, WIDTH, HEIGHT));
            }
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let symbol = if cell.modifier.contains(Modifier::HIDDEN) { " " } else { cell.symbol() };
            match Shape::of(symbol) {
                Some(shape) => {
                    self.end(y, run.take());
                    self.shape(shape, (x, y), front);
                }
                None => {
                    let room = (row.len() as u32 - at).min(2);
                    let symbol = fit(symbol, room as usize);
                    let cells = symbol.width().max(1) as u32;
                    covered = cells - 1;
                    let modifier = cell.modifier
                        & (Modifier::BOLD | Modifier::ITALIC | Modifier::UNDERLINED | Modifier::CROSSED_OUT);
                    let rest = self.text(run.take(), Look { colour: front, modifier }, (x, y), &symbol, cells);
                    run = rest;
                }
            }
        }
        self.end(y, run);
    }

    fn shape(&mut self, shape: Shape, (x, y): (u32, u32), front: Rgb) {
        match shape {
            Shape::Rectangles(rectangles) => {
                for (left, top, width, height) in rectangles.into_iter().flatten() {
                    add(&mut self.shapes, front, (x + left, y + top, width, height));
                }
            }
            Shape::Dots(_) | Shape::Shade(_) => {}
        }
    }

    /// One of the four lines of dots of a row of cells, or of the stripes of its shades: joined along the line over all
    /// cells of a colour.
    fn lines(&mut self, y: u32, row: &[Cell], line: u32) {
        let y = y + line * 4;
        for (at, cell) in (0u32..).zip(row) {
            let shape = Shape::of(cell.symbol());
            if cell.modifier.contains(Modifier::HIDDEN) || shape.is_none() {
                continue;
            }
            let (front, _) = colours(cell, self.ink, self.ground);
            let bits = match shape {
                Some(Shape::Dots(bits)) => bits,
                Some(Shape::Shade(quarters)) => {
                    add(&mut self.shapes, front, (at * WIDTH, y, WIDTH, quarters));
                    continue;
                }
                _ => continue,
            };
            let Some(rows) = under(&mut self.dots, front) else { continue };
            for side in 0..2 {
                if !shapes::has_dot(bits, side, line) {
                    continue;
                }
                let (x, y) = (at * WIDTH + side * 4 + 1, y + 2);
                match rows.last_mut() {
                    Some(last) if last.0 + last.2 * 4 == x && last.1 == y => last.2 += 1,
                    _ => rows.push((x, y, 1)),
                }
            }
        }
    }

    /// Adds a cell's text to the run, or ends that and begins another.
    fn text(&mut self, run: Option<Run>, look: Look, (x, y): (u32, u32), symbol: &str, cells: u32) -> Option<Run> {
        // A line under or through blanks is seen.
        let lined = look.modifier.intersects(Modifier::UNDERLINED | Modifier::CROSSED_OUT);
        let blank = symbol.chars().all(|c| c == ' ' || c == '\u{A0}');
        if blank && !lined {
            return match run {
                Some(mut run) if run.blanks == 0 && run.only.is_none() => {
                    run.blanks = 1;
                    Some(run)
                }
                run => {
                    self.end(y, run);
                    None
                }
            };
        }
        // Every monospaced font has these; for others another font may stand in, of another width.
        let common = symbol.chars().all(|c| matches!(c, ' '..='~' | '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{FF}'));
        let only = (!common).then(|| symbol.to_owned());
        if let Some(mut run) = run {
            let repeats = only.is_none() || (run.blanks == 0 && cells == 1);
            if run.look == look && run.only == only && repeats {
                for _ in 0..run.blanks {
                    run.text.push(' ');
                }
                run.cells += run.blanks + cells;
                run.blanks = 0;
                run.text.push_str(symbol);
                return Some(run);
            }
            self.end(y, Some(run));
        }
        Some(Run { look, x, cells, text: symbol.to_owned(), blanks: 0, only })
    }

    /// Writes a run as an element.
    fn end(&mut self, y: u32, run: Option<Run>) {
        let Some(run) = run else { return };
        let Some(out) = under(&mut self.texts, run.look) else { return };
        let (x, y, length) = (run.x, y + BASELINE, run.cells * WIDTH);
        let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\">");
        for c in run.text.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                // XML 1.0 (2.2) has neither; controls went when the text was fitted.
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
        for (colour, rectangles) in self.grounds.iter().chain(&self.shapes) {
            let _ = write!(out, "<path fill=\"{}\" d=\"", hex(*colour));
            for (x, y, width, height) in rectangles {
                let _ = write!(out, "M{x} {y}h{width}v{height}h-{width}z");
            }
            out.push_str("\"/>\n");
        }
        for (colour, rows) in self.dots.iter().filter(|(_, rows)| !rows.is_empty()) {
            // A dashed line: dots of 2×2, every 4.
            let _ = write!(
                out,
                "<path stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"2\" fill=\"none\" d=\"",
                hex(*colour)
            );
            for (x, y, count) in rows {
                let _ = write!(out, "M{x} {y}h{}", count * 4 - 2);
            }
            out.push_str("\"/>\n");
        }
        for (look, texts) in &self.texts {
            let _ = write!(out, "<g fill=\"{}\"", hex(look.colour));
            for (modifier, attribute) in [
                (Modifier::BOLD, " font-weight=\"bold\""),
                (Modifier::ITALIC, " font-style=\"italic\""),
                (Modifier::UNDERLINED, " text-decoration=\"underline\""),
                (Modifier::CROSSED_OUT, " text-decoration=\"line-through\""),
            ] {
                let both = modifier == Modifier::CROSSED_OUT && look.modifier.contains(Modifier::UNDERLINED);
                if look.modifier.contains(modifier) && !both {
                    out.push_str(attribute);
                }
            }
            let _ = write!(out, ">\n{texts}</g>\n");
        }
        out.push_str("</svg>\n");
        out
    }
}

fn hex(colour: Rgb) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}
