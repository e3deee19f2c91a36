//! The first page: what the loop waits for, where each second of the loop goes, every timeline, ranks and workers, all on
//! one time axis below the verdict.

mod layout;
mod main_thread;
mod ranks;
mod timelines;
mod workers;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Content;
use crate::outputs::chain::line;
use crate::rates::Frame;
use crate::tui::charts;
use crate::tui::widgets::{Band, Drawn, Scene, scrolled, write};
use layout::OverviewRows;

/// Draws a list of bars.
type Bars = fn(&mut Buffer, Rect, &Frame, &Scene<'_>);

/// It remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overview;

impl Content for Overview {
    fn banner_rows(&self, area: Rect, scene: &Scene<'_>) -> u16 {
        OverviewRows::new(area, scene.frame(), scene.verdict()).banner
    }

    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, _top: usize, drawn: &mut Drawn) {
        let (rows, theme) = (OverviewRows::new(buf.area, scene.frame(), scene.verdict()), scene.theme);
        scrolled(buf, area, 0, drawn, |page| {
            let chain = page.next(rows.chain);
            let told = scene.verdict().filter(|_| chain.height > 0);
            if let Some(told) = told.and_then(|verdict| line(verdict, usize::from(chain.width))) {
                write(page.buf, chain.x, chain.y, chain.right(), &told, theme.strong());
            }
            if let Some(Band { text, chart, .. }) = page.band(1) {
                let x = write(page.buf, text.x, text.y, text.right(), "Verdicts", theme.strong());
                if text.width >= 31 {
                    write(page.buf, x + 1, text.y, text.right(), "Data Io Cpu Gpu z=idle", theme.dim());
                }
                let window = scene.window(chart.width);
                charts::strip(page.buf, chart, &scene.job.history.timeline, window, theme);
            }
            if let Some(band) = page.band(rows.main) {
                main_thread::draw(page.buf, band, scene);
            }
            timelines::draw(page, rows.chart, scene);
            page.ruler(None, scene);
            let bars: [(u16, Bars); 2] = [(rows.ranks, ranks::draw), (rows.workers, workers::draw)];
            for (rows, draw) in bars {
                let area = page.next(rows);
                if let Some(frame) = scene.frame().filter(|_| area.height > 0) {
                    draw(page.buf, area, frame, scene);
                }
            }
        });
    }
}
