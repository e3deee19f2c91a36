//! The screen as an SVG: that it is one, that it shows what the buffer holds, and that nothing in a cell can break it.

use crate::app::*;
use crate::picture::svg;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use trainmon::tui::theme::Palette;

/// Checks that `document` is well-formed as far as what is written can go wrong, and returns the texts of its elements.
fn well_formed(document: &str) -> Result<Vec<String>, String> {
    let allowed = |c: char| c == '\n' || (!c.is_control() && !matches!(c, '\u{FFFE}' | '\u{FFFF}'));
    if let Some(c) = document.chars().find(|c| !allowed(*c)) {
        return Err(format!("{c:?} in the document"));
    }
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        if text.contains('>') {
            return Err(format!("a stray > in {text:?}"));
        }
        let entities = ["&amp;", "&lt;", "&gt;"];
        for (at, _) in text.match_indices('&') {
            if !entities.iter().any(|entity| text[at..].starts_with(entity)) {
                return Err(format!("a stray & in {text:?}"));
            }
        }
        if open.last() == Some(&"text") {
            texts.push(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
        } else if !text.trim().is_empty() {
            return Err(format!("{text:?} stands outside a text element"));
        }
        let end = tag.find('>').ok_or("a tag without an end")?;
        let inside = &tag[1..end];
        if inside.contains('<') || inside.matches('"').count() % 2 != 0 {
            return Err(format!("a broken tag: {inside:?}"));
        }
        match inside.strip_prefix('/') {
            Some(name) if open.pop() == Some(name) => {}
            Some(name) => return Err(format!("</{name}> ends nothing")),
            None if inside.ends_with('/') => {}
            None => open.push(inside.split(' ').next().unwrap_or("")),
        }
        rest = &tag[end + 1..];
    }
    if open.is_empty() && rest.trim().is_empty() { Ok(texts) } else { Err(format!("left open: {open:?}")) }
}

fn drawn(rows: &[(&str, Style)], width: u16) -> String {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, rows.len() as u16));
    for (y, (text, style)) in (0..).zip(rows) {
        buf.set_string(0, y, text, *style);
    }
    let document = svg(&buf, &Palette::dark());
    well_formed(&document).unwrap();
    document
}

#[test]
fn whole_screens_become_small_well_formed_pictures() {
    for (size, most) in [((80, 24), 60_000), ((120, 40), 150_000), ((200, 60), 300_000)] {
        for theme in [PLAIN, ASCII, *COLOR] {
            let buf = draw(&running(theme, size, Job::default()), size);
            let document = svg(&buf, &theme.palette);
            let texts = well_formed(&document).unwrap().concat();
            assert!(document.len() < most, "{size:?}: {} bytes", document.len());
            assert!(texts.contains("DATA LOADER") && texts.contains("Raise num_workers"), "{texts}");
            if let Ok(folder) = std::env::var("TRAINMON_SVG") {
                std::fs::write(
                    format!("{folder}/{}x{}{:?}{}.svg", size.0, size.1, theme.depth, theme.ascii),
                    document,
                )
                .unwrap();
            }
        }
    }
}

#[test]
fn runs_have_their_place_length_and_color() {
    let orange = Style::new().fg(Color::Indexed(178)).add_modifier(Modifier::BOLD);
    let document = drawn(&[("ab cd   ef", orange)], 12);
    assert!(document.contains("<g fill=\"#d7af00\" font-weight=\"bold\">"), "{document}");
    assert!(document.contains("<text x=\"0\" y=\"12\" textLength=\"40\">ab cd</text>"), "{document}");
    assert!(document.contains("<text x=\"64\" y=\"12\" textLength=\"16\">ef</text>"), "{document}");
    assert!(document.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"96\" height=\"16\""));
}

#[test]
fn reversed_dim_and_named_colors_are_what_a_terminal_shows() {
    let document = drawn(&[("x", Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED))], 1);
    assert!(document.contains("<path fill=\"#cd0000\" d=\"M0 0h8v16h-8z\"/>"), "{document}");
    assert!(document.contains("<g fill=\"#121212\">"), "{document}");
    let dim = drawn(
        &[("x", Style::new().fg(Color::Rgb(255, 255, 255)).bg(Color::Rgb(0, 0, 0)).add_modifier(Modifier::DIM))],
        1,
    );
    assert!(dim.contains("<g fill=\"#9f9f9f\">"), "{dim}");
    assert!(well_formed(&drawn(&[("secret", Style::new().add_modifier(Modifier::HIDDEN))], 9)).unwrap().is_empty());
}

