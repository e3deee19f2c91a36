//! A table of a profile: its columns are as wide as their widest cell, and the last one takes the rest.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, StatefulWidget, Table, TableState};
use unicode_width::UnicodeWidthStr;

use super::gpus::look;
use crate::theme::Theme;
use crate::widgets::{Extent, cells};
use trainmon_base::text::{fit, fit_before, sanitize};
use trainmon_profiles::account::{IdleReason, ProfileAccount};
use trainmon_profiles::drawn::SliceKind;
use trainmon_views::profile_tables::TableName;
use trainmon_views::section::{Column, Section, SectionBody};

/// Blanks between two columns.
const GAP: u16 = 2;
/// Cells that a name keeps beside its place in the code.
const LEAST_NAME: usize = 12;

/// A table with its selected row.
#[derive(Debug, Clone)]
pub struct ShownTable {
    pub name: TableName,
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    /// The names in the profile, row by row, where the shown ones are shorter.
    pub in_full: Vec<String>,
    /// Row by row, a part of the GPU's time: its mark in the bar stands for its words.
    marks: Vec<Option<SliceKind>>,
    /// What its numbers mean.
    pub notes: Vec<String>,
    /// Rows that there are beyond these.
    more: usize,
    pub selected: usize,
    /// Width of each column.
    widths: Vec<u16>,
}

impl ShownTable {
    /// The table of a section; `None` if it has no rows.
    pub fn new((name, section): (TableName, Section), account: &ProfileAccount) -> Option<Self> {
        let Section { title, body: SectionBody::Table(columns, rows), more, in_full, notes, .. } = section else {
            return None;
        };
        if rows.is_empty() {
            return None;
        }
        let widest = |(place, column): (usize, &Column)| {
            let values = rows.iter().filter_map(|row| row.get(place)).map(|value| cells(&sanitize(value)));
            values.max().unwrap_or(0).max(cells(column.name))
        };
        let widths = columns.iter().enumerate().map(widest).collect();
        let marks = match name {
            TableName::Idle => account.idle_at.iter().map(|row| row.reason.map(IdleReason::drawn)).collect(),
            _ => Vec::new(),
        };
        Some(Self { name, title, columns, rows, in_full, marks, notes, more, selected: 0, widths })
    }

    /// Selects a row, or the last one if there are fewer.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
    }

    /// Rows that there are, those that are left out included.
    pub fn count(&self) -> usize {
        self.rows.len() + self.more
    }

    /// Which row is selected: `3/67`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.selected + 1, self.count())
    }

    /// Draws headings and rows, and marks the selected row if the table is `current`.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, current: bool, top: usize, theme: Theme) -> Extent {
        let widths = self.widths.iter().map(|width| Constraint::Length(*width));
        let widths: Vec<_> = widths.take(self.columns.len().saturating_sub(1)).chain([Constraint::Fill(1)]).collect();
        let places = Layout::horizontal(&widths).spacing(GAP).split(area);
        let room: Vec<_> = places.iter().map(|place| place.width).collect();
        let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
        // Where rows have a mark, the heading keeps its cell.
        let blank = if self.marks.is_empty() { None } else { Some((Span::raw(" "), "")) };
        let header = self.row(&names, &room, blank).style(theme.heading());
        let extent = Extent { top, visible: usize::from(area.height.saturating_sub(1)), total: self.rows.len() };
        let extent = if current { extent.showing(self.selected) } else { Extent { top: 0, ..extent } };
        let mark = |kind: &SliceKind| {
            let look = look(*kind);
            (Span::styled(theme.glyph(look).to_string(), theme.style(look)), kind.words())
        };
        let rows = self.rows.iter().enumerate().skip(extent.top).take(extent.visible);
        let rows = rows
            .map(|(place, values)| self.row(values, &room, self.marks.get(place).and_then(Option::as_ref).map(mark)));
        let selected = if current { self.selected.checked_sub(extent.top) } else { None };
        let table = Table::new(rows, widths).column_spacing(GAP).header(header).row_highlight_style(theme.selected());
        StatefulWidget::render(table, area, buf, &mut TableState::new().with_selected(selected));
        extent
    }

    /// A row of columns of so many cells; `mark` is before the last value, in place of its words.
    fn row<'v>(&self, values: &'v [impl AsRef<str>], room: &[u16], mark: Option<(Span<'v>, &str)>) -> Row<'v> {
        let last = self.columns.len().saturating_sub(1);
        let columns = self.columns.iter().zip(room).zip(values).enumerate();
        Row::from_iter(columns.map(|(place, ((column, room), value))| {
            let value = value.as_ref();
            match &mark {
                Some((glyph, words)) if place == last => {
                    let value = value.strip_prefix(words).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(value);
                    let value = shortened(value, room.saturating_sub(2));
                    Cell::from(Line::from_iter([glyph.clone(), Span::raw(" "), Span::raw(value)]))
                }
                None if place == last => Cell::from(shortened(value, *room)),
                _ if column.right => Cell::from(Line::from(value).right_aligned()),
                _ => Cell::from(fit(value, usize::from(*room))),
            }
        }))
    }
}

/// `cudaMemcpyAsync in aten::to, train.py:41 (step)` in so many cells: what goes first is the function behind the place, then the
/// part of a call's name that does not fit, then what says less of call and operator. The place stays.
pub fn shortened(value: &str, width: u16) -> String {
    let width = usize::from(width);
    if value.width() <= width {
        return fit(value, width);
    }
    let function = if value.ends_with(')') && value.contains(".py:") { value.rfind(" (") } else { None };
    let value = function.and_then(|at| value.get(..at)).unwrap_or(value);
    // The shapes of an operator have commas as well.
    let place = value.rsplit_once(", ").filter(|(_, place)| place.contains(':'));
    let (name, place) = place.unwrap_or((value, ""));
    let cut = |text: &str| fit_before(text, if place.width() + LEAST_NAME <= width { place } else { "" }, width);
    let (Some((first, within)), true) = (name.split_once(" in "), value.width() > width) else { return cut(value) };
    let with_place = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{name}, {place}") };
    let is_call = ["cu", "hip"].iter().any(|begin| first.starts_with(begin));
    let rest = format!(" in {}", with_place(within));
    match width.saturating_sub(rest.width()) {
        room @ LEAST_NAME.. if is_call => fit(first, room) + &sanitize(&rest),
        _ => cut(&with_place(if is_call { within } else { first })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_in_the_code_is_what_stays() {
        let call = "cudaStreamSynchronize in aten::item, train.py:41 (step)";
        for (width, expected) in [
            (60, call),
            (50, "cudaStreamSynchronize in aten::item, train.py:41"),
            (40, "cudaStreamSy… in aten::item, train.py:41"),
            (34, "aten::item, train.py:41"),
            (20, "aten::item, train.p…"),
            (0, ""),
        ] {
            assert_eq!(shortened(call, width), expected, "{width}");
        }
        assert_eq!(shortened("aten::to in enumerate(DataLoader), train.py:42", 40), "aten::to, train.py:42");
        assert_eq!(shortened("cudaMemcpyAsync in aten::to", 14), "aten::to");
        assert_eq!(shortened("aten::mm [16,512]×[512,512], [0] f32", 20), "aten::mm [16,512]×[…");
        assert_eq!(shortened("gemm bf16 (cublas)", 12), "gemm bf16 (…");
    }
}
