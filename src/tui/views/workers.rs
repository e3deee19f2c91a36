//! One bar for each worker: busy, waiting for its data, queueing for a CPU, idle.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::write;
use crate::rates::frame::WorkerRates;
use crate::tui::app::App;
use crate::tui::theme::Stage;
use crate::tui::{charts, format, layout};

/// Cells of the PID in front of a bar and of the numbers behind it.
const BEFORE: u16 = 8;
const BEHIND: u16 = 22;

/// Draws a legend and as many workers as fit, side by side where the terminal is wide.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let workers = app.frame().map(|f| f.workers.as_slice()).unwrap_or_default();
    let theme = app.theme();
    let mut x = write(buf, area.x, area.y, area.right(), "Workers", theme.strong()) + 1;
    for stage in Stage::ALL {
        let text = format!("{} {}", theme.stage_glyph(stage), stage.word());
        x = write(buf, x + 1, area.y, area.right(), &text, theme.stage(stage));
    }
    let columns = layout::bar_columns(area.width);
    let width = area.width / columns;
    let rows = area.height.saturating_sub(1);
    let room = usize::from(rows) * usize::from(columns);
    if workers.len() > room {
        let text = format!("  {} of {}", room, workers.len());
        write(buf, x + 1, area.y, area.right(), &text, theme.dim());
    }
    let places = (0..rows).flat_map(|r| (0..columns).map(move |c| (area.x + c * width, area.y + 1 + r)));
    for (worker, (x, y)) in workers.iter().zip(places) {
        one(buf, Rect::new(x, y, width, 1), worker, app);
    }
}

fn one(buf: &mut Buffer, area: Rect, worker: &WorkerRates, app: &App) {
    let pid = format!("{:>7} ", worker.id.pid);
    write(buf, area.x, area.y, area.right(), &pid, app.theme().dim());
    let shares = [worker.busy, worker.io_wait, worker.runnable, worker.idle];
    let bar = Rect { x: area.x + BEFORE, width: area.width.saturating_sub(BEFORE + BEHIND), ..area };
    charts::bar(buf, bar, shares, app.theme());
    let most = Stage::ALL.into_iter().zip(shares).filter_map(|(s, v)| Some((s, v.filter(|v| v.is_finite())?)));
    let most = most.max_by(|a, b| a.1.total_cmp(&b.1));
    let text = most.map_or_else(
        || format::UNMEASURED.to_owned(),
        |(stage, share)| {
            let rate = format::number(worker.batches_s);
            match stage_by_stacks(worker.id.pid, app).filter(|_| matches!(stage, Stage::Busy | Stage::Io)) {
                Some(name) => format!("{:>3.0}% {name:<9} {rate}/s", share * 100.0),
                None => format!("{:>3.0}% {:<5} {rate}/s", share * 100.0, stage.word()),
            }
        },
    );
    write(buf, bar.right() + 1, area.y, area.right(), &text, app.theme().stage(most.map_or(Stage::Idle, |m| m.0)));
}

/// What the worker does most, where stacks tell.
fn stage_by_stacks(pid: u32, app: &App) -> Option<&'static str> {
    let worker = app.verdict()?.workers.iter().find(|worker| worker.pid == pid)?;
    let stages = worker.stages.as_ref()?;
    let parts = [
        ("load", stages.load),
        ("decode", stages.decode),
        ("transform", stages.transform),
        ("collate", stages.collate),
    ];
    parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > 0.05).map(|(name, _)| name)
}
