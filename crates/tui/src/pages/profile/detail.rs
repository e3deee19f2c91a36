//! The selected row in full: each value with its heading, what was cut, and for a kernel its name in the profile.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::table::ShownTable;
use crate::theme::Theme;
use crate::widgets::{Drawn, Piece, PopupBox};
use trainmon_base::text::wrap;

/// Maximum width: longer lines are hard to read.
const WIDTH: u16 = 100;

/// Draws the popup from its line `top` on.
pub fn draw(buf: &mut Buffer, table: &ShownTable, theme: Theme, top: usize, drawn: &mut Drawn) {
    let Some(row) = table.rows.get(table.selected) else { return };
    let width = buf.area.width.saturating_sub(4).min(WIDTH);
    let title = format!(" {} {} ", table.title, table.place());
    let lines = lines(table, row, usize::from(width.saturating_sub(4)), theme);
    PopupBox { title: &title, below: "", width }.scrolled(buf, &lines, top, drawn, theme);
}

/// What the row is of, its numbers, the name in the profile, and what the table's numbers mean.
fn lines(table: &ShownTable, row: &[String], width: usize, theme: Theme) -> Vec<Piece> {
    let mut lines: Vec<Piece> = Vec::new();
    let name = row.last().map_or("", String::as_str);
    lines.extend(wrap(name, width).into_iter().map(|line| (line, theme.strong())));
    lines.push((String::new(), Style::new()));
    let values = table.columns.iter().zip(row).take(row.len().saturating_sub(1));
    let widest = table.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or_default();
    for (column, value) in values {
        lines.push((format!("{:<widest$}  {value}", column.name), Style::new()));
    }
    let mut below = |text: &str, style: Style| {
        let wrapped = if text.is_empty() { vec![String::new()] } else { wrap(text, width) };
        lines.extend(wrapped.into_iter().map(|line| (line, style)));
    };
    if let Some(raw) = table.in_full.get(table.selected) {
        below("", Style::new());
        below("In the profile:", theme.dim());
        below(raw, Style::new());
    }
    for note in &table.notes {
        below("", theme.dim());
        below(note, theme.dim());
    }
    lines
}
