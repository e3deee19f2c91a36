//! A panel: a named part of a page. If there is room, it has a frame with its name, value and keys in the edges;
//! otherwise a rule above it, so that its content has the full width.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::text::{Piece, cells, write, write_fit};
use crate::theme::Theme;
use trainmon_base::text::fit;

/// The smallest screen whose panels have frames, columns and rows.
const FRAMED: (u16, u16) = (100, 30);
/// Separator between two pieces of a value.
const BETWEEN: &str = " · ";

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

    /// Draws the edges into `area` and returns what is left for the content.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, theme: Theme) -> Rect {
        let area = area.intersection(buf.area);
        let edge = self.edge.unwrap_or(theme.edge());
        if !framed(buf.area) {
            let (top, content) = (Rect { height: area.height.min(1), ..area }, area);
            self.rule(buf, top, edge);
            return Rect { y: area.y + top.height, height: area.height - top.height, ..content };
        }
        if area.width < 4 || area.height < 2 {
            return Rect { height: 0, ..area };
        }
        let (left, right, bottom) = (area.x, area.right() - 1, area.bottom() - 1);
        for y in area.y + 1..bottom {
            write(buf, left, y, area.right(), "│", edge);
            write(buf, right, y, area.right(), "│", edge);
        }
        for (y, corners) in [(area.y, "╭╮"), (bottom, "╰╯")] {
            let line = "─".repeat(usize::from(area.width) - 2);
            let (first, last) = corners.split_at("╭".len());
            write(buf, left, y, area.right(), &format!("{first}{line}{last}"), edge);
        }
        let x = label(buf, Rect::new(left + 2, area.y, area.width.saturating_sub(4), 1), &self.name);
        self.values(buf, x + 1, area.y, right - 1, edge);
        if !self.keys.is_empty() && cells(&self.keys) + 6 <= area.width {
            let x = right - 2 - cells(&self.keys);
            write(buf, x - 1, bottom, right, &format!(" {} ", self.keys), over(theme.dim()));
        }
        Rect { x: left + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
    }

    /// A rule with name and value: `── name ── value ────`.
    fn rule(&self, buf: &mut Buffer, area: Rect, edge: Style) {
        if area.is_empty() {
            return;
        }
        write(buf, area.x, area.y, area.right(), &"─".repeat(usize::from(area.width)), edge);
        let x = label(buf, Rect { x: area.x + 2, width: area.width.saturating_sub(3), ..area }, &self.name);
        let values = self.fitting(area.right().saturating_sub(x + 5));
        if values.is_empty() {
            return;
        }
        let mut x = write(buf, x + 2, area.y, area.right(), " ", edge);
        for (place, (text, style)) in values.iter().enumerate() {
            x = write(buf, x, area.y, area.right(), if place == 0 { "" } else { BETWEEN }, edge);
            x = write(buf, x, area.y, area.right(), text, over(*style));
        }
        write(buf, x, area.y, area.right(), " ", edge);
    }

    /// The values that fit into so many cells; the first one is cut if necessary.
    fn fitting(&self, room: u16) -> Vec<Piece> {
        let mut used = 0;
        let mut fitting = Vec::new();
        for (text, style) in &self.value {
            let more = cells(text) + if fitting.is_empty() { 0 } else { cells(BETWEEN) };
            if used + more > room {
                if fitting.is_empty() && room >= 8 {
                    fitting.push((fit(text, usize::from(room)), *style));
                }
                break;
            }
            used += more;
            fitting.push((text.clone(), *style));
        }
        fitting
    }

    /// The values, right-aligned between `start` and `end`.
    fn values(&self, buf: &mut Buffer, start: u16, y: u16, end: u16, edge: Style) {
        let values = self.fitting(end.saturating_sub(start + 3));
        let width: u16 = values.iter().map(|(text, _)| cells(text)).sum::<u16>()
            + cells(BETWEEN) * u16::try_from(values.len().saturating_sub(1)).unwrap_or(0);
        if values.is_empty() {
            return;
        }
        let mut x = write(buf, end - width - 2, y, end, " ", Style::new());
        for (place, (text, style)) in values.iter().enumerate() {
            x = write(buf, x, y, end, if place == 0 { "" } else { BETWEEN }, edge);
            x = write(buf, x, y, end, text, over(*style));
        }
        write(buf, x, y, end, " ", Style::new());
    }
}

/// Writes a name with a blank on each side; returns where it ends.
fn label(buf: &mut Buffer, area: Rect, (name, style): &Piece) -> u16 {
    if name.is_empty() || area.width < 3 {
        return area.x;
    }
    write(buf, area.x, area.y, area.right(), " ", Style::new());
    let x = write_fit(buf, Rect { x: area.x + 1, width: area.width - 2, ..area }, name, over(*style));
    write(buf, x, area.y, area.right(), " ", Style::new())
}

/// A style that inherits nothing from the edge below it.
fn over(style: Style) -> Style {
    Style::reset().patch(style)
}
