//! A timeline with its name, its value and its axis, and the time axis below several of them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::scene::Scene;
use super::text::{cells, write, write_fit, write_right};
use crate::diagnosis::verdict::Class;
use crate::history::timeline::TimelinePoint;
use crate::rates::Frame;
use crate::tui::charts::{self, ChartColumns, MAX_CELLS};
use crate::tui::theme::Theme;
use crate::tui::{format, labels};

/// A stretch of the shared time axis: text on the left, axis labels, the chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Band {
    /// Name and numbers.
    pub text: Rect,
    /// Labels of the value axis.
    pub axis: Rect,
    /// The chart.
    pub chart: Rect,
}

impl Band {
    /// Width of the axis labels, one blank included.
    const AXIS: u16 = 5;

    /// Cuts full-width rows into the columns that all pages have in common.
    pub fn new(rect: Rect) -> Self {
        let text = match rect.width {
            0..100 => 20,
            100..160 => 27,
            _ => 34,
        };
        let text = text.min(rect.width);
        let axis = Self::AXIS.min(rect.width - text);
        Self {
            // A blank keeps the text off the axis labels.
            text: Rect { width: text.saturating_sub(1), ..rect },
            axis: Rect { x: rect.x + text, width: axis, ..rect },
            chart: beside(rect, rect.x + text + axis),
        }
    }
}

/// The part of some rows where timelines stand beside text, from column `x` on.
pub fn beside(rows: Rect, x: u16) -> Rect {
    Rect { x, width: rows.right().saturating_sub(x).min(MAX_CELLS as u16), ..rows }
}

/// Writes name and, `indent` cells further on, value; returns where they end.
pub fn label(buf: &mut Buffer, area: Rect, name: &str, value: &str, indent: u16, style: Style, theme: Theme) -> u16 {
    let x = write(buf, area.x, area.y, area.right(), name, style.patch(theme.strong()));
    write(buf, (x + 1).max(area.x + indent), area.y, area.right(), value, theme.strong())
}

/// What the top of a value axis stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// 100 percent.
    Percent,
    /// The least of a few percents that is not exceeded: a few percent of queueing or pressure are worth seeing.
    Fine,
    /// The least round number of bytes a second that is not exceeded.
    Bytes,
}

impl Top {
    /// Value and label, by the highest value in the chart.
    fn axis(self, max: f32) -> (f32, String) {
        match self {
            Self::Percent => (100.0, "100%".to_owned()),
            Self::Fine => {
                let top = [5.0, 10.0, 25.0, 50.0].into_iter().find(|top| max <= *top).unwrap_or(100.0);
                (top, format!("{top}%"))
            }
            Self::Bytes => {
                let max = charts::nice_bytes(f64::from(max));
                (max as f32, format::short_bytes(max))
            }
        }
    }
}

/// A timeline of a page: the class that it is about and has the color of, its name, its value, and the top of its axis.
#[derive(Clone, Copy)]
pub struct ChartLine(pub Class, pub &'static str, pub fn(&TimelinePoint) -> Option<f32>, pub Top);

impl ChartLine {
    /// Its value at the moment shown.
    pub fn now(&self, scene: &Scene<'_>) -> String {
        let Self(.., of, top) = self;
        // The chart may go on behind the moment shown, or have ended before it.
        let value =
            scene.frame().and_then(|frame| of(&TimelinePoint::from_frame(frame, Class::default()))).map(f64::from);
        match top {
            Top::Bytes => format!("{}M/s", format::mib_s(value)),
            Top::Percent | Top::Fine => format::percent(value),
        }
    }

    /// Its values over the time that a chart of so many cells shows.
    pub fn columns(&self, cells: u16, scene: &Scene<'_>) -> ChartColumns {
        let Self(.., of, _) = *self;
        ChartColumns::gather(&scene.job.history.timeline, scene.window(cells), of)
    }

    /// Draws axis and chart, or `empty` where there is nothing to draw and something to say about it.
    pub fn plot(&self, buf: &mut Buffer, band: Band, empty: &str, scene: &Scene<'_>) {
        let (Self(about, .., top), theme) = (*self, scene.theme);
        let columns = self.columns(band.chart.width, scene);
        if !empty.is_empty() && columns.values().all(|value| value.is_none()) {
            write_fit(buf, band.chart, empty, theme.dim());
            return;
        }
        let (max, label) = top.axis(columns.max());
        axis(buf, band, &label, theme);
        charts::timeline(buf, band.chart, &columns, max, theme.series(about), theme);
    }
}

/// Labels the top and the bottom of a value axis.
pub fn axis(buf: &mut Buffer, band: Band, top: &str, theme: Theme) {
    let end = band.axis.right().saturating_sub(1);
    write_right(buf, band.axis.x, band.axis.y, end, top, theme.dim());
    if band.axis.height > 1 {
        write_right(buf, band.axis.x, band.axis.bottom() - 1, end, "0", theme.dim());
    }
}

/// What there is to wait for before there can be any rate.
pub fn unread(frame: Option<&Frame>) -> Option<&'static str> {
    match frame {
        None => Some("waiting for the first sample"),
        Some(frame) if frame.seconds <= 0.0 => Some("rates come with the second sample"),
        Some(_) => None,
    }
}

/// The time axis: seconds before the newest moment shown, and the clock at the cursor.
pub fn ruler(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let (window, theme) = (scene.window(area.width), scene.theme);
    if window.sweep {
        charts::sweep_ruler(buf, area, window, theme.dim());
        return;
    }
    // The edge of a picture that stands is a moment of the past.
    let edge = if scene.job.is_live() { "now" } else { "0s" };
    charts::ruler(buf, area, scene.job.span_s(), edge, theme.dim());
    let (Some(cell), Some(moment)) = (scene.cursor_cell(area.width), scene.job.cursor()) else { return };
    let text = format!("▲{}", labels::clock(moment.frame.unix_ms, scene.zone));
    let x = (area.x + cell).min(area.right().saturating_sub(cells(&text)));
    write(buf, x, area.y, area.right(), &text, theme.cursor());
}
