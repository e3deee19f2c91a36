//! One bar for each worker: busy, waiting for its data, queueing for a CPU, idle.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::diagnosis::verdict::Stages;
use crate::rates::Frame;
use crate::rates::frame::WorkerRates;
use crate::tui::theme::Stage;
use crate::tui::widgets::bars;
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::text::write;
use crate::tui::{charts, format};

/// Cells of the PID in front of a bar and of the numbers behind it.
const BEFORE: u16 = 8;
const BEHIND: u16 = 22;

/// Draws a legend and as many workers as fit.
pub fn draw(buf: &mut Buffer, area: Rect, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let mut x = write(buf, area.x, area.y, area.right(), "Workers", theme.strong()) + 1;
    for stage in Stage::ALL {
        let text = format!("{} {}", theme.stage_glyph(stage), stage.word());
        x = write(buf, x + 1, area.y, area.right(), &text, theme.stage(stage));
    }
    let (count, room) = (frame.workers.len(), bars::places(area).count());
    if count > room {
        write(buf, x + 1, area.y, area.right(), &format!("  {room} of {count}"), theme.dim());
    }
    for (worker, area) in frame.workers.iter().zip(bars::places(area)) {
        one(buf, area, worker, scene);
    }
}

fn one(buf: &mut Buffer, area: Rect, worker: &WorkerRates, scene: &Scene<'_>) {
    let theme = scene.theme;
    write(buf, area.x, area.y, area.right(), &format!("{:>7} ", worker.id.pid), theme.dim());
    let shares = [worker.busy, worker.io_wait, worker.runnable, worker.idle];
    let bar = Rect { x: area.x + BEFORE, width: area.width.saturating_sub(BEFORE + BEHIND), ..area };
    charts::bar(buf, bar, shares, theme);
    let known = Stage::ALL.into_iter().zip(shares).filter_map(|(s, v)| Some((s, v.filter(|v| v.is_finite())?)));
    let Some((most, share)) = known.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        write(buf, bar.right() + 1, area.y, area.right(), format::UNMEASURED, theme.stage(Stage::Idle));
        return;
    };
    let (share, rate) = (share * 100.0, format::number(worker.batches_s));
    let text = match by_stacks(worker.id.pid, scene).filter(|_| matches!(most, Stage::Busy | Stage::Io)) {
        Some(name) => format!("{share:>3.0}% {name:<9} {rate}/s"),
        None => format!("{share:>3.0}% {:<5} {rate}/s", most.word()),
    };
    write(buf, bar.right() + 1, area.y, area.right(), &text, theme.stage(most));
}

/// What the worker does most, where stacks tell.
fn by_stacks(pid: u32, scene: &Scene<'_>) -> Option<&'static str> {
    let Stages { load, decode, transform, collate, .. } =
        scene.verdict()?.workers.iter().find(|worker| worker.pid == pid)?.stages?;
    let parts = [("load", load), ("decode", decode), ("transform", transform), ("collate", collate)];
    parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > 0.05).map(|(name, _)| name)
}
