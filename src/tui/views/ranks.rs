//! One bar for each rank of a distributed run: where its main thread's time goes, and its device.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::write;
use crate::rates::Frame;
use crate::rates::frame::TrainerRates;
use crate::tui::app::App;
use crate::tui::theme::Part;
use crate::tui::{charts, format, layout};

/// Cells of the rank and PID in front of a bar, and of the numbers behind it.
const BEFORE: u16 = 11;
const BEHIND: u16 = 14;

/// Draws a heading and as many ranks as fit, side by side where the terminal is wide.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let Some(frame) = app.frame() else { return };
    let theme = app.theme();
    let x = write(buf, area.x, area.y, area.right(), "Ranks", theme.strong()) + 2;
    let columns = layout::bar_columns(area.width);
    let room = usize::from(area.height.saturating_sub(1)) * usize::from(columns);
    let count = frame.trainers.len();
    let text = match straggler(app) {
        Some(place) => format!("{count}; the others wait for rank {place}"),
        None => format!("{count}, main threads as above"),
    };
    let x = write(buf, x, area.y, area.right(), &text, theme.dim());
    if count > room {
        write(buf, x + 2, area.y, area.right(), &format!("{room} of {count} shown"), theme.dim());
    }
    let width = area.width / columns;
    let places = (1..area.height).flat_map(|row| (0..columns).map(move |c| (area.x + c * width, area.y + row)));
    for ((rank, trainer), (x, y)) in frame.trainers.iter().enumerate().zip(places) {
        one(buf, Rect::new(x, y, width, 1), (rank, trainer), frame, app);
    }
}

fn one(buf: &mut Buffer, area: Rect, (rank, trainer): (usize, &TrainerRates), frame: &Frame, app: &App) {
    let theme = app.theme();
    write(buf, area.x, area.y, area.right(), &format!("{rank:>2} {:>7}", trainer.id.pid), theme.dim());
    let bar = Rect { x: area.x + BEFORE, width: area.width.saturating_sub(BEFORE + BEHIND), ..area };
    let seconds =
        [trainer.input_wait_s, trainer.device_sync_s, trainer.host_busy_s, trainer.checkpoint_s, trainer.other_s];
    let parts = Part::ALL.into_iter().zip(seconds).map(|(part, s)| (theme.part_glyph(part), theme.part(part), s));
    charts::split(buf, bar, parts, theme);
    let wait = (trainer.seconds_seen > 0.0).then(|| trainer.input_wait_s / trainer.seconds_seen);
    let device = frame.gpus.iter().find(|gpu| gpu.job_pids.contains(&trainer.id.pid));
    let text = match device {
        Some(gpu) => format!("{:>5} G{} {}", format::share(wait), gpu.index, format::percent(gpu.utilization_pct)),
        None => format!("{:>5} wait", format::share(wait)),
    };
    write(buf, bar.right() + 1, area.y, area.right(), &text, theme.dim());
}

/// The rank that the others wait for, by its place.
fn straggler(app: &App) -> Option<usize> {
    app.verdict()?.ranks.iter().position(|rank| rank.straggler)
}
