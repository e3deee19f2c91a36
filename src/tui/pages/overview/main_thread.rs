//! Where each second of the main thread goes: waiting for a batch, waiting for the device, working, saving, other.

use ratatui::buffer::Buffer;

use crate::history::timeline;
use crate::rates::time_split::{LoopActivity, TimeSplit};
use crate::tui::charts;
use crate::tui::theme::Theme;
use crate::tui::widgets::{Band, Piece, Scene, piece_rows, write_pieces};

/// Draws the legend with the current shares, and the stack over time.
pub fn draw(buf: &mut Buffer, band: Band, scene: &Scene<'_>) {
    let shares = scene.frame().and_then(timeline::loop_shares);
    let trainers = scene.frame().map_or(0, |frame| frame.trainers.len());
    // The long legend where it fits, else the short one.
    let mut pieces = legend(shares, trainers, scene.theme, true);
    if piece_rows(band.text.width, " ", &pieces) > band.text.height {
        pieces = legend(shares, trainers, scene.theme, false);
    }
    write_pieces(buf, band.text, " ", &pieces);
    charts::stacked(buf, band.chart, &scene.job.history.timeline, scene.window(band.chart.width), scene.theme);
}

fn legend(shares: Option<TimeSplit>, trainers: usize, theme: Theme, long: bool) -> Vec<Piece> {
    let name = match (trainers, long) {
        (0 | 1, true) => "Main thread".to_owned(),
        (0 | 1, false) => "Main".to_owned(),
        (n, _) => format!("Main ×{n}"),
    };
    let parts = LoopActivity::ALL.map(|activity| {
        let share = shares.map_or("–".to_owned(), |shares| format!("{:.0}%", shares[activity] * 100.0));
        let look = activity.look();
        let glyph = theme.glyph(look);
        let word = if long { activity.word() } else { activity.short() };
        (format!("{glyph} {word} {share}"), theme.style(look))
    });
    std::iter::once((name, theme.strong())).chain(parts).collect()
}
