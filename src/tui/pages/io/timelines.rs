//! The timelines of storage and network, on the time axis of all pages.

use crate::history::timeline::{self, Point};
use crate::rates::Frame;
use crate::tui::charts::Columns;
use crate::tui::format;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Top};
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::text::{write, write_right};

/// Rows of the smallest picture: one of each, and the time axis.
pub const LEAST: u16 = TIMELINES.len() as u16 + 1;
/// Highest timeline worth its rows.
const HIGHEST: u16 = 8;

/// One timeline: its name, the value at the moment shown and over time, the top of its axis, and what is said where there
/// is nothing to draw.
struct Timeline(&'static str, fn(&Frame) -> Option<f64>, fn(&Point) -> Option<f32>, Top, &'static str);

const TIMELINES: [Timeline; 5] = [
    Timeline("Job reads", timeline::read_bytes_s, |p| p.io.get(), Top::Bytes, "the job's reads are not known"),
    Timeline("Disk read", |f| f.storage.read_bytes_s, |p| p.disk_read.get(), Top::Bytes, NO_DISK),
    Timeline("Disk write", |f| f.storage.write_bytes_s, |p| p.disk_write.get(), Top::Bytes, NO_DISK),
    Timeline("Disk busy", |f| f.storage.utilization_pct, |p| p.disk_util.get(), Top::Percent, NO_DISK),
    Timeline("Network in", |f| f.host.net_rx_bytes_s, |p| p.net_rx.get(), Top::Bytes, "the network is not seen"),
];
const NO_DISK: &str = "no disk is seen";

/// Draws them, in `spare` rows if there are so many.
pub fn draw(page: &mut Scroll<'_>, spare: u16, scene: &Scene<'_>) {
    let height = (spare.saturating_sub(1) / TIMELINES.len() as u16).clamp(1, HIGHEST);
    for Timeline(name, now, over_time, top, empty) in TIMELINES {
        let Some(band) = page.band(height) else { continue };
        let (buf, text, theme) = (&mut *page.buf, band.text, scene.theme);
        let x = write(buf, text.x, text.y, text.right(), name, theme.series(Series::Io).patch(theme.strong()));
        let value = scene.frame().and_then(now);
        let value = match top {
            Top::Bytes => format!("{}M/s", format::mib_s(value)),
            _ => format::percent(value),
        };
        write_right(buf, x + 1, text.y, text.right(), &value, theme.strong());
        let columns = Columns::gather(&scene.job.history.timeline, scene.window(band.chart.width), over_time);
        let empty = chart::unread(scene.frame()).unwrap_or(empty);
        chart::plot(buf, band, &columns, top, Series::Io, empty, theme);
    }
    page.ruler(None, scene);
}
