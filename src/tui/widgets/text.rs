//! Text into cells: from the left, up to the right, in pieces that no row breaks, and as lines that are wrapped.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::text::{fit, wrap};
use crate::tui::theme::Theme;

/// A text that stays on one row.
pub type Piece = (String, Style);

/// Writes `text` from `x` to before `end` on row `y` and returns where it stopped.
pub fn write(buf: &mut Buffer, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let end = end.min(buf.area.right());
    if x >= end || y < buf.area.top() || y >= buf.area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(end - x), style).0
}

/// Writes `text` so that it ends before `end`, cutting it at `start`; returns where it begins.
pub fn write_right(buf: &mut Buffer, start: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let text = fit(text, usize::from(end.saturating_sub(start)));
    let x = end.saturating_sub(cells(&text)).max(start);
    write(buf, x, y, end, &text, style);
    x
}

/// Writes `text` into the first row of `area`, an ellipsis where it is cut; returns where it stopped.
pub fn write_fit(buf: &mut Buffer, area: Rect, text: &str, style: Style) -> u16 {
    write(buf, area.x, area.y, area.right(), &fit(text, usize::from(area.width)), style)
}

/// Width of a text in cells.
pub fn cells(text: &str) -> u16 {
    u16::try_from(unicode_width::UnicodeWidthStr::width(text)).unwrap_or(u16::MAX)
}

/// A length as terminals count, the largest for what is larger.
pub fn count(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Cell and row of each piece: on the row of the one before it, `gap` cells behind that, or on the next.
fn places(width: u16, gap: u16, pieces: &[Piece]) -> impl Iterator<Item = (u16, u16)> {
    let (mut x, mut row) = (0u16, 0u16);
    pieces.iter().map(move |(text, _)| {
        let cells = cells(text);
        if x > 0 && x.saturating_add(cells) > width {
            (x, row) = (0, row.saturating_add(1));
        }
        let here = (x, row);
        x = x.saturating_add(cells).saturating_add(gap);
        here
    })
}

/// Rows that pieces need in `width` cells, with this separator between two on one row.
pub fn piece_rows(width: u16, separator: &str, pieces: &[Piece]) -> u16 {
    places(width, cells(separator), pieces).last().map_or(0, |(_, row)| row.saturating_add(1))
}

/// Sets pieces one after the other into the rows of `area`, as many as fit.
pub fn write_pieces(buf: &mut Buffer, area: Rect, separator: &str, pieces: &[Piece]) {
    let mark = separator.trim_end();
    let mut end = area.x;
    for ((x, row), (text, style)) in places(area.width, cells(separator), pieces).zip(pieces) {
        if row >= area.height {
            return;
        }
        let y = area.y + row;
        if x > 0 && !mark.is_empty() {
            write(buf, end, y, area.right(), mark, *style);
        }
        end = write(buf, area.x + x, y, area.right(), text, *style);
    }
}

/// Draws what `area` has rows for.
pub fn write_lines(buf: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        buf.set_line(area.x, y, line, area.width);
    }
}

/// Lines of text that is being set.
#[derive(Debug, Clone)]
pub struct Text {
    /// The lines so far.
    pub lines: Vec<Line<'static>>,
    /// Cells of a line.
    pub width: usize,
    /// How to draw.
    pub theme: Theme,
}

impl Text {
    /// No lines yet, of so many cells.
    pub fn new(width: u16, theme: Theme) -> Self {
        Self { lines: Vec::new(), width: usize::from(width), theme }
    }

    /// Adds the name of a section; a blank line keeps it off the one before.
    pub fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.line(text, self.theme.strong());
    }

    /// Adds the headings of a table.
    pub fn table_heading(&mut self, text: &str) {
        self.line(&format!("{text:<0$}", self.width), self.theme.heading());
    }

    /// Adds one line; what is too long is cut.
    pub fn line(&mut self, text: &str, style: Style) {
        self.lines.push(Line::styled(text.to_owned(), style));
    }

    /// Adds a line of several styles.
    pub fn spans<const N: usize>(&mut self, spans: [(String, Style); N]) {
        self.lines.push(Line::from_iter(spans.map(|(text, style)| Span::styled(text, style))));
    }

    /// Adds text that is wrapped behind `indent` blanks, its first row led by `lead`.
    pub fn wrapped(&mut self, lead: &str, indent: usize, text: &str, style: Style) {
        let mut lead = format!("{lead:<indent$}");
        let mut rows = wrap(text, self.width.saturating_sub(indent).max(8));
        if rows.is_empty() {
            rows.push(String::new());
        }
        for row in rows {
            self.line(&format!("{lead}{row}"), style);
            lead = " ".repeat(indent);
        }
    }

    /// Adds text that may take at most so many rows.
    pub fn at_most(&mut self, rows: usize, text: &str, style: Style) {
        let wrapped = wrap(text, self.width);
        for (nth, row) in wrapped.iter().take(rows).enumerate() {
            let is_cut = nth + 1 == rows && wrapped.len() > rows;
            let row = if is_cut { fit(&format!("{row} …"), self.width.saturating_sub(1)) } else { row.clone() };
            self.line(&row, style);
        }
    }

    /// Adds what is missing, and the command that mends it.
    pub fn missing(&mut self, what: &str, mend: Option<&str>) {
        self.wrapped("", 0, what, Style::new());
        if let Some(mend) = mend {
            self.wrapped("  → ", 4, mend, self.theme.advice());
        }
    }

    /// Adds pieces, this separator between two on one line.
    pub fn pieces(&mut self, separator: &str, pieces: &[Piece]) {
        let mark = separator.trim_end();
        let width = count(self.width);
        for ((x, _), (text, style)) in places(width, cells(separator), pieces).zip(pieces) {
            let text = Span::styled(text.clone(), *style);
            match self.lines.last_mut().filter(|_| x > 0) {
                Some(line) => {
                    let gap = " ".repeat(separator.len() - mark.len());
                    line.extend([Span::styled(mark.to_owned(), *style), Span::raw(gap), text]);
                }
                None => self.lines.push(Line::from(text)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_break_between_each_other_and_say_how_many_rows_they_need() {
        let pieces: Vec<_> = ["one", "two", "three"].map(|text| (text.to_owned(), Style::new())).to_vec();
        assert_eq!([8, 7, 5, 15].map(|width| piece_rows(width, ", ", &pieces)), [2, 3, 3, 1]);
        let area = Rect::new(0, 0, 8, 2);
        let expected = Buffer::with_lines(["one, two", "three   "]);
        let mut buf = Buffer::empty(area);
        write_pieces(&mut buf, area, ", ", &pieces);
        assert_eq!(buf, expected);
        let mut text = Text::new(8, Theme::plain(false));
        text.pieces(", ", &pieces);
        let mut buf = Buffer::empty(area);
        write_lines(&mut buf, area, &text.lines);
        assert_eq!(buf, expected);
    }
}
