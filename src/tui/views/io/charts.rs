//! The timelines of storage and network, on the time axis of all pages.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::history::timeline::{self, Point};
use crate::rates::Frame;
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::charts::{self, Columns};
use crate::tui::format;
use crate::tui::layout;
use crate::tui::theme::Series;
use crate::tui::views::{Charts, sheet, timelines, write, write_right};

/// How many there are.
const CHARTS: u16 = 5;
/// Rows of the smallest picture: one of each, and the time axis.
pub const LEAST: u16 = CHARTS + 1;
/// Highest timeline worth its rows.
const HIGHEST: u16 = 8;

/// One timeline.
struct Shown {
    name: &'static str,
    /// The value at the moment shown, and those over time.
    now: fn(&Frame) -> Option<f64>,
    of: fn(&Point) -> Option<f32>,
    percent: bool,
    empty: &'static str,
}

const SHOWN: [Shown; CHARTS as usize] = [
    Shown {
        name: "Job reads",
        now: timeline::read_bytes_s,
        of: |p| p.io.get(),
        percent: false,
        empty: "the job's reads are not known",
    },
    Shown {
        name: "Disk read",
        now: |f| f.storage.read_bytes_s,
        of: |p| p.disk_read.get(),
        percent: false,
        empty: "no disk is seen",
    },
    Shown {
        name: "Disk write",
        now: |f| f.storage.write_bytes_s,
        of: |p| p.disk_write.get(),
        percent: false,
        empty: "no disk is seen",
    },
    Shown {
        name: "Disk busy",
        now: |f| f.storage.utilization_pct,
        of: |p| p.disk_util.get(),
        percent: true,
        empty: "no disk is seen",
    },
    Shown {
        name: "Network in",
        now: |f| f.host.net_rx_bytes_s,
        of: |p| p.net_rx.get(),
        percent: false,
        empty: "the network is not seen",
    },
];

/// Rows of each timeline where `spare` rows are left for all of them.
fn height(spare: u16) -> u16 {
    (spare.saturating_sub(1) / CHARTS).clamp(1, HIGHEST)
}

/// Rows of all of them and of the time axis.
pub fn rows(spare: u16) -> u16 {
    height(spare) * CHARTS + 1
}

/// Where each timeline and the time axis are, as far as they are whole inside `area`; the first one begins `from` rows
/// below its top, or above it.
fn bands(area: Rect, from: isize, spare: u16) -> [Option<layout::Band>; CHARTS as usize + 1] {
    let height = height(spare);
    std::array::from_fn(|i| {
        let rows = if i < SHOWN.len() { height } else { 1 };
        let place = from + (i * usize::from(height)) as isize;
        let y = u16::try_from(place).ok().filter(|y| y.saturating_add(rows) <= area.height)?;
        Some(layout::band(Rect { y: area.y + y, height: rows, ..area }))
    })
}

/// Draws them.
pub fn draw(buf: &mut Buffer, area: Rect, from: isize, spare: u16, app: &App) {
    let bands = bands(area, from, spare);
    for (shown, band) in SHOWN.iter().zip(bands).filter_map(|(shown, band)| Some((shown, band?))) {
        one(buf, band, shown, app);
    }
    if let Some(band) = bands.last().copied().flatten() {
        timelines::ruler(buf, band.chart, app);
    }
}

/// Where they are.
pub fn places(area: Rect, from: isize, spare: u16) -> Charts {
    let places = bands(area, from, spare).map(|band| band.map(|band| band.chart));
    let (ruler, timelines) = places.split_last().map_or((None, &[][..]), |(ruler, above)| (*ruler, above));
    Charts { timelines: timelines.iter().copied().flatten().collect(), ruler }
}

fn one(buf: &mut Buffer, band: layout::Band, shown: &Shown, app: &App) {
    let theme = app.theme();
    let style = theme.series(Series::Io);
    let x = write(buf, band.text.x, band.text.y, band.text.right(), shown.name, style.patch(theme.strong()));
    let value = app.frame().and_then(shown.now);
    let value = if shown.percent { format::percent(value) } else { format!("{}M/s", format::mib_s(value)) };
    write_right(buf, x + 1, band.text.y, band.text.right(), &value, theme.strong());
    let columns = Columns::gather(&app.job().history.timeline, app.window(band.chart.width), shown.of);
    if columns.values().all(|value| value.is_none()) {
        let text = fit(timelines::unread(app.frame()).unwrap_or(shown.empty), usize::from(band.chart.width));
        write(buf, band.chart.x, band.chart.y, band.chart.right(), &text, theme.dim());
        return;
    }
    let (max, top) = if shown.percent {
        (100.0, "100%".to_owned())
    } else {
        let max = charts::nice_bytes(f64::from(columns.max()));
        (max as f32, format::short_bytes(max))
    };
    sheet::axis(buf, band, &top, theme);
    charts::timeline(buf, band.chart, &columns, max, style, theme);
}