#[test]
fn charts_are_shapes_and_need_no_font() {
    let document = drawn(&[("██▒⣿⣿⣀", Style::new().fg(Color::White)), ("│──", Style::new())], 6);
    assert!(!document.contains("<text"), "{document}");
    assert!(document.contains("M0 0h16v16h-16z"), "two full blocks are one rectangle: {document}");
    // Five cells' worth of dots in three lines of two cells, and a line of all three.
    assert!(document.contains("d=\"M25 2h14M25 6h14M25 10h14M25 14h22\""), "{document}");
}

#[test]
fn characters_of_other_fonts_keep_their_columns() {
    let document = drawn(&[("a日b→→c", Style::new())], 10);
    for part in ["x=\"0\" y=\"12\" textLength=\"8\">a<", "x=\"8\" y=\"12\" textLength=\"16\">日<"] {
        assert!(document.contains(part), "{document}");
    }
    assert!(document.contains("x=\"24\" y=\"12\" textLength=\"8\">b<"), "{document}");
    assert!(document.contains("x=\"32\" y=\"12\" textLength=\"16\">→→<"), "{document}");
    assert!(document.contains("x=\"48\" y=\"12\" textLength=\"8\">c<"), "{document}");
}

#[test]
fn hostile_text_stays_text() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 60, 2));
    let text = "</text><script>alert(\"&lt;\")</script>]]> &amp; 'x' <!--";
    buf.set_string(0, 0, text, Style::new());
    for (x, symbol) in [(0, "\u{1b}[31m"), (2, "\0"), (4, "\u{FFFE}"), (6, "\u{202E}x"), (8, "<b>"), (59, "日本")] {
        buf.cell_mut((x, 1)).unwrap().set_symbol(symbol);
    }
    let document = svg(&buf, &Palette::light());
    let texts = well_formed(&document).unwrap();
    assert_eq!(texts[0], text);
    assert!(!document.contains("<script") && !document.contains('\u{202E}'));
}

fn style() -> impl Strategy<Value = Style> {
    let color = || {
        prop_oneof![
            Just(Color::Reset),
            Just(Color::LightCyan),
            any::<u8>().prop_map(Color::Indexed),
            any::<(u8, u8, u8)>().prop_map(|(r, g, b)| Color::Rgb(r, g, b)),
        ]
    };
    (color(), color(), any::<u16>())
        .prop_map(|(fg, bg, bits)| Style::new().fg(fg).bg(bg).add_modifier(Modifier::from_bits_truncate(bits)))
}

proptest! {
    #[test]
    fn any_buffer_becomes_a_well_formed_picture(
        width in 0u16..12,
        cells in prop::collection::vec(("\\PC{0,3}|[<>&\"'\\x00-\\x20\u{85}]{1,2}|[█▒⣿╭日]", style()), 0..60),
    ) {
        let height = if width == 0 { 3 } else { (cells.len() as u16).div_ceil(width) };
        let mut buf = Buffer::empty(Rect::new(3, 2, width, height));
        for (cell, (symbol, style)) in buf.content.iter_mut().zip(&cells) {
            cell.set_symbol(symbol).set_style(*style);
        }
        let document = svg(&buf, &Palette::dark());
        let texts = well_formed(&document);
        prop_assert!(texts.is_ok(), "{texts:?} in {document}");
        // Nothing reaches beyond the right edge.
        for part in document.split("<text x=\"").skip(1) {
            let number = |text: &str| text.split('"').next().and_then(|n| n.parse::<u32>().ok());
            let x = number(part).unwrap_or(0);
            let length = part.split("textLength=\"").nth(1).and_then(number).unwrap_or(0);
            prop_assert!(length > 0 && x + length <= u32::from(width) * 8, "{x}+{length} of {width}");
        }
    }
}
