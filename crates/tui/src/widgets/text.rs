//! Text in cells: left-aligned, right-aligned, in pieces that are never split across rows, and as wrapped lines.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{self, Line, Span};
use ratatui::widgets::{Clear, Widget};

use super::drawn::{Drawn, Hit};
use crate::theme::Theme;
use trainmon_base::text::{fit, wrap, wrap_hanging};

/// A text that stays on one row.
pub type Piece = (String, Style);

/// Writes all of `notice`, wrapped: its last line into the first row of `area`, the others into the rows above.
pub fn write_up(buf: &mut Buffer, area: Rect, notice: &str, style: Style) {
    let lines = wrap(notice, usize::from(area.width));
    let rows = count(lines.len()).min(area.y + 1 - buf.area.y);
    let place = Rect { y: area.y + 1 - rows, height: rows, ..area };
    Clear.render(place, buf);
    let shown = lines.into_iter().rev().take(usize::from(rows)).rev();
    text::Text::from_iter(shown.map(|line| Line::from(Span::styled(line, style)))).render(place, buf);
}

/// Width of a text in cells.
pub fn cells(text: &str) -> u16 {
    u16::try_from(unicode_width::UnicodeWidthStr::width(text)).unwrap_or(u16::MAX)
}

/// A length as terminals count it; larger ones become the maximum.
pub fn count(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Pieces one after the other in lines of `width` cells, with this separator between two on a line.
pub fn piece_lines(width: u16, separator: &str, pieces: &[Piece]) -> Vec<Line<'static>> {
    let (mark, gap) = separator.split_at(separator.trim_end().len());
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut end = 0u16;
    for (text, style) in pieces {
        let (span, cells, before) = (Span::styled(text.clone(), *style), cells(text), cells(separator));
        end = end.saturating_add(before).saturating_add(cells);
        match lines.last_mut() {
            Some(line) if end <= width => {
                line.extend([Span::styled(mark.to_owned(), *style), Span::raw(gap.to_owned()), span])
            }
            _ => {
                lines.push(Line::from(span));
                end = cells;
            }
        }
    }
    lines
}

/// Draws as many lines as `area` has rows.
pub fn write_lines(buf: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (line, row) in lines.iter().zip(area.rows()) {
        buf.set_line(row.x, row.y, line, row.width);
    }
}

/// Text that is being laid out in lines.
#[derive(Debug, Clone)]
pub struct Text {
    /// The lines so far.
    pub lines: Vec<Line<'static>>,
    /// Width of a line.
    pub width: usize,
    /// How to draw.
    pub theme: Theme,
}

impl Text {
    /// An empty text of so many cells.
    pub fn new(width: u16, theme: Theme) -> Self {
        Self { lines: Vec::new(), width: usize::from(width), theme }
    }

    /// Adds the name of a section on a rule, with a blank line before it.
    pub fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        let text = fit(text, self.width.saturating_sub(6));
        let rest = self.width.saturating_sub(usize::from(cells(&text)) + 4);
        self.spans([
            ("── ".to_owned(), self.theme.edge()),
            (text, self.theme.strong()),
            (format!(" {}", "─".repeat(rest)), self.theme.edge()),
        ]);
    }

    /// Adds the headings of a table.
    pub fn table_heading(&mut self, text: &str) {
        self.line(&format!("{text:<0$}", self.width), self.theme.heading());
    }

    /// Adds one line; it is cut if it is too long.
    pub fn line(&mut self, text: &str, style: Style) {
        self.lines.push(Line::styled(text.to_owned(), style));
    }

    /// Adds a line of several styles.
    pub fn spans<const N: usize>(&mut self, spans: [(String, Style); N]) {
        self.lines.push(Line::from_iter(spans.map(|(text, style)| Span::styled(text, style))));
    }

    /// Adds text that is wrapped after `indent` blanks; its first row starts with `lead`.
    pub fn wrapped(&mut self, lead: &str, indent: usize, text: &str, style: Style) {
        for row in wrap_hanging(&format!("{lead:<indent$}"), text, self.width) {
            self.line(&row, style);
        }
    }

    /// Adds text on so many rows at most.
    pub fn at_most(&mut self, rows: usize, text: &str, style: Style) {
        let wrapped = wrap(text, self.width);
        for (nth, row) in wrapped.iter().take(rows).enumerate() {
            let is_cut = nth + 1 == rows && wrapped.len() > rows;
            let row = if is_cut { fit(&format!("{row} …"), self.width.saturating_sub(1)) } else { row.clone() };
            self.line(&row, style);
        }
    }

    /// Adds what is missing, and the command that fixes it.
    pub fn missing(&mut self, what: &str, fix: Option<&str>) {
        self.wrapped("", 0, what, Style::new());
        if let Some(fix) = fix {
            self.wrapped("  → ", 4, fix, self.theme.strong());
        }
    }

    /// Adds pieces, with this separator between two on a line.
    pub fn pieces(&mut self, separator: &str, pieces: &[Piece]) {
        self.lines.extend(piece_lines(count(self.width), separator, pieces));
    }
}

/// Texts side by side, each from its column on.
pub fn side_by_side(columns: impl IntoIterator<Item = (u16, Vec<Line<'static>>)>) -> Vec<Line<'static>> {
    let mut all: Vec<Line<'static>> = Vec::new();
    for (x, lines) in columns {
        all.resize(all.len().max(lines.len()), Line::default());
        for (line, beside) in all.iter_mut().zip(lines) {
            let blanks = usize::from(x).saturating_sub(line.width());
            line.push_span(Span::raw(" ".repeat(blanks)));
            line.extend(
                beside.spans.into_iter().map(|span| Span::styled(span.content, beside.style.patch(span.style))),
            );
        }
    }
    all
}

/// Draws tabs with so many blanks between them, as many as fit, marks the current one, and notes what a click hits; returns
/// what is left.
pub fn tabs(
    buf: &mut Buffer,
    area: Rect,
    tabs: impl IntoIterator<Item = (String, bool, Hit)>,
    gap: u16,
    theme: Theme,
    drawn: &mut Drawn,
) -> Rect {
    let mut rest = area;
    for (word, is_current, hit) in tabs {
        let Some(left) = rest.width.checked_sub(cells(&word)) else { break };
        let lengths = [cells(&word), gap.min(left)].map(Constraint::Length);
        let place;
        [place, _, rest] = Layout::horizontal(lengths.into_iter().chain([Constraint::Fill(1)])).areas(rest);
        Span::styled(word, if is_current { theme.bar().patch(theme.strong()) } else { theme.dim() })
            .render(place, buf);
        drawn.hits.push((place, hit));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_break_between_each_other_and_say_how_many_rows_they_need() {
        let pieces: Vec<_> = ["one", "two", "three"].map(|text| (text.to_owned(), Style::new())).to_vec();
        assert_eq!([8, 7, 5, 15].map(|width| piece_lines(width, ", ", &pieces).len()), [2, 3, 3, 1]);
        let area = Rect::new(0, 0, 8, 2);
        let expected = Buffer::with_lines(["one, two", "three   "]);
        let mut text = Text::new(8, Theme::plain(false));
        text.pieces(", ", &pieces);
        let mut buf = Buffer::empty(area);
        write_lines(&mut buf, area, &text.lines);
        assert_eq!(buf, expected);
    }
}
