//! The loop's waits over time, and what ended them, on the time axis of all pages.

use crate::diagnosis::verdict::Class;
use crate::history::timeline::Point;
use crate::tui::charts::Columns;
use crate::tui::format;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Top};
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::text::{write, write_right};

/// Highest timeline worth its rows.
const HIGHEST: u16 = 6;

/// A timeline: its series, its name, and the value.
struct Timeline(Series, &'static str, fn(&Point) -> Option<f32>);

/// The waits, then what ended them.
const TIMELINES: [Timeline; 6] = [
    Timeline(Series::Loader, "Loop waits", |p| p.waits.get()),
    Timeline(Series::Cpu, "← others' CPU", |p| p.waits_cpu.get()),
    Timeline(Series::Io, "← disk, memory", |p| p.waits_disk.get()),
    Timeline(Series::Io, "← network", |p| p.waits_net.get()),
    Timeline(Series::Gpu, "← GPU", |p| p.waits_gpu.get()),
    Timeline(Series::Loader, "← anything else", |p| p.waits_other.get()),
];

/// Draws the waits and those of the ends that there were, in `spare` rows if there are so many.
pub fn draw(page: &mut Scroll<'_>, spare: u16, scene: &Scene<'_>) {
    let theme = scene.theme;
    let timeline = &scene.job.history.timeline;
    let width = chart::Band::of(page.area).chart.width;
    let window = scene.window(width);
    let all = Columns::gather_each(timeline, window, |point| TIMELINES.map(|Timeline(_, _, of)| of(point)));
    let shown: Vec<_> = TIMELINES
        .into_iter()
        .zip(&all)
        .enumerate()
        .filter(|(at, (_, columns))| *at == 0 || columns.max() > 0.0)
        .collect();
    let height = (spare.saturating_sub(1) / shown.len().max(1) as u16).clamp(1, HIGHEST);
    for (_, (Timeline(series, name, of), columns)) in shown {
        let Some(band) = page.band(height) else { continue };
        let (buf, text) = (&mut *page.buf, band.text);
        let x = write(buf, text.x, text.y, text.right(), name, theme.series(series).patch(theme.strong()));
        let value = scene.frame().and_then(|frame| of(&Point::of(frame, Class::default())));
        write_right(buf, x + 1, text.y, text.right(), &format::percent(value.map(f64::from)), theme.strong());
        let empty = chart::unread(scene.frame()).unwrap_or("no wait was followed");
        chart::plot(buf, band, columns, Top::Percent, series, empty, theme);
    }
    page.ruler(None, scene);
}
