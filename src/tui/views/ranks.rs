//! One bar for each rank of a distributed run: where its main thread's time goes, and its device.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::write;
use crate::rates::Frame;
use crate::rates::frame::TrainerRates;
use crate::rates::time_split::LoopActivity;
use crate::tui::app::App;
use crate::tui::{charts, format, layout};

/// Cells of the rank and PID in front of a bar, and of the numbers behind it.
const BEFORE: u16 = 11;
const BEHIND: u16 = 15;

/// Draws a heading and as many ranks as fit, side by side where the terminal is wide.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let Some(frame) = app.frame() else { return };
    let theme = app.theme();
    let x = write(buf, area.x, area.y, area.right(), "Ranks", theme.strong()) + 2;
    let columns = layout::bar_columns(area.width);
    let room = usize::from(area.height.saturating_sub(1)) * usize::from(columns);
    let count = frame.trainers.len();
    let straggler = straggler(frame, app);
    let text = match straggler {
        Some(place) => format!("{count}: bar as above, wait for batch, GPU; the others wait for rank {place} (!)"),
        None => format!("{count}: bar as above, wait for batch, GPU"),
    };
    let x = write(buf, x, area.y, area.right(), &text, theme.dim());
    if count > room {
        write(buf, x + 2, area.y, area.right(), &format!("{room} of {count} shown"), theme.dim());
    }
    let width = area.width / columns;
    let places = (1..area.height).flat_map(|row| (0..columns).map(move |c| (area.x + c * width, area.y + row)));
    for ((rank, trainer), (x, y)) in frame.trainers.iter().enumerate().zip(places) {
        let area = Rect::new(x, y, width, 1);
        one(buf, area, (rank, trainer), frame, app);
        if straggler == Some(rank) {
            write(buf, x, y, area.right(), &format!("{rank:>2}!"), theme.warning());
        }
    }
}

fn one(buf: &mut Buffer, area: Rect, (rank, trainer): (usize, &TrainerRates), frame: &Frame, app: &App) {
    let theme = app.theme();
    write(buf, area.x, area.y, area.right(), &format!("{rank:>2} {:>7}", trainer.id.pid), theme.dim());
    let bar = Rect { x: area.x + BEFORE, width: area.width.saturating_sub(BEFORE + BEHIND), ..area };
    let parts = LoopActivity::ALL.into_iter().zip(trainer.split_s.values());
    let parts = parts.map(|(activity, s)| (theme.activity_glyph(activity), theme.activity(activity), s));
    charts::split(buf, bar, parts, theme);
    let wait = (trainer.seconds_seen > 0.0).then(|| trainer.split_s.input_wait / trainer.seconds_seen * 100.0);
    let mut devices = frame.gpus.iter().filter(|gpu| gpu.job_pids.contains(&trainer.id.pid));
    let text = match devices.next() {
        Some(first) => {
            // Of several devices the idlest is shown: a mean would hide it.
            let (mut more, mut least) = (0, first.utilization_pct);
            for gpu in devices {
                more += 1;
                least = least.into_iter().chain(gpu.utilization_pct).reduce(f64::min);
            }
            let more = if more > 0 { format!("+{more}") } else { String::new() };
            format!("{:>4} G{}{more} {}", short(wait), first.index, short(least))
        }
        None => format!("{:>4} wait", short(wait)),
    };
    write(buf, bar.right() + 1, area.y, area.right(), &text, theme.dim());
}

/// A percent in as few cells as it takes.
fn short(percent: Option<f64>) -> String {
    format::percent(percent).replace(' ', "")
}

/// The rank that the others wait for, by its place.
fn straggler(frame: &Frame, app: &App) -> Option<usize> {
    let straggler = app.verdict()?.ranks.iter().find(|rank| rank.straggler)?;
    frame.trainers.iter().position(|trainer| trainer.id.pid == straggler.pid)
}
