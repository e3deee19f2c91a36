//! Where each second of the main thread goes: waiting for a batch, waiting for the device, working, saving, other.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{flow, flow_rows};
use crate::history::timeline;
use crate::tui::app::App;
use crate::tui::charts;
use crate::tui::layout::Band;
use crate::tui::theme::{Part, Theme};

/// Draws the legend with the current shares, and the stack over time.
pub fn draw(buf: &mut Buffer, band: Band, app: &App) {
    let frame = app.frame();
    let shares = frame.and_then(timeline::loop_shares).map(|split| split.values());
    let trainers = frame.map_or(0, |f| f.trainers.len());
    // The long legend where it fits, else the short one.
    let long = legend(shares, trainers, app.theme(), true);
    if flow_rows(band.text.width, &long) <= band.text.height {
        flow(buf, band.text, &long);
    } else {
        flow(buf, band.text, &legend(shares, trainers, app.theme(), false));
    }
    charts::stacked(buf, band.chart, &app.job().history.timeline, app.window(band.chart.width), app.theme());
}

fn legend(shares: Option<[f64; 5]>, trainers: usize, theme: Theme, long: bool) -> Vec<(String, Style)> {
    let name = match (trainers, long) {
        (0 | 1, true) => "Main thread".to_owned(),
        (0 | 1, false) => "Main".to_owned(),
        (n, _) => format!("Main ×{n}"),
    };
    let mut pieces = vec![(name, theme.strong())];
    for (i, part) in Part::ALL.into_iter().enumerate() {
        let share = shares.as_ref().and_then(|s| s.get(i)).map_or("–".to_owned(), |v| format!("{:.0}%", v * 100.0));
        let glyph = theme.part_glyph(part);
        let text = match (long, theme.ascii) {
            (true, _) => format!("{glyph} {} {share}", part.word()),
            (false, false) => format!("{glyph}{} {share}", short(part)),
            // The letters of the ASCII textures are the first letters of these words.
            (false, true) => format!("{} {share}", short_ascii(part)),
        };
        pieces.push((text, theme.part(part)));
    }
    pieces
}

fn short_ascii(part: Part) -> &'static str {
    match part {
        Part::Wait => "Wait",
        Part::Sync => "Sync",
        Part::Host => "Host",
        Part::Checkpoint => "Ckpt",
        Part::Other => ".other",
    }
}

fn short(part: Part) -> &'static str {
    match part {
        Part::Wait => "wait",
        Part::Sync => "sync",
        Part::Host => "host",
        Part::Checkpoint => "save",
        Part::Other => "other",
    }
}
