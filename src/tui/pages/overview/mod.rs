//! The page that somebody sees first: where each second of the loop goes, every timeline, ranks and workers, all on one
//! time axis below the verdict.

mod layout;
mod main_thread;
mod ranks;
mod timelines;
mod workers;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Content;
use crate::tui::charts;
use crate::tui::widgets::drawn::Drawn;
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::scrolled;
use crate::tui::widgets::text::write;
use layout::Rows;

/// It remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overview;

impl Content for Overview {
    fn banner_rows(&self, area: Rect, scene: &Scene<'_>) -> u16 {
        Rows::of(area, scene.frame()).banner
    }

    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, _top: usize, drawn: &mut Drawn) {
        let rows = Rows::of(buf.area, scene.frame());
        scrolled(buf, area, 0, drawn, |page| {
            if let Some(band) = page.band(1) {
                let (text, theme) = (band.text, scene.theme);
                let x = write(page.buf, text.x, text.y, text.right(), "Verdicts", theme.strong());
                if text.width >= 31 {
                    write(page.buf, x + 1, text.y, text.right(), "Data Io Cpu Gpu z=idle", theme.dim());
                }
                charts::strip(
                    page.buf,
                    band.chart,
                    &scene.job.history.timeline,
                    scene.window(band.chart.width),
                    theme,
                );
            }
            if let Some(band) = page.band(rows.main) {
                main_thread::draw(page.buf, band, scene);
            }
            for chart in timelines::all(scene) {
                if let Some(band) = page.band(rows.chart) {
                    chart.draw(page.buf, band, scene);
                }
            }
            page.ruler(None, scene);
            let area = page.next(rows.ranks);
            if let Some(frame) = scene.frame().filter(|_| area.height > 0) {
                ranks::draw(page.buf, area, frame, scene);
            }
            let area = page.next(rows.workers);
            if let Some(frame) = scene.frame().filter(|_| area.height > 0) {
                workers::draw(page.buf, area, frame, scene);
            }
        });
    }
}
