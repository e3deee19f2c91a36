//! The timelines of storage and network, on the time axis of all pages.

use crate::history::timeline::{self, Point};
use crate::rates::Frame;
use crate::tui::charts::Columns;
use crate::tui::format;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Band, Top};
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::text::{write, write_right};

/// Rows of the smallest picture: one of each, and the time axis.
pub const LEAST: u16 = TIMELINES.len() as u16 + 1;
/// Highest timeline worth its rows.
const HIGHEST: u16 = 8;

/// One timeline.
struct Timeline {
    name: &'static str,
    /// The value at the moment shown, and those over time.
    now: fn(&Frame) -> Option<f64>,
    of: fn(&Point) -> Option<f32>,
    top: Top,
    empty: &'static str,
}

const TIMELINES: [Timeline; 5] = [
    Timeline {
        name: "Job reads",
        now: timeline::read_bytes_s,
        of: |p| p.io.get(),
        top: Top::Bytes,
        empty: "the job's reads are not known",
    },
    Timeline {
        name: "Disk read",
        now: |f| f.storage.read_bytes_s,
        of: |p| p.disk_read.get(),
        top: Top::Bytes,
        empty: "no disk is seen",
    },
    Timeline {
        name: "Disk write",
        now: |f| f.storage.write_bytes_s,
        of: |p| p.disk_write.get(),
        top: Top::Bytes,
        empty: "no disk is seen",
    },
    Timeline {
        name: "Disk busy",
        now: |f| f.storage.utilization_pct,
        of: |p| p.disk_util.get(),
        top: Top::Percent,
        empty: "no disk is seen",
    },
    Timeline {
        name: "Network in",
        now: |f| f.host.net_rx_bytes_s,
        of: |p| p.net_rx.get(),
        top: Top::Bytes,
        empty: "the network is not seen",
    },
];

/// Draws them, in `spare` rows if there are so many.
pub fn draw(page: &mut Scroll<'_>, spare: u16, scene: &Scene<'_>) {
    let height = (spare.saturating_sub(1) / TIMELINES.len() as u16).clamp(1, HIGHEST);
    for timeline in &TIMELINES {
        if let Some(band) = page.band(height) {
            timeline.draw(page, band, scene);
        }
    }
    page.ruler(None, scene);
}

impl Timeline {
    fn draw(&self, page: &mut Scroll<'_>, band: Band, scene: &Scene<'_>) {
        let (buf, text, theme) = (&mut *page.buf, band.text, scene.theme);
        let name = theme.series(Series::Io).patch(theme.strong());
        let x = write(buf, text.x, text.y, text.right(), self.name, name);
        let value = scene.frame().and_then(self.now);
        let value = match self.top {
            Top::Bytes => format!("{}M/s", format::mib_s(value)),
            _ => format::percent(value),
        };
        write_right(buf, x + 1, text.y, text.right(), &value, theme.strong());
        let columns = Columns::gather(&scene.job.history.timeline, scene.window(band.chart.width), self.of);
        let empty = chart::unread(scene.frame()).unwrap_or(self.empty);
        chart::plot(buf, band, &columns, self.top, Series::Io, empty, theme);
    }
}
