//! One bar for each worker: busy, waiting for its data, queueing for a CPU, idle.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::theme::Look;
use crate::widgets::panel::Panel;
use crate::widgets::{Scene, bars};
use crate::{charts, format};
use trainmon_diagnosis::diagnosis::verdict::Stages;
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;

/// Width of the PID before a bar, and of the numbers after it.
const BEFORE: u16 = 8;
const BEHIND: u16 = 22;

/// Draws a legend and as many workers as fit.
pub fn draw(buf: &mut Buffer, area: Rect, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (count, room) = (frame.workers.len(), bars::room(area, buf.area));
    let mut panel = Panel::new("each worker", theme.strong());
    if count > room {
        panel = panel.with(format!("{room} of {count} shown"), theme.dim());
    }
    for stage in Look::STAGES {
        panel = panel.with(format!("{} {}", theme.glyph(stage), stage.word), theme.style(stage));
    }
    let inner = panel.draw(buf, area, theme);
    for (worker, area) in frame.workers.iter().zip(bars::places(inner)) {
        line(area.width, worker, scene).render(area, buf);
    }
}

fn line(width: u16, worker: &WorkerRates, scene: &Scene<'_>) -> Line<'static> {
    let theme = scene.theme;
    let shares = [worker.busy, worker.io_wait, worker.runnable, worker.idle];
    let shares = Look::STAGES.into_iter().zip(shares.map(|share| share.filter(|share| share.is_finite())));
    let known: Vec<(Look, f64)> = shares.filter_map(|(stage, share)| Some((stage, share?))).collect();
    let most = known.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let text = most.map_or_else(
        || format::UNMEASURED.to_owned(),
        |(most, share)| {
            let (share, rate) = (share * 100.0, format::number(worker.batches_per_s));
            match by_stacks(worker.id.pid, scene) {
                Some(name) if [Look::BUSY, Look::IO].contains(&most) => format!("{share:>3.0}% {name:<9} {rate}/s"),
                _ => format!("{share:>3.0}% {:<5} {rate}/s", most.word),
            }
        },
    );
    let style = theme.style(most.map_or(Look::IDLE, |(most, _)| most));
    let mut line = Line::styled(format!("{:>7} ", worker.id.pid), theme.dim());
    line.extend(charts::split(width.saturating_sub(BEFORE + BEHIND), &known, theme));
    line.push_span(Span::styled(format!(" {text}"), style));
    line
}

/// The worker's main activity, if stacks show it.
fn by_stacks(pid: u32, scene: &Scene<'_>) -> Option<&'static str> {
    let Stages { load, decode, transform, collate, .. } =
        scene.verdict()?.workers.iter().find(|worker| worker.pid == pid)?.stages?;
    let parts = [("load", load), ("decode", decode), ("transform", transform), ("collate", collate)];
    parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > 0.05).map(|(name, _)| name)
}
