//! What pages and widgets may read: the job at the moment shown, and how to draw it.

use jiff::tz::TimeZone;

use crate::job::Job;
use crate::theme::Theme;
use trainmon_diagnosis::diagnosis::verdict::{Subject, Unavailable, Verdict};
use trainmon_diagnosis::history::timeline::TimelineWindow;
use trainmon_views::cost::Price;
use trainmon_waits::Frame;

/// The job at the moment shown, and how to draw it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The job.
    pub job: &'a Job,
    /// Colors and glyphs.
    pub theme: Theme,
    /// Sweep: charts keep their columns in place, and time wraps around.
    pub sweep: bool,
    /// Time zone of the clock times shown.
    pub zone: &'a TimeZone,
    /// What an hour of a GPU costs.
    pub price: Option<&'a Price>,
    /// Whether signals may be sent to the job's processes.
    pub may_signal: bool,
}

impl<'a> Scene<'a> {
    /// The frame on the screen.
    pub fn frame(&self) -> Option<&'a Frame> {
        self.job.frame()
    }

    /// The verdict on the screen.
    pub fn verdict(&self) -> Option<&'a Verdict> {
        self.job.verdict()
    }

    /// Whether the verdict on the screen says that this was not available.
    pub fn not_seen(&self, what: Subject) -> Option<&'a Unavailable> {
        self.verdict()?.not_seen.iter().find(|missing| missing.what == what.into())
    }

    /// The time span of charts that are `cells` wide.
    pub fn window(&self, cells: u16) -> TimelineWindow {
        let window = TimelineWindow::of_cells(self.job.edge_ns(), self.job.span_s(), cells);
        if self.sweep { window.sweeping() } else { window }
    }

    /// The selected moment's cell in charts of so many cells; `None` if the newest moment is shown, which the gap of a
    /// sweep already marks.
    pub fn cursor_cell(&self, cells: u16) -> Option<u16> {
        let ns = self.job.cursor()?.frame.monotonic_ns;
        let window = self.window(cells);
        // The newest moment may not be drawn yet.
        if !window.sweep { window.cell_of(ns.min(window.edge_ns)) } else { None }
    }
}
