//! A timeline in a panel, and the time axis of several timelines.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::panel::Panel;
use super::scene::Scene;
use super::text::cells;
use crate::charts::{self, ChartColumns, FilledTimeline, TimeRuler};
use crate::format;
use crate::theme::{Look, WithLook};
use trainmon_base::stats;
use trainmon_base::text::fit;
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::timeline::TimelinePoint;
use trainmon_waits::Frame;

/// How the top of a value axis is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// 100 percent.
    Percent,
    /// The smallest of a few percentages that covers all values: a few percent of queueing or pressure are worth
    /// seeing.
    Fine,
    /// The smallest round number of bytes per second that covers all values.
    Bytes,
}

impl Top {
    /// Value and label, for the highest value in the chart.
    fn axis(self, max: f32) -> (f32, String) {
        match self {
            Self::Percent => (100.0, "100%".to_owned()),
            Self::Fine => {
                let top = [5.0, 10.0, 25.0, 50.0].into_iter().find(|top| max <= *top).unwrap_or(100.0);
                (top, format!("{top}%"))
            }
            Self::Bytes => {
                let max = stats::nice_bytes(f64::from(max));
                (max as f32, format!("{}/s", format::short_bytes(max)))
            }
        }
    }
}

/// A timeline: the class that it is about and that gives its color, its name, its value, and the top of its axis.
#[derive(Clone, Copy)]
pub struct ChartLine(pub Class, pub &'static str, pub fn(&TimelinePoint) -> Option<f32>, pub Top);

impl ChartLine {
    /// Its value at the moment shown.
    pub fn now(&self, scene: &Scene<'_>) -> String {
        let Self(.., of, top) = self;
        // The chart may continue after the moment shown, or have ended before it.
        let value =
            scene.frame().and_then(|frame| of(&TimelinePoint::from_frame(frame, Class::default()))).map(f64::from);
        match top {
            Top::Bytes => format!("{} MiB/s", format::mib_s(value)),
            Top::Percent | Top::Fine => format::percent(value),
        }
    }

    /// Its panel, with its value at the moment shown.
    pub fn panel(&self, scene: &Scene<'_>) -> Panel {
        let Self(about, name, ..) = *self;
        let theme = scene.theme;
        Panel::new(name, theme.series(about).patch(theme.strong())).with(self.now(scene), theme.strong())
    }

    /// Its values over the time that a chart of so many cells shows.
    pub fn columns(&self, cells: u16, scene: &Scene<'_>) -> ChartColumns {
        let Self(.., of, _) = *self;
        ChartColumns::gather(&scene.job.history.timeline, scene.window(cells), of)
    }

    /// Draws the chart, or `empty` if there is nothing to draw; returns the label at the top of its axis, if it has one.
    pub fn plot(&self, buf: &mut Buffer, area: Rect, empty: &str, scene: &Scene<'_>) -> Option<String> {
        let (Self(about, .., top), theme) = (*self, scene.theme);
        let columns = self.columns(area.width, scene);
        if !empty.is_empty() && columns.values().all(|value| value.is_none()) {
            let row = area.inner(Margin::new(1, 0));
            Span::styled(fit(empty, usize::from(row.width)), theme.dim()).render(row, buf);
            return None;
        }
        let (max, label) = top.axis(columns.max());
        let look = |percent| if top == Top::Fine { Look::of_pressure(percent) } else { about.look() };
        FilledTimeline { columns: &columns, max, look, theme }.render(area, buf);
        Some(label)
    }
}

/// What to wait for before any rate can be shown.
pub fn unread(frame: Option<&Frame>) -> Option<&'static str> {
    match frame {
        None => Some("waiting for the first sample"),
        Some(frame) if frame.seconds <= 0.0 => Some("rates need a second sample"),
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
    let (Some(cell), Some(moment)) = (scene.cursor_cell(area.width), scene.job.cursor()) else {
        let edge = if scene.job.ended.is_some() { "end" } else { "now" };
        TimeRuler { span_s: scene.job.span_s(), edge, style: theme.dim() }.render(area, buf);
        return;
    };
    // The cursor's clock overwrites the axis.
    TimeRuler { span_s: scene.job.span_s(), edge: "0s", style: theme.dim() }.render(area, buf);
    let text = format!(" ▲{} ", zone::clock(moment.frame.unix_ms, scene.zone));
    let x = (area.x + cell).saturating_sub(1).max(area.x).min(area.right().saturating_sub(cells(&text)));
    Span::styled(text, theme.cursor()).render(Rect { x, width: area.right().saturating_sub(x), ..area }, buf);
}
