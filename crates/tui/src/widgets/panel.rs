//! A panel: a named part of a page. If there is room, it has a frame with its name, value and keys in the edges;
//! otherwise a rule above it, so that its content has the full width.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Widget};

use super::text::{Piece, cells};
use crate::theme::Theme;
use trainmon_base::text::fit;

/// The smallest screen whose panels have frames, columns and rows.
const FRAMED: (u16, u16) = (100, 30);
/// Separator between two pieces of a value.
const BETWEEN: &str = " · ";
/// Cells around name and values.
const EDGES: u16 = 10;
/// Fewest cells of a value that is cut.
const LEAST_VALUE: u16 = 8;

/// Whether panels on a screen of this size have frames.
pub fn framed(screen: Rect) -> bool {
    screen.width >= FRAMED.0 && screen.height >= FRAMED.1
}

/// Rows that a panel needs in addition to its content, on a screen of this size.
pub fn edges(screen: Rect) -> u16 {
    if framed(screen) { 2 } else { 1 }
}

/// The text in the edges of a panel.
#[derive(Debug, Clone, Default)]
pub struct Panel {
    /// Its name, as a heading.
    pub name: Piece,
    /// Its current values, the most useful first; those that do not fit are left out.
    pub value: Vec<Piece>,
    /// The keys that do something here.
    pub keys: String,
    /// The color of the frame, if it differs from that of other frames.
    pub edge: Option<Style>,
}

impl Panel {
    /// A panel of this name.
    pub fn new(name: impl Into<String>, style: Style) -> Self {
        Self { name: (name.into(), style), ..Self::default() }
    }

    /// The same with one more value.
    pub fn with(mut self, value: impl Into<String>, style: Style) -> Self {
        self.value.push((value.into(), style));
        self
    }

    /// Cells for its name and all of its values.
    pub fn width(&self) -> u16 {
        let values = self.value.iter().map(|(text, _)| cells(text) + cells(BETWEEN));
        values.sum::<u16>() + cells(&self.name.0) + EDGES
    }

    /// Draws the edges into `area` and returns what is left for the content.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, theme: Theme) -> Rect {
        let (framed, edge) = (framed(buf.area), self.edge.unwrap_or(theme.edge()));
        let (name, style) = &self.name;
        let name = fit(name, usize::from(area.width.saturating_sub(6)));
        let line = |cells: usize| Span::styled("─".repeat(cells), edge);
        let values = self.values(area.width.saturating_sub(cells(&name) + EDGES - u16::from(!framed)), edge);
        // What is in the edges inherits nothing from them.
        let block = Block::new().border_type(BorderType::Rounded).border_style(edge).title_style(Style::reset());
        let named = [Span::raw(" "), Span::styled(name, *style), Span::raw(" ")];
        let block = if framed {
            let keys = if cells(&self.keys) + 6 <= area.width { self.keys.as_str() } else { "" };
            let at_right = |spans: Vec<Span<'static>>| {
                let end = if spans.is_empty() { line(0) } else { line(1) };
                Line::from_iter(spans.into_iter().chain([end])).right_aligned()
            };
            let keys =
                if keys.is_empty() { Vec::new() } else { vec![Span::styled(format!(" {keys} "), theme.dim())] };
            let named = Line::from_iter([line(1)].into_iter().chain(named));
            block.borders(Borders::ALL).title_top(named).title_top(at_right(values)).title_bottom(at_right(keys))
        } else {
            let between = line(if values.is_empty() { 0 } else { 2 });
            let spans = [line(2)].into_iter().chain(named).chain([between]).chain(values);
            block.borders(Borders::TOP).title_top(Line::from_iter(spans))
        };
        (&block).render(area, buf);
        block.inner(area)
    }

    /// The values that fit into so many cells, with a blank on each side; the first one is cut if necessary.
    fn values(&self, room: u16, edge: Style) -> Vec<Span<'static>> {
        let mut used = 0;
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (text, style) in &self.value {
            let is_first = spans.is_empty();
            let more = cells(text) + if is_first { 0 } else { cells(BETWEEN) };
            if used + more > room && !(is_first && room >= LEAST_VALUE) {
                break;
            }
            spans.push(if is_first { Span::raw(" ") } else { Span::styled(BETWEEN, edge) });
            spans.push(Span::styled(fit(text, usize::from(room - used)), *style));
            used += more.min(room);
        }
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans
    }
}
