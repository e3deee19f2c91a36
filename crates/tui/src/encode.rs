//! Cells as bytes for the terminal: the shortest sequences that old terminals understand as well.
//!
//! The 16 named colors are sent as SGR 30–37 and 90–97 (40–47 and 100–107 for the background), which the Linux console
//! and every descendant of the VT100 with colors understand. The 256-color form, `38;5;n`, is only for colors without
//! another form. Everything that a style adds to the previous one is sent in one sequence. Attributes are switched off
//! all at once, because the VT100 cannot switch them off one at a time.
//!
//! Runs of cells that begin with the same style are sent one after the other, wherever they are. The cursor must be moved
//! between them anyway, and the style then need not be switched: a fifth fewer bytes for charts that move.
//!
//! ratatui's own backend has only the 256-color form for the 16 as well. It sends 7 to 16% more bytes
//! (tests/screen/bytes.rs): of the 6,144 a second that a page may use, it needs 6,079; this needs 5,286.

use std::io::Write;

use ratatui::buffer::Cell;
use ratatui::style::{Color, Modifier};

use super::theme::ANSI;

/// How the terminal currently writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pen {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl Pen {
    const PLAIN: Self = Self { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };
}

/// Appends the bytes that show these cells; the first cell is at (0, 0), rows from the top. The terminal must have no
/// style set before, and has none set afterward.
pub fn encode<'a>(bytes: &mut Vec<u8>, cells: impl Iterator<Item = (u16, u16, &'a Cell)>) {
    let pen = |cell: &Cell| Pen { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
    let cells: Vec<_> = cells.map(|(x, y, cell)| (x, y, cell.symbol(), pen(cell))).collect();
    // The second half of a wide character has no cell and ends a run: the cursor is set again, because terminals
    // disagree about widths.
    let mut runs: Vec<_> = cells.chunk_by(|a, b| (a.0.saturating_add(1), a.1) == (b.0, b.1)).collect();
    let mut styles = vec![Pen::PLAIN];
    runs.sort_by_cached_key(|run| {
        let style = run.first().map_or(Pen::PLAIN, |first| first.3);
        let known = styles.iter().position(|known| *known == style);
        if known.is_none() {
            styles.push(style);
        }
        // Those that keep the style come first.
        (known.unwrap_or(styles.len() - 1), run.iter().any(|cell| cell.3 != style))
    });
    let mut pen = Pen::PLAIN;
    for run in runs {
        run.first().into_iter().for_each(|(x, y, ..)| go(bytes, *x, *y));
        for (_, _, symbol, style) in run {
            pen = change(bytes, pen, *style);
            bytes.extend_from_slice(symbol.as_bytes());
        }
    }
    change(bytes, pen, Pen::PLAIN);
}

/// Moves the cursor. A missing row or column means the first one.
fn go(bytes: &mut Vec<u8>, x: u16, y: u16) {
    let (column, row) = (u32::from(x) + 1, u32::from(y) + 1);
    // Writing into memory cannot fail, here and below.
    let _ = match (x, y) {
        (0, 0) => write!(bytes, "\x1b[H"),
        (0, _) => write!(bytes, "\x1b[{row}H"),
        (_, 0) => write!(bytes, "\x1b[;{column}H"),
        _ => write!(bytes, "\x1b[{row};{column}H"),
    };
}

/// Switches the terminal from one style to another.
fn change(bytes: &mut Vec<u8>, mut from: Pen, to: Pen) -> Pen {
    if from == to {
        return to;
    }
    bytes.extend_from_slice(b"\x1b[");
    if to == Pen::PLAIN {
        // `CSI m` is `CSI 0 m`.
        from = to;
    } else if !to.modifier.contains(from.modifier) {
        bytes.extend_from_slice(b"0;");
        from = Pen::PLAIN;
    }
    for attribute in (to.modifier - from.modifier).iter() {
        // ratatui's bits have the order of the numbers in ECMA-48: bold is 1, crossed out 9.
        parameters(bytes, &[attribute.bits().trailing_zeros() as u8 + 1]);
    }
    if from.fg != to.fg {
        color(bytes, to.fg, 0);
    }
    if from.bg != to.bg {
        color(bytes, to.bg, 10);
    }
    bytes.pop_if(|last| *last == b';');
    bytes.push(b'm');
    to
}

/// SGR parameters of a color: `ground` is 0 for the text, 10 for the background.
fn color(bytes: &mut Vec<u8>, color: Color, ground: u8) {
    match color {
        Color::Indexed(index) => parameters(bytes, &[38 + ground, 5, index]),
        Color::Rgb(red, green, blue) => parameters(bytes, &[38 + ground, 2, red, green, blue]),
        named => parameters(
            bytes,
            &[match ANSI.iter().position(|(_, known, _)| *known == named) {
                Some(index @ 0..8) => 30 + ground + index as u8,
                Some(bright) => 90 - 8 + ground + bright as u8,
                None => 39 + ground,
            }],
        ),
    }
}

/// Each with a semicolon after it.
fn parameters(bytes: &mut Vec<u8>, values: &[u8]) {
    for value in values {
        let _ = write!(bytes, "{value};");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    fn encoded(cells: &[(u16, u16, &str, Style)]) -> String {
        let cells: Vec<(u16, u16, Cell)> = cells
            .iter()
            .map(|(x, y, symbol, style)| {
                let mut cell = Cell::default();
                cell.set_symbol(symbol).set_style(*style);
                (*x, *y, cell)
            })
            .collect();
        let mut bytes = Vec::new();
        encode(&mut bytes, cells.iter().map(|(x, y, cell)| (*x, *y, cell)));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn colors_with_names_go_out_in_the_old_form() {
        let plain = Style::new();
        assert_eq!(encoded(&[(0, 0, "a", plain.fg(Color::Red))]), "\x1b[H\x1b[31ma\x1b[m");
        assert_eq!(
            encoded(&[(4, 0, "a", plain.fg(Color::White).bg(Color::DarkGray))]),
            "\x1b[;5H\x1b[97;100ma\x1b[m"
        );
        assert_eq!(encoded(&[(0, 9, "a", plain.fg(Color::Gray).bg(Color::Black))]), "\x1b[10H\x1b[37;40ma\x1b[m");
        assert_eq!(encoded(&[(1, 1, "a", plain.fg(Color::Indexed(74)))]), "\x1b[2;2H\x1b[38;5;74ma\x1b[m");
        assert_eq!(encoded(&[(1, 1, "a", plain.bg(Color::Rgb(1, 20, 255)))]), "\x1b[2;2H\x1b[48;2;1;20;255ma\x1b[m");
    }

    #[test]
    fn only_what_changes_is_sent() {
        let red = Style::new().fg(Color::Red);
        let bold = red.add_modifier(Modifier::BOLD);
        let blue = red.bg(Color::Blue);
        let cells = [(0, 0, "a", red), (1, 0, "b", red), (2, 0, "c", bold), (3, 0, "d", blue), (4, 0, "e", red)];
        assert_eq!(encoded(&cells), "\x1b[H\x1b[31mab\x1b[1mc\x1b[0;31;44md\x1b[49me\x1b[m");
        assert_eq!(encoded(&[(7, 0, "a", Style::new())]), "\x1b[;8Ha");
        assert_eq!(encoded(&[]), "");
    }

    #[test]
    fn attributes_have_the_numbers_of_ecma_48() {
        for (modifier, number) in [
            (Modifier::BOLD, 1),
            (Modifier::DIM, 2),
            (Modifier::ITALIC, 3),
            (Modifier::UNDERLINED, 4),
            (Modifier::SLOW_BLINK, 5),
            (Modifier::RAPID_BLINK, 6),
            (Modifier::REVERSED, 7),
            (Modifier::HIDDEN, 8),
            (Modifier::CROSSED_OUT, 9),
        ] {
            let style = Style::new().add_modifier(modifier);
            assert_eq!(encoded(&[(0, 0, "a", style)]), format!("\x1b[H\x1b[{number}ma\x1b[m"));
        }
    }

    #[test]
    fn the_cursor_is_set_anew_behind_a_wide_character() {
        let plain = Style::new();
        assert_eq!(encoded(&[(0, 0, "漢", plain), (2, 0, "a", plain)]), "\x1b[H漢\x1b[;3Ha");
    }

    fn any_color() -> impl Strategy<Value = Color> {
        let named = prop::sample::select(ANSI.map(|(_, color, _)| color).to_vec());
        prop_oneof![
            Just(Color::Reset),
            named,
            any::<u8>().prop_map(Color::Indexed),
            any::<[u8; 3]>().prop_map(|[r, g, b]| Color::Rgb(r, g, b)),
        ]
    }

    /// The color as the terminal of the tests names it.
    fn on_terminal(color: Color) -> vt100::Color {
        match color {
            Color::Reset => vt100::Color::Default,
            Color::Indexed(n) => vt100::Color::Idx(n),
            Color::Rgb(r, g, b) => vt100::Color::Rgb(r, g, b),
            other => vt100::Color::Idx(ANSI.iter().position(|(_, c, _)| *c == other).unwrap() as u8),
        }
    }

    proptest! {
        /// A terminal that is sent the difference of two pictures shows the second one, color by color.
        #[test]
        fn a_terminal_shows_what_was_meant(
            styles in prop::collection::vec(
                (prop::sample::select(vec!["a", " ", "é", "⣿", "漢", "e\u{301}"]), any_color(), any_color(), 0u16..512),
                0..26,
            ),
            before in prop::collection::vec(prop::sample::select(vec!["x", "字", " "]), 0..26),
        ) {
            let area = Rect::new(0, 0, 13, 4);
            let (mut old, mut new) = (Buffer::empty(area), Buffer::empty(area));
            let mut place = 0u16;
            for symbol in before {
                old.set_stringn(place % 13, (place / 13) % 4, symbol, usize::from(13 - place % 13), Style::new());
                place += 2;
            }
            place = 0;
            for (symbol, fg, bg, bits) in styles {
                // Of the attributes those that the terminal of the tests knows.
                let known = Modifier::BOLD | Modifier::ITALIC | Modifier::UNDERLINED | Modifier::REVERSED;
                let style = Style::new().fg(fg).bg(bg).add_modifier(Modifier::from_bits_truncate(bits) & known);
                new.set_stringn(place % 13, (place / 13) % 4, symbol, usize::from(13 - place % 13), style);
                place += 2;
            }
            let mut parser = vt100::Parser::new(4, 13, 0);
            for (from, to) in [(&Buffer::empty(area), &old), (&old, &new)] {
                let mut bytes = Vec::new();
                encode(&mut bytes, from.diff_iter(to));
                parser.process(&bytes);
            }
            let screen = parser.screen();
            for y in 0..4 {
                for x in 0..13 {
                    let (meant, shown) = (&new[(x, y)], screen.cell(y, x).unwrap());
                    if shown.is_wide_continuation() {
                        continue;
                    }
                    prop_assert_eq!(meant.symbol().trim_end(), shown.contents().trim_end(), "{}, {}", x, y);
                    if meant.symbol() == " " {
                        // The second half of a wide character that was: terminals differ on its style.
                        continue;
                    }
                    prop_assert_eq!(on_terminal(meant.fg), shown.fgcolor());
                    prop_assert_eq!(on_terminal(meant.bg), shown.bgcolor());
                    prop_assert_eq!(meant.modifier.contains(Modifier::BOLD), shown.bold());
                    prop_assert_eq!(meant.modifier.contains(Modifier::ITALIC), shown.italic());
                    prop_assert_eq!(meant.modifier.contains(Modifier::UNDERLINED), shown.underline());
                    prop_assert_eq!(meant.modifier.contains(Modifier::REVERSED), shown.inverse());
                }
            }
        }
    }
}
