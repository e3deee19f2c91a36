//! Where each second of the main thread goes: waiting for a batch, waiting for the device, working, saving, other.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{flow, flow_rows};
use crate::history::timeline;
use crate::rates::time_split::LoopActivity;
use crate::tui::app::App;
use crate::tui::charts;
use crate::tui::layout::Band;
use crate::tui::theme::{Theme, activity_word};

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
    for (i, part) in LoopActivity::ALL.into_iter().enumerate() {
        let share = shares.as_ref().and_then(|s| s.get(i)).map_or("–".to_owned(), |v| format!("{:.0}%", v * 100.0));
        let glyph = theme.activity_glyph(part);
        let text = match (long, theme.ascii) {
            (true, _) => format!("{glyph} {} {share}", activity_word(part)),
            (false, false) => format!("{glyph}{} {share}", short(part)),
            // The letters of the ASCII textures are the first letters of these words.
            (false, true) => format!("{} {share}", short_ascii(part)),
        };
        pieces.push((text, theme.activity(part)));
    }
    pieces
}

fn short_ascii(part: LoopActivity) -> &'static str {
    match part {
        LoopActivity::InputWait => "Wait",
        LoopActivity::DeviceSync => "Sync",
        LoopActivity::HostBusy => "Host",
        LoopActivity::Checkpoint => "Ckpt",
        LoopActivity::Other => ".other",
    }
}

fn short(part: LoopActivity) -> &'static str {
    match part {
        LoopActivity::InputWait => "wait",
        LoopActivity::DeviceSync => "sync",
        LoopActivity::HostBusy => "host",
        LoopActivity::Checkpoint => "save",
        LoopActivity::Other => "other",
    }
}
